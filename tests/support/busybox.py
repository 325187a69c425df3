"""The image that container tests run: busybox and nothing else, as an archive that every engine can load."""

import io
import json
import tarfile
from pathlib import Path

from conftest import need
from support.registry import LAYER, OCI_MANIFEST, entry, layer, sha

BUSYBOX = Path("/bin/busybox")
DIRECTORIES = ("bin", "dev", "etc", "proc", "root", "sys", "tmp", "srv")
PASSWD = b"root:x:0:0::/root:/bin/sh\napp:x:1234:1234::/tmp:/bin/sh\n"
GROUP = b"root:x:0:\napp:x:1234:\n"


def busybox_layer(stamp: str = "", *more: tuple[tarfile.TarInfo, bytes]) -> bytes:
    need("busybox")
    folders = [(entry(name, tarfile.DIRTYPE, mode=0o1777 if name == "tmp" else 0o755), b"") for name in DIRECTORIES]
    shell = (entry("bin/sh", tarfile.SYMTYPE, linkname="busybox"), b"")
    files = [
        (entry("bin/busybox", mode=0o755), BUSYBOX.read_bytes()),
        (entry("etc/passwd", mode=0o644), PASSWD),
        (entry("etc/group", mode=0o644), GROUP),
        (entry("etc/stamp", mode=0o644), stamp.encode()),
    ]
    return layer(*folders, shell, *files, *more)


def archive(path: Path, name: str, command: list[str] | None = None) -> str:
    """An OCI layout that `docker load` takes as well; the digest of its manifest."""
    data = busybox_layer()
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Cmd": command or ["/bin/sh"], "Env": ["PATH=/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [sha(data)]},
        }
    ).encode()
    document = {
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": sha(config), "size": len(config)},
        "layers": [{"mediaType": LAYER.removesuffix("+gzip"), "digest": sha(data), "size": len(data)}],
    }
    manifest = json.dumps(document).encode()
    described = {"mediaType": OCI_MANIFEST, "digest": sha(manifest), "size": len(manifest)}
    described["annotations"] = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}
    blobs = {blob(sha(part)): part for part in (data, config, manifest)}
    saved = [{"Config": blob(sha(config)), "RepoTags": [name], "Layers": [blob(sha(data))]}]
    with tarfile.open(path, "w") as file:
        _put(file, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        _put(file, "index.json", json.dumps({"schemaVersion": 2, "manifests": [described]}).encode())
        for where, part in blobs.items():
            _put(file, where, part)
        _put(file, "manifest.json", json.dumps(saved).encode())
    return sha(manifest)


def blob(digest: str) -> str:
    return f"blobs/sha256/{digest.removeprefix('sha256:')}"


def _put(file: tarfile.TarFile, name: str, data: bytes) -> None:
    header = entry(name)
    header.size = len(data)
    file.addfile(header, io.BytesIO(data))
