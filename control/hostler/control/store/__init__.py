"""SQLite, one writer, the event log.

    engine ─▶ writer   one thread, one transaction for all that waits (group commit, synchronous=FULL)
              ├─ view      rows the kernel asks for, through a cache only the writer touches
              └─ apply     Decision → rows and events, whole or not at all (DM-12)
    api, rpc ─▶ reader     read-only connections in two threads

`local_tasks` is the one module that reads tasks; `tables` makes the statements from the row structs; `schema`
holds the numbered, forward-only migrations. Reads: decisions. Emits: rows. Must not: decide, sign, or run SQL
on the event loop.
"""
