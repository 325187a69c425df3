"""The task API: HTTP/1.1 with JSON on a unix socket for each running attempt (X33, TE-04).

    task ── HTTP on /run/hostler/task.sock ──▶ server ─▶ routes ─▶ calls ── TaskCall ──▶ outside ──▶ control plane

The socket is the credential: it lies where only that attempt's container can see it, and everything that is asked
through it is asked for that attempt. `proto/hostler/taskapi/v1/openapi.yaml` is the contract.
Reads: requests of tasks. Emits: answers, calls to the control plane. Must not: unpickle, or believe a task about who
it is.
"""
