"""`python -m specdeck` is the same as `specdeck`."""

import sys

from specdeck.cli import main

if __name__ == "__main__":
    sys.exit(main())
