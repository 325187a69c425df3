"""What an abstract step kind is on this node.

    Resolver ── the active configuration, by digest ──▶ Resolved(command profile, rule)
         └─ files      one file a configuration, named by its digest

Reads: the journal's record of what is active, the file it names, the catalog in force, this node's capabilities.
Emits: a command profile of the signed catalog, or `no_resolver`. Must not: run anything, or use a file that
does not have the digest that was applied.
"""
