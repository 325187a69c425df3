"""A policy engine of the operator's own, in processes of its own: Rego files that may refuse what the policy allows.

settings ─▶ files (read once) ─▶ engine ─▶ child ═▶ worker (the process that holds the engine)
"""
