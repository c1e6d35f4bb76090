"""A Triton backend named `cpu` that runs kernels in Triton's interpreter, and the fixes that vLLM needs for it.

Imported by Triton while Triton itself is half imported: this file and `compiler`/`driver` must not
import `triton.runtime`, which silently leaves Triton disabled.
"""
