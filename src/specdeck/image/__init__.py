"""Container images: what one is made of, and whether it is the one that a recipe asks for.

Nothing here serves from a container; that is the runtime's.
"""
