"""A server that knows the truth: it streams at a set pace and remembers when it sent what. It loads no model.

The client is measured against it: by its tests, by its self-test, by `make perf`. Nothing served is ever a result.
"""
