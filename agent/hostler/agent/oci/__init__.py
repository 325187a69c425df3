"""What a registry holds, by digest, to a place on this node.

    collect ── registry   one repository: manifests, tokens, the address of a blob
            ├─ manifest   documents of the OCI and Docker formats, and which platform is ours (pure)
            └─ room       a private directory beside the final place, kept over a restart
    build  ── bundle      the files an artifact names
            └─ unpack     the layers of an image, against every trick of an archive
    tree   ── what stands in a directory, as one digest; one rename to put it there
    stores ── containerd and Docker

Reads: HTTPS through `fetch`. Emits: directories beneath the root, images in a store. Must not: know of tasks or step
kinds, trust a name, a length or a type that a manifest or an archive states.
"""
