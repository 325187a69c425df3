"""Python environments: the interpreter's venv and pip, or conda, with fixed arguments and no settings (SK-06).

What runs may write into the one folder that it fills, and nowhere else.
"""

import asyncio
import hashlib
import os
import re
import ssl
from dataclasses import dataclass
from pathlib import Path

from hostler.agent.host.conda_places import CONDA_PLACES
from hostler.agent.host.confine import Walls
from hostler.agent.host.execute import Command, Execute, Finished
from hostler.base.clock import Deadline
from hostler.base.errors import error

SCRATCH = ".scratch"  # of pip and conda: below the folder they fill, gone before it is used
PIP_WITH_PYTHON = (22, 3)
_PIP_VERSION = re.compile(r"pip (\d+)\.(\d+)")
_SHOWN = 300


@dataclass(frozen=True)
class Making:
    """One environment being made.

    Attributes:
        home: the real folder, which exists and is empty.
        lock: the real path of the lock, as pip or conda is to read it.
    """

    home: str
    lock: str
    deadline: Deadline
    cancelled: asyncio.Event


class Pythons:
    """The door."""

    def __init__(self, execute: Execute, ca_file: str) -> None:
        self._execute, self._ca_file = execute, ca_file

    def identity(self, python: str) -> str:
        """Digest of the interpreter's executable. Raises `incompatible` where there is none."""
        try:
            with Path(python).open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as err:
            raise error("incompatible", f"this node has no interpreter {python}") from err

    def conda(self) -> str:
        """Where conda is. Raises `incompatible` on a node without it (OD-28)."""
        found = next((place for place in CONDA_PLACES if os.access(place, os.X_OK)), "")
        if not found:
            raise error("incompatible", "this node has no conda (capability python.conda)")
        return found

    async def make_venv(self, making: Making, python: str, indexes: tuple[str, ...]) -> None:
        """Makes a venv and installs the lock into it: hashes, wheels, and nothing that the lock does not name.

        Raises:
            HostlerError: `digest_mismatch` for a wheel of another digest, `exit_status`, `timeout`, `canceled`.
        """
        own_pip = await self._has_pip(python, making)
        await self._run((python, "-I", "-m", "venv", *(("--without-pip",) if own_pip else ()), making.home), making)
        options = ["--isolated", "--disable-pip-version-check", "--no-input", "--no-cache-dir", "-q"]
        first, *others = indexes
        wanted = ["--require-hashes", "--no-deps", "--only-binary", ":all:", "--index-url", first]
        wanted += [word for index in others for word in ("--extra-index-url", index)]
        if self._ca_file:
            bundle = f"{making.home}/{SCRATCH}/ca.pem"
            await asyncio.to_thread(self._write_bundle, bundle)
            wanted += ["--cert", bundle]
        inside = f"{making.home}/bin/python"
        pip = (python, "-I", "-m", "pip", "--python", inside) if own_pip else (inside, "-I", "-m", "pip")
        await self._run((*pip, *options, "install", *wanted, "-r", making.lock), making)

    async def make_conda(self, making: Making, conda: str) -> None:
        """The same with conda, from an explicit list: it solves nothing."""
        options = ("--yes", "--quiet", "--copy", "--no-default-packages", "--prefix", making.home)
        await self._run((conda, "create", *options, "--file", making.lock), making)

    async def _has_pip(self, python: str, making: Making) -> bool:
        """Whether the interpreter has a pip that can work on another one; else the environment gets its own."""
        command = self._command((python, "-I", "-m", "pip", "--version"), making)
        done = await self._execute.run(command, deadline=making.deadline, cancelled=making.cancelled)
        found = _PIP_VERSION.match(done.stdout)
        return found is not None and (int(found[1]), int(found[2])) >= PIP_WITH_PYTHON

    def _write_bundle(self, path: str) -> None:
        """The system's authorities and the operator's own."""
        system = ssl.get_default_verify_paths().cafile
        parts = [Path(name).read_bytes() for name in (system, self._ca_file) if name and Path(name).exists()]
        Path(path).write_bytes(b"\n".join(parts))

    def _command(self, argv: tuple[str, ...], making: Making) -> Command:
        scratch = f"{making.home}/{SCRATCH}"
        return Command(
            argv=argv,
            env={
                "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": scratch, "TMPDIR": scratch,
                "PIP_CONFIG_FILE": "/dev/null", "CONDARC": "/dev/null", "CONDA_PKGS_DIRS": f"{scratch}/pkgs",
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            cwd=making.home,
            run_as="root" if os.geteuid() == 0 else "",
            capture_stdout=True,
            capture_stderr=True,
            walls=Walls((making.home,), True, frozenset()),
        )  # fmt: skip

    async def _run(self, argv: tuple[str, ...], making: Making) -> None:
        command = self._command(argv, making)
        done = await self._execute.run(command, deadline=making.deadline, cancelled=making.cancelled)
        if done.undeclared:
            raise error("undeclared_effect", f"{argv[0]} tried to change {done.undeclared[0]}, outside the environment")
        if "DO NOT MATCH THE HASHES" in done.stderr:
            raise error("digest_mismatch", f"a package does not have the digest of the lock: {_why(done)}")
        if done.status or done.signal:
            raise error("exit_status", f"{argv[0]} ended with exit code {done.status}: {_why(done)}")


def _why(done: Finished) -> str:
    lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    return (errors or lines[-1:] or ["it said nothing"])[-1][:_SHOWN]
