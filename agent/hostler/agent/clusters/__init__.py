"""Adapters to cluster managers: what a join writes, and what the cluster says of the node (SK-13, SK-14).

    contract ── files        what stands, what is wanted, put it there
             ├─ kubernetes   ── kube_trust   the pinned CA   ── kube_csr    the node's certificate
             │               └─ kube_files   kubeconfig, configuration, flags
             ├─ slurm        slurm.conf and key; `scontrol` tells
             └─ ray          options and token; the head's API tells

Reads: files beneath the root, the cluster's API. Emits: files beneath the root, `Seen`. Must not: know of tasks
or step kinds, start or stop anything, send a secret to a server that is not pinned.
"""
