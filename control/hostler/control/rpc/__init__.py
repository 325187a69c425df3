"""gRPC for nodes: enrolment, renewal, and the session that every agent opens.

    session ──▶ Link (one a node, the newest wins) ──▶ engine (accepted, reports) ──▶ acknowledgement
    engine wakes ──▶ Link ──▶ stored envelopes, catalog, keyset down the stream

Never dials. The node a call is from is the one in its certificate, whatever a message says.
"""
