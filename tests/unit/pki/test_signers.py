"""Key files that name a key elsewhere: what they say, and what is refused before anything is asked of a token."""

from pathlib import Path

import pytest

from hostler.base.errors import HostlerError
from hostler.pki.keys import new_ed25519
from hostler.pki.signers import load


def written(tmp_path: Path, text: str | bytes, mode: int = 0o600) -> Path:
    path = tmp_path / "key"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    path.chmod(mode)
    return path


def refused(path: Path) -> str:
    with pytest.raises(HostlerError) as caught:
        load(path)
    assert caught.value.code == "invalid_config"
    return f"{caught.value.message} {caught.value.hint}"


def test_a_file_with_a_key_is_that_key(tmp_path: Path) -> None:
    signer = new_ed25519()
    assert load(written(tmp_path, signer.to_pem())).public.key_id == signer.public.key_id


def test_PK_11_a_file_that_others_can_read_is_refused_whatever_it_holds(tmp_path: Path) -> None:
    assert "chmod 600" in refused(written(tmp_path, "pkcs11:token=a;object=b", mode=0o640))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pkcs11:token=a;object=b?module-path=/m.so&pin-value=1234", "holds a PIN"),
        ("pkcs11:token=a;object=b?module-path=/m.so", "pin-source"),
        ("pkcs11:object=b?module-path=/m.so&pin-source=PIN", "token"),
        ("pkcs11:token=a?module-path=/m.so&pin-source=PIN", "object"),
        ("pkcs11:token=a;object=b;slot-id=1?module-path=/m.so&pin-source=PIN", "slot-id"),
        ("pkcs11:token=a;object=b?module-path=/nowhere.so&pin-source=PIN", "does not open"),
        ("pkcs11:token=a;object=b?module-path=/m.so&pin-source=/absent", "/absent"),
        ("pkcs11:a\npkcs11:b\n", "more than one"),
        ("tpm2:", "handle"),
        ("tpm2:handle=81010001", "no handle"),
        ("tpm2:handle=0x81;echo", "not understood"),
        ("kms:key", "PEM"),
    ],
)
def test_a_uri_that_says_too_little_or_too_much_is_refused(tmp_path: Path, text: str, said: str) -> None:
    pin = tmp_path / "pin"
    pin.write_text("1234")
    pin.chmod(0o600)
    assert said in refused(written(tmp_path, text.replace("PIN", str(pin))))


def test_the_pin_is_in_no_error(tmp_path: Path) -> None:
    pin = tmp_path / "pin"
    pin.write_text("very-secret-pin")
    pin.chmod(0o600)
    text = f"pkcs11:token=a;object=b?module-path=/nowhere.so&pin-source={pin}"
    assert "very-secret" not in refused(written(tmp_path, text))
