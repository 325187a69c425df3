"""Verified bytes: one blob over HTTPS, to a file that appears only when its digest fits.

    blob.pull ── connection  one request, redirects inside the allowlist, TLS always verified
              ├─ ranges      may this answer be added to what we hold? (pure)
              ├─ stream      reader → hash → write → sync, a thread each, bounded reusable buffers
              ├─ partial     the file that grows beside its final place
              ├─ checkpoint  where a transfer stood, and proof of what was on disk then
              └─ budget      try again, or give up (pure)

Reads: HTTPS. Emits: files beneath the root, checkpoints, progress. Must not: know of tasks or step
kinds, write anywhere but through `host.files`, log a URL's query (it may be a signature).
"""
