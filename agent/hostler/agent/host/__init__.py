"""The only door to the operating system; honours `--root DIR`.

    Host ── files      every path, beneath the root, without symbolic links, atomic writes
         ├─ execute    commands by execve, in helper processes that end the whole tree
         ├─ net        addresses and ports
         ├─ systemd    units
         ├─ processes  who runs
         └─ disks      mounts and free space

Reads: the file system, /proc, D-Bus. Emits: values and `HostlerError`s, never log lines.
Must not: know of tasks, policies or the control plane; start a shell; fork the agent.
"""
