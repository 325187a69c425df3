"""The one link to the control plane, opened by us.

    control plane ──▶ outside (stream or long poll) ──▶ session ──▶ inbox ──▶ pipeline
    journal (outbox) ──▶ outgoing ──▶ session ──▶ outside ──▶ control plane

Reads the journal's outbox from a cursor, emits envelopes and updates into the inbox. Knows nothing of the
runner, and ends nothing because the link is down.
"""
