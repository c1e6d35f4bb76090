"""Checks of whether a faster server is still the same model: each observes a server and judges what it saw.

Observing talks to a server and decides nothing; judging is pure and decides everything. No figure of speed lives here.
"""
