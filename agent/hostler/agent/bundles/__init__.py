"""Code bundles on this node: fetched once for a project, verified, unpacked read-only, shared by its tasks (JB-08).

Reads: pieces of a bundle from wherever `Source` gets them. Emits: directories that tasks see at /app.
Must not: use a byte that was not verified, or unpack by rules of its own; `oci.unpack` has them.
"""
