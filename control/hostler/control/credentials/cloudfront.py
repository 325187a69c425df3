"""`https_signed_url` for CloudFront: a canned policy, signed here; no request goes out.

https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/private-content-creating-signed-url-canned-policy.html
"""

import base64
from pathlib import Path

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from hostler.base.errors import error
from hostler.catalog.credentials import SignedUrl, UrlIntent
from hostler.control.credentials.config import CloudFrontConfig
from hostler.control.credentials.contract import Ask, Made
from hostler.pki.storage import read_private

_ALPHABET = str.maketrans("+=/", "-_~")


class CloudFront:
    """CloudFront asks for RSA with SHA-1 here, and for nothing else."""

    def __init__(self, config: CloudFrontConfig) -> None:
        self.name = config.name
        self._config = config

    async def mint(self, ask: Ask) -> Made:
        assert isinstance(ask.intent, UrlIntent)
        until = ask.deadline_ms // 1000
        signature = self._key().sign(policy(ask.intent.url, until), padding.PKCS1v15(), hashes.SHA1())  # noqa: S303
        text = base64.b64encode(signature).decode().translate(_ALPHABET)
        url = f"{ask.intent.url}?Expires={until}&Signature={text}&Key-Pair-Id={self._config.key_pair_id}"
        return Made(material=SignedUrl(url=url), expires_at_ms=until * 1000)

    def _key(self) -> rsa.RSAPrivateKey:
        pem = read_private(Path(self._config.secret_file))
        try:
            key = serialization.load_pem_private_key(pem, None)
        except (ValueError, TypeError):
            key = None
        if not isinstance(key, rsa.RSAPrivateKey):
            raise error("invalid_config", f"the secret of minter {self.name} is no RSA key")
        return key


def policy(url: str, until_s: int) -> bytes:
    """Byte for byte as CloudFront builds it again from the URL."""
    condition = f'{{"DateLessThan":{{"AWS:EpochTime":{until_s}}}}}'
    return f'{{"Statement":[{{"Resource":"{url}","Condition":{condition}}}]}}'.encode()
