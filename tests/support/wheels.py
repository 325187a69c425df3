"""Tiny wheels, made here, and the index that offers them (PEP 503)."""

import base64
import hashlib
import io
import zipfile
from dataclasses import dataclass

from support.blob_server import Blob, BlobServer, header


@dataclass(frozen=True)
class Wheel:
    """Pure Python, one module that knows its version."""

    name: str
    version: str
    needs: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        return f"{self.name}-{self.version}-py3-none-any.whl"

    @property
    def data(self) -> bytes:
        info = f"{self.name}-{self.version}.dist-info"
        needs = "".join(f"Requires-Dist: {name}\n" for name in self.needs)
        script = f"import sys\n\n\ndef main():\n    print('{self.name} {self.version}', sys.prefix)\n"
        files = {
            f"{self.name}.py": f"VERSION = {self.version!r}\n{script}",
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {self.name}\nVersion: {self.version}\n{needs}",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{info}/entry_points.txt": f"[console_scripts]\n{self.name}-say = {self.name}:main\n",
        }
        record = "".join(f"{path},sha256={_digest(text)},{len(text)}\n" for path, text in files.items())
        files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n"
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w") as archive:
            for path, text in files.items():
                archive.writestr(zipfile.ZipInfo(path, (2020, 1, 1, 0, 0, 0)), text)
        return made.getvalue()

    @property
    def pin(self) -> str:
        return f"{self.name}=={self.version} --hash=sha256:{hashlib.sha256(self.data).hexdigest()}"


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def offer(server: BlobServer, *wheels: Wheel) -> str:
    """Puts them on the server; the index's URL."""
    for name in {wheel.name for wheel in wheels}:
        own = [wheel for wheel in wheels if wheel.name == name]
        links = "".join(f'<a href="/files/{wheel.file}">{wheel.file}</a>\n' for wheel in own)
        server.blobs[f"/simple/{name}/"] = Blob(f"<!DOCTYPE html><html><body>{links}</body></html>".encode())
        for wheel in own:
            server.blobs[f"/files/{wheel.file}"] = Blob(wheel.data)
    server.always = header("Content-Type", "text/html")
    return server.url("/simple/")
