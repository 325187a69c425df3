"""The network-facing part, in a process of its own without privileges (SE-04).

    runner (root)  ── strict frames over one unix socket ──▶  outside (unprivileged)  ── mTLS gRPC ──▶  control plane

Reads: frames from the runner, what the control plane sends. Emits: the same, decoded and typed.
Must not: touch a file, start a process, or know a task from a catalog. Whoever takes this process over holds the
node's TLS identity, and can run nothing: admission stands on the other side of the socket.
"""
