"""SK-02, K7: the agent's process is killed in the middle of a transfer, and the next one goes on."""

import hashlib
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from support import pull_child
from support.blob_server import Asked, Blob, BlobServer, Reply
from support.certs import make_server_certs
from support.pulling import NAME, Puller

DATA = random.Random(23).randbytes(40_000_003)
SHA = hashlib.sha256(DATA).hexdigest()


def paced(reply: Reply, asked: Asked, blob: Blob) -> Reply:
    """All of it, in no hurry, and in less as it comes to the end: by then whoever pulls is to be killed."""

    def body() -> Iterator[bytes]:
        for start in range(asked.offset, len(DATA), 400_000):
            yield DATA[start : start + 400_000]
            time.sleep(0.01 if start < len(DATA) // 2 else 0.2)

    return replace(reply, body=body())


@pytest.mark.parametrize("marks", [1, 20])
async def test_SK_02_a_killed_agent_resumes_with_a_range_and_the_digest_fits(tmp_path: Path, marks: int) -> None:
    with BlobServer(make_server_certs(tmp_path / "certs")) as server:
        puller = Puller(tmp_path / "root", server)
        puller.root.mkdir()
        server.blobs["/model.bin"] = Blob(DATA)
        server.always = paced
        saved = tmp_path / "checkpoint"
        arguments = [puller.root, server.certs.ca, server.url("/model.bin"), SHA, NAME, saved]
        child = subprocess.Popen(
            [sys.executable, pull_child.__file__, *map(str, arguments)],
            env=os.environ | {"PYTHONPATH": str(Path(pull_child.__file__).parents[1])},
        )
        until = time.monotonic() + 30
        while not saved.exists() or len(json.loads(saved.read_text())["marks"]) < marks:
            assert child.poll() is None, "the child ended by itself"
            assert time.monotonic() < until
            time.sleep(0.005)
        child.kill()
        child.wait()
        assert not puller.final.exists()
        checkpoint = json.loads(saved.read_text())
        held = checkpoint["marks"][-1][0]
        assert puller.leftovers[0].stat().st_size >= held > 0

        puller.told.saved.append(checkpoint)
        server.always, server.requests = None, []
        outcome = await puller.pull(resume=True, sha256=SHA)
        assert puller.offsets == [held]
        assert outcome.outputs["bytes_transferred"] == len(DATA) - held
        assert hashlib.sha256(puller.final.read_bytes()).hexdigest() == SHA
        assert not puller.leftovers
