"""Container runtimes behind one protocol: containerd through CRI, Docker through its Engine API, plain processes.

Nothing here decides whether a container may run; `steps` does, by policy and `agent.toml`.
"""
