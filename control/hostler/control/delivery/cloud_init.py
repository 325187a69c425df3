"""Cloud-init user data: a bare Debian becomes the node again by itself, with no SSH and no lasting secret (LC-07)."""

import base64
import json
import shlex

from hostler.control.delivery.contract import Document, Host

_SCRIPT = "/run/hostler-install"
_CONFIG = "/etc/hostler"


class CloudInit:
    """User data as such."""

    name = "cloud-init"

    def document(self, host: Host) -> Document:
        return Document(provider=self.name, media_type="text/cloud-config", content=user_data(host))


def user_data(host: Host) -> str:
    """`#cloud-config`; its body is JSON, which is YAML, so that no value can be more than a value."""
    files = [
        _file(f"{_CONFIG}/agent.toml", host.agent_toml, "0644"),
        _file(f"{_CONFIG}/trust.json", host.trust, "0644"),
        _file(f"{_CONFIG}/enrol.token", host.token, "0600"),
        _file(_SCRIPT, _install(host), "0700"),
    ]
    # runcmd as a list is executed without a shell; the script ends at the first thing that fails
    body = {"preserve_hostname": True, "write_files": files, "runcmd": [["/bin/sh", _SCRIPT], ["rm", "-f", _SCRIPT]]}
    return f"#cloud-config\n{json.dumps(body, indent=1)}\n"


def _file(path: str, text: str, mode: str) -> dict[str, str]:
    content = base64.b64encode(text.encode()).decode()
    return {"path": path, "owner": "root:root", "permissions": mode, "encoding": "b64", "content": content}


def _install(host: Host) -> str:
    url, digest = shlex.quote(host.url), shlex.quote(f"{host.sha256}  {host.file}")
    return f"""#!/bin/sh
# Installs the agent of lifecycle run {host.run_id}. Nothing is installed that does not have the signed digest.
set -eu
umask 022
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
curl --fail --silent --show-error --location --retry 10 --retry-all-errors --output {shlex.quote(host.file)} {url}
echo {digest} | sha256sum --check --strict
chmod 755 "$folder"
export DEBIAN_FRONTEND=noninteractive
apt-get --quiet --assume-yes -o Dpkg::Options::=--force-confold install ./{shlex.quote(host.file)}
"""
