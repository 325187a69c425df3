"""What this node knows, on disk before it acts (DM-26).

    callers ── journal.Journal ── writer  one thread, group commit, synchronous=FULL
                    │               └─ tasks, steps, chain, outbox, catalogs, refusals: SQL, one table each
                    └─ db           open, integrity, what an error means; migrations: numbered, forward only

Reads: rows that admission and the runner hand in. Emits: stored tasks, outbox rows, the chain's head.
Must not: know of admission or step kinds, delete a file it cannot read, raise the process down: a write
that fails is an error to its caller and the health word `storage`, nothing else (K4).
"""
