"""What operators read about minters is what the code knows: the table, the example, the alerts (CR-10)."""

import re
import tomllib
from pathlib import Path
from typing import get_args

import msgspec
import yaml

from hostler.control.config import ControlConfig
from hostler.control.credentials import config
from hostler.control.metrics import Metrics

ROOT = Path(__file__).parents[4]


def test_the_table_of_backends_is_complete() -> None:
    table = re.findall(r"^\| `(\w+)` \| `(\w+)` \|", (ROOT / "docs/operator.md").read_text(), re.MULTILINE)
    known = {str(each.__struct_config__.tag): each.TYPE for each in get_args(config.MinterConfig)}
    assert dict(table) == known


def test_the_example_s_minter_can_be_used_as_it_is() -> None:
    text = (ROOT / "control/control.example.toml").read_text()
    _, _, minters = text.partition("docs/operator.md lists the backends.\n")
    given = tomllib.loads(text.partition("# internal_listen")[0] + re.sub(r"^# ", "", minters, flags=re.MULTILINE))
    (minter,) = msgspec.convert(given, ControlConfig).minters
    assert (minter.name, minter.TYPE) == ("harbor", "oci_pull")


def test_CR_10_the_alerts_are_about_a_metric_and_reasons_that_exist() -> None:
    from hostler.base.codes import CODES

    rules = yaml.safe_load((ROOT / "packaging/monitoring/alerts.yaml").read_text())
    metrics = Metrics()
    metrics.mint_denied.labels("mint_not_bound").inc()
    assert "credential_mint_denied_total{" in metrics.text().decode()
    watched = set()
    (group,) = [group for group in rules["groups"] if group["name"] == "hostler-credentials"]
    for rule in group["rules"]:
        (reasons,) = re.findall(r'credential_mint_denied_total\{reason=~"([^"]+)"\}', rule["expr"])
        watched |= {code for code in CODES if re.fullmatch(reasons, code)}
    assert {code for code in CODES if code.startswith("mint")} | {"no_minter", "revoked"} <= watched
