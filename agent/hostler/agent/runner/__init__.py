"""One admitted task, to its end: everything it does is in the journal before and after.

    Runner ── TaskRun     step by step: prepare, plan, intent, apply, outcome + receipt + report
         ├─ prepare       bindings filled, parameters typed, what a step kind gets to see
         ├─ planning      the plan of a whole task and its digest
         ├─ recover       a task found in the journal after a restart
         ├─ receipt       outcome → signed statement, in its place in the chain
         ├─ reports       outcome → what goes up
         ├─ steplog       log lines and progress, bounded
         └─ faults        named points where tests may kill or fail

Reads: admitted or stored tasks. Emits: journal rows; progress. Must not: know of the session or the
inbox, touch the system but through step kinds, raise into its caller.
"""
