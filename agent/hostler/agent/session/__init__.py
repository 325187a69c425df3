"""The one link to the control plane, opened by us.

    control plane ──▶ {stream | longpoll} ──▶ inbox ──▶ pipeline
    journal (outbox) ──▶ uplink ──▶ {stream | longpoll} ──▶ control plane

Reads the journal's outbox from a cursor, emits envelopes and updates into the inbox. Knows nothing of the
runner, and ends nothing because the link is down.
"""
