"""Order → signed envelope, inside the engine's transaction. The only user of the dispatch key.

Reads: operations, tasks and attempts as the decision leaves them, the current catalog. Emits: envelope rows.
Must not: read the store or choose what is dispatched; the kernel has chosen.
"""
