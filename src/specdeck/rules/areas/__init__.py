"""The rules themselves, one module for each area. Each is a function from a context to breaches and touches nothing."""
