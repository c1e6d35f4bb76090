"""Whether a recipe fits: memory per GPU, KV pool in tokens, requests at a context. Arithmetic only.

Nothing here starts an engine, opens a socket or reads weights.
"""
