"""Grammar and trainer of the tiny pair; see ../README.md."""
