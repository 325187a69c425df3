"""Files of a host that is installed anew."""

import json

TOKEN_FILE = "/etc/hostler/enrol.token"  # noqa: S105 - a path


def agent_toml(node_address: str, enroll_address: str) -> str:
    """The least that an agent needs; a basic string of TOML is one of JSON."""
    return (
        f"token_file = {json.dumps(TOKEN_FILE)}\n\n[control]\n"
        f"address = {json.dumps(node_address)}\nenroll_address = {json.dumps(enroll_address)}\n"
    )
