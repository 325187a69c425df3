"""A package of the agent into a directory of its own, without dpkg and without running a byte of it (A6, PG-06)."""

import os
from collections.abc import Callable
from pathlib import Path

from hostler.agent.oci.unpack import Budget, Unpacker
from hostler.base.errors import error
from hostler.pki.deb import LIMITS, Deb
from hostler.pki.manifest import (
    HOME,
    INTERPRETER,
    MANIFEST,
    MAX_MANIFEST_BYTES,
    PACKAGE,
    SYSTEM_PYTHON,
    UNITS,
    Manifest,
    differences,
    parse_manifest,
)


def unpack(source: int, target: int, check: Callable[[], None]) -> Manifest:
    """Unpacks the package behind the descriptor `source` into the open, empty directory `target`.

    `target` then holds what the package has below `usr/lib/hostler-agent` (so `TARGET/bin/hostler-agent` and
    `TARGET/manifest.json`), and the units as `TARGET/units/NAME`. `TARGET/bin/python3` leads to `/usr/bin/python3`;
    the version is run by `TARGET/bin/python3 -I TARGET/bin/hostler-agent`. Every file has been compared with the
    manifest. The caller has checked the digest of the package, syncs the files and removes `target` on an error.

    Args:
        check: asked now and then: cancellation, deadline, disk.

    Raises:
        HostlerError: `unsafe_archive`, `too_large`, `bad_response`, `file_error`; `release_untrusted` where a file is
            not as the manifest says; what `check` raises.
    """
    deb = Deb(source)
    if deb.control["package"] != PACKAGE:
        raise error("release_untrusted", f"the package is {deb.control['package'][:100]!r}, not {PACKAGE}")
    budget = Budget(LIMITS.data, LIMITS.entries, check)
    Unpacker(target, budget, whiteouts=False, place=_place).archive(deb.data(check))
    here = Path(f"/proc/self/fd/{target}")
    try:
        manifest = _manifest(target)
        (here / INTERPRETER).symlink_to(SYSTEM_PYTHON)
        wrong = differences(here, manifest, units=here / "units")
    except OSError as err:
        raise error("file_error", f"the package cannot be unpacked: {err.strerror}") from err
    if wrong:
        raise error("release_untrusted", f"{len(wrong)} files are not as the manifest says, such as {wrong[0][:200]}")
    return manifest


def _manifest(target: int) -> Manifest:
    try:
        fd = os.open(MANIFEST, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=target)
    except OSError as err:
        raise error("release_untrusted", "the package holds no manifest") from err
    with os.fdopen(fd, "rb") as file:
        return parse_manifest(file.read(MAX_MANIFEST_BYTES + 1))


def _place(name: str) -> str:
    """Below the version's own directory; "" for what a version needs nothing of, and for the interpreter's link."""
    if name.startswith(f"{UNITS}/"):
        return f"units/{name.removeprefix(UNITS + '/')}"
    short = name.removeprefix(f"{HOME}/")
    return "" if short in (name, INTERPRETER) else short
