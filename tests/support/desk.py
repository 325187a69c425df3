"""What somebody who publishes releases has: a directory of keys, packages and a repository."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hostler.cli.main import main
from hostler.pki.releases import VerifiedReleases, pack_metadata, parse_metadata, verify_releases
from hostler.pki.trust import TrustStore
from hostler.pki.trust_files import load_trust
from support.keys import NOW
from support.releases import agent_package

NAME = "hostler-agent_{}-1~deb12u1_amd64.deb"


class Desk:
    """What somebody who publishes has: a directory of keys, packages and a repository."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place, self.pki, self.repo = place, place / "pki", place / "repo"
        self.trust, self.fresh = self.pki / "trust.json", place / "fresh.key"
        self.update = self.pki / "update/update.key"
        self._monkeypatch = monkeypatch
        self.at(NOW)
        self.ok("pki", "init", str(self.pki), "--trust-domain", "gpu.test")

    def at(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self._monkeypatch.setattr("hostler.base.clock.SystemClock.now_ms", lambda _: now_ms)

    def run(self, *words: str) -> Result:
        return CliRunner().invoke(main, list(words), env={"HOSTLER_CONFIG": None})

    def ok(self, *words: str) -> str:
        done = self.run(*words)
        assert done.exit_code == 0, done.output
        return done.output

    def releases(self, name: str, *words: str, keys: tuple[Path, ...] = ()) -> Result:
        more = [word for key in keys or (self.update, self.fresh) for word in ("--key", str(key))]
        return self.run("releases", name, str(self.repo), *words, "--trust", str(self.trust), *more)

    def init(self) -> None:
        made = self.run(
            *("releases", "init", str(self.repo), "--trust", str(self.trust)),
            *("--key", str(self.update), "--fresh-key", str(self.fresh)),
        )
        assert made.exit_code == 0, made.output

    def package(self, version: str, **changes: Any) -> Path:
        path = self.place / NAME.format(version)
        path.write_bytes(agent_package(version, **changes))
        return path

    def add(self, version: str, *words: str, **changes: Any) -> Result:
        channel = () if "--channel" in words else ("--channel", "stable")
        return self.releases("add", str(self.package(version, **changes)), *channel, *words)

    def taken(self, known: dict[str, bytes] | None = None) -> VerifiedReleases:
        """What a node makes of it."""
        keyset = TrustStore(load_trust(self.trust), self.now_ms).keyset
        return verify_releases(parse_metadata(pack_metadata(self.repo)), keyset, known or {}, self.now_ms)

    def files(self) -> dict[str, bytes]:
        return {str(p.relative_to(self.repo)): p.read_bytes() for p in self.repo.rglob("*") if p.is_file()}


def error_of(done: Result) -> str:
    assert done.exit_code == 1, done.output
    return done.output
