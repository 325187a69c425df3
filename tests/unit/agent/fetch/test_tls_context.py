"""P9: whom a transfer trusts is read once, and again as soon as a file of theirs is another one."""

from pathlib import Path

import pytest

from hostler.agent.fetch.connection import tls_context
from hostler.agent.host.fetch_settings import FetchSettings
from hostler.base.errors import HostlerError
from support.certs import make_server_certs


def test_authorities_are_read_again_when_their_file_changes_and_not_before(tmp_path: Path) -> None:
    first, second = (make_server_certs(_folder(tmp_path, name)).ca for name in "ab")
    file = tmp_path / "ca.pem"
    file.write_bytes(first.read_bytes())
    settings = FetchSettings(ca_file=str(file))
    before = tls_context(settings)
    assert tls_context(FetchSettings(ca_file=str(file))) is before
    file.write_bytes(second.read_bytes())
    after = tls_context(settings)
    assert after is not before
    assert after.get_ca_certs(binary_form=True) != before.get_ca_certs(binary_form=True)
    file.unlink()
    for _ in range(2):
        with pytest.raises(HostlerError) as refused:
            tls_context(settings)
        assert refused.value.code == "invalid_config"


def _folder(place: Path, name: str) -> Path:
    made = place / name
    made.mkdir()
    return made
