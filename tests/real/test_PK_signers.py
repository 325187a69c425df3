"""Keys in a real PKCS#11 token (softhsm2) and in a real TPM (swtpm): they sign, issue, and never come out (PK-08)."""

import secrets
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hostler.base.clock import SystemClock
from hostler.base.errors import HostlerError
from hostler.pki import ceremony, release_repo
from hostler.pki.authority import Authority, make_ca
from hostler.pki.keys import X509Signer, new_p256
from hostler.pki.keyset import KeyRole, RoleKeys, encode_key
from hostler.pki.releases import pack_metadata, parse_metadata, verify_releases
from hostler.pki.signers import load
from hostler.pki.storage import write_private, write_public
from hostler.pki.trust_files import load_trust, save_trust
from hostler.pki.x509 import issued_by, read_identity
from support.plane import DOMAIN, plane, prepare
from support.releases import agent_package, update_keyset

pytestmark = pytest.mark.real
MODULE = "/usr/lib/softhsm/libsofthsm2.so"
NOW = SystemClock().now_ms()


@pytest.fixture
def token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A token with the P-256 keys `dispatch` and `ca`; the folder holds the key files that name them."""
    store = tmp_path / "tokens"
    store.mkdir()
    (tmp_path / "softhsm2.conf").write_text(
        f"directories.tokendir = {store}\nobjectstore.backend = file\nlog.level = ERROR\n"
    )
    monkeypatch.setenv("SOFTHSM2_CONF", str(tmp_path / "softhsm2.conf"))
    label, pin = f"hostler-{secrets.token_hex(4)}", "123456"
    made = ["softhsm2-util", "--init-token", "--free", "--label", label, "--pin", pin, "--so-pin", "654321"]
    subprocess.run(made, check=True, capture_output=True)
    write_private(tmp_path / "pin", pin.encode())
    import pkcs11

    lib = pkcs11.lib(MODULE)
    lib.reinitialize()
    with lib.get_token(token_label=label).open(user_pin=pin, rw=True) as session:
        for name in ("dispatch", "ca"):
            curve = session.create_domain_parameters(
                pkcs11.KeyType.EC,
                {pkcs11.Attribute.EC_PARAMS: pkcs11.util.ec.encode_named_curve_parameters("secp256r1")},
                local=True,
            )
            _, private = curve.generate_keypair(store=True, label=name)
            assert private[pkcs11.Attribute.EXTRACTABLE] is False
            uri = f"pkcs11:token={label};object={name}?module-path={MODULE}&pin-source={tmp_path}/pin"
            write_private(tmp_path / f"{name}.key", uri.encode())
    return tmp_path


@pytest.fixture
def tpm(tmp_path: Path) -> Iterator[Path]:
    """A TPM with a P-256 key at a persistent handle; gives the key file that names it."""
    state, place = tmp_path / "tpm", tmp_path / "tpm.sock"
    state.mkdir()
    subprocess.run(["swtpm_setup", "--tpm2", "--tpmstate", str(state), "--overwrite"], check=True, capture_output=True)
    running = subprocess.Popen(
        ["swtpm", "socket", "--tpm2", "--tpmstate", f"dir={state}", "--ctrl", f"type=unixio,path={place}.ctrl",
         "--server", f"type=unixio,path={place}", "--flags", "not-need-init,startup-clear"],
    )  # fmt: skip
    tcti = f"swtpm:path={place}"
    try:
        until = time.monotonic() + 10
        while not place.exists() and time.monotonic() < until:
            time.sleep(0.02)

        def tool(name: str, *arguments: str) -> None:
            subprocess.run([name, "-T", tcti, *arguments], check=True, capture_output=True, cwd=tmp_path)
            subprocess.run(["tpm2_flushcontext", "-T", tcti, "-t"], check=True, capture_output=True)

        tool("tpm2_createprimary", "-Q", "-C", "o", "-g", "sha256", "-G", "ecc", "-c", "p.ctx")
        attributes = "fixedtpm|fixedparent|sensitivedataorigin|userwithauth|sign"
        tool("tpm2_create", "-Q", "-C", "p.ctx", "-G", "ecc", "-u", "k.pub", "-r", "k.priv", "-a", attributes)
        tool("tpm2_load", "-Q", "-C", "p.ctx", "-u", "k.pub", "-r", "k.priv", "-c", "k.ctx")
        tool("tpm2_evictcontrol", "-Q", "-C", "o", "-c", "k.ctx", "0x81010001")
        write_private(tmp_path / "tpm.key", f"tpm2:handle=0x81010001?tcti={tcti}".encode())
        yield tmp_path / "tpm.key"
    finally:
        running.kill()
        running.wait()


def check(signer: X509Signer) -> None:
    """It signs what its public part verifies, and issues a certificate that says who issued it."""
    for data in (b"", b"payload", secrets.token_bytes(100_000)):
        assert signer.public.verifies(signer.sign(data), data)
        assert not signer.public.verifies(signer.sign(data), data + b"x")
    ca_pem = make_ca(signer, "unit.test", NOW)
    node = new_p256()
    leaf = Authority(signer, ca_pem, "unit.test").issue_node("nod_1", node.public, NOW)
    assert issued_by(leaf, (ca_pem.decode(),))
    assert read_identity(leaf).name == "nod_1"
    with pytest.raises(HostlerError):
        signer.to_pem()


def test_PK_08_a_key_in_a_token_signs_and_issues(token: Path) -> None:
    check(load(token / "ca.key"))


def test_PK_08_a_key_in_a_token_signs_releases(token: Path) -> None:
    """The update key never leaves its token, and a node takes what it signs."""
    signer = load(token / "ca.key")
    keyset = update_keyset([signer])
    by = release_repo.Publisher(keyset, [signer], NOW)
    release_repo.init(token / "repo", by)
    (token / "hostler-agent_1.0.0.deb").write_bytes(agent_package("1.0.0"))
    release_repo.add(token / "repo", by, token / "hostler-agent_1.0.0.deb", release_repo.Facts(("stable",)))
    taken = verify_releases(parse_metadata(pack_metadata(token / "repo")), keyset, {}, NOW)
    assert [each.version for each in taken.releases] == ["1.0.0"]


def test_PK_08_a_key_in_a_tpm_signs_and_issues(tpm: Path) -> None:
    check(load(tpm))


def test_a_wrong_pin_and_a_key_that_is_not_there_are_said(token: Path) -> None:
    uri = (token / "ca.key").read_text()
    write_private(token / "other.key", uri.replace("object=ca", "object=absent").encode())
    write_private(token / "pin2", b"000000")
    write_private(token / "wrong.key", uri.replace(f"{token}/pin", f"{token}/pin2").encode())
    for name, said in (("other.key", "absent"), ("wrong.key", "does not open")):
        with pytest.raises(HostlerError, match=said) as caught:
            load(token / name)
        assert caught.value.code == "invalid_config"


def test_a_tpm_that_has_gone_signs_nothing_and_says_so(tpm: Path, tmp_path: Path) -> None:
    signer = load(tpm)
    (tmp_path / "tpm.sock").rename(tmp_path / "away.sock")
    with pytest.raises(HostlerError) as caught:
        signer.sign(b"x")
    assert caught.value.code == "signer_unavailable"


async def test_PK_08_a_control_plane_whose_dispatch_and_ca_keys_are_in_a_token(token: Path) -> None:
    """Enrolment (the CA) and a task (dispatch), with keys that the process never sees."""
    config = prepare(token)
    control_keys, made = token / "pki/control", {name: load(token / f"{name}.key") for name in ("dispatch", "ca")}
    ca_pem = make_ca(made["ca"], DOMAIN, NOW)
    server = ceremony.load_signer(control_keys / "server.key")
    chain = Authority(made["ca"], ca_pem, DOMAIN).issue_control("main", server.public, ("127.0.0.1",), NOW)
    write_public(control_keys / "ca.pem", ca_pem)
    write_public(control_keys / "server.pem", chain)
    for name in made:
        shutil.copy(token / f"{name}.key", control_keys / f"{name}.key")
    sign_anew(token / "pki", made, ca_pem)
    async with plane(token, config) as control:
        await control.publish()
        node = await control.enroll()
        async with node.session() as session:
            operation_id = await control.submit(node)
            (spec,) = await session.take()
            await session.report(node.finished(spec))
        assert (await control.operation(operation_id))["status"] == "succeeded"


def sign_anew(pki: Path, made: dict[str, Any], ca_pem: bytes) -> None:
    import msgspec

    keyset = ceremony.read_keyset((pki / "control/keyset.json").read_bytes())
    roles = keyset.roles | {name: RoleKeys(1, (signer.public.key_id,)) for name, signer in made.items()}
    keys = keyset.keys | {signer.public.key_id: encode_key(signer.public) for signer in made.values()}
    changed = msgspec.structs.replace(keyset, roles=roles, keys=keys, ca_certificates=(ca_pem.decode(),))
    signed = ceremony.sign_keyset(changed, [ceremony.load_signer(pki / "root/root-1.key")])
    write_public(pki / "control/keyset.json", signed)
    for place in (pki / "trust.json", pki / "control/trust.json"):
        save_trust(place, msgspec.structs.replace(load_trust(place), keyset=signed))
    assert KeyRole.CA in roles
