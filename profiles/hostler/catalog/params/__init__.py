"""Typed parameters of each step kind, used by the linter and by the node."""
