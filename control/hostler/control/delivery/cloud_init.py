"""Cloud-init user data: a bare Debian becomes the node again by itself, with no SSH and no lasting secret (LC-07).

`first_boot` is the program; what one host has to know is put below it, in an encoding that no value can break out of.
"""

import base64
import json
from importlib.resources import files

from hostler.control.delivery import first_boot
from hostler.control.delivery.contract import Document, Host

_LINE = 120
_CALL = """

if __name__ == "__main__":
    import base64

    told = json.loads(base64.b64decode(TOLD))
    main(Facts(**told))
"""


class CloudInit:
    """User data as such."""

    name = "cloud-init"

    def document(self, host: Host) -> Document:
        return Document(provider=self.name, media_type="text/cloud-boothook", content=user_data(host))


def user_data(host: Host) -> str:
    """A boothook: of all that user data may be, only that is run at every boot, so that a power cut ends nothing."""
    program = files(first_boot.__package__).joinpath("first_boot.py").read_text(encoding="utf-8")
    told = base64.b64encode(json.dumps(_facts(host)._asdict()).encode()).decode()
    lines = [told[at : at + _LINE] for at in range(0, len(told), _LINE)]
    return "\n".join(["#cloud-boothook", "#!/usr/bin/python3 -I", program, 'TOLD = """', *lines, '"""', _CALL])


def _facts(host: Host) -> first_boot.Facts:
    written = [("agent.toml", host.agent_toml, 0o644), ("trust.json", host.trust, 0o644)]
    if host.ca:
        written.append(("packages-ca.pem", host.ca, 0o644))
    written.append(("enrol.token", host.token, 0o600))
    return first_boot.Facts(
        run_id=host.run_id,
        url=host.url,
        sha256=host.sha256,
        size_bytes=host.size_bytes,
        file=host.file,
        ca=host.ca,
        files=written,
    )
