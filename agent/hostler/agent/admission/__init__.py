"""May this run here, now? Pure over an envelope, a view of what this node knows, and the time.

    envelope ── admit.admit ── gates, in order ──▶ Admitted | AdmittedCancel | Replayed | Refusal

The order is part of the contract: bytes are verified before they are parsed, a task is found again
before it is judged, nothing is looked up in the catalog for a task that is not ours.

Reads: `AdmissionView`. Emits: one of four verdicts. Must not: touch the journal, the disk, the network or
a clock; make an `Admitted` that has not passed every gate.
"""
