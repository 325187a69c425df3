"""OB-03: every shipped alert fires on the series it is about and is silent on those of a good day, by promtool."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from conftest import need

pytestmark = pytest.mark.real
ALERTS = Path(__file__).parents[2] / "packaging/monitoring/alerts.yaml"
FAILED, GOOD = (
    'hostler_operations_finished_total{status="failed"}',
    'hostler_operations_finished_total{status="succeeded"}',
)
VERIFY = 'hostler_steps_finished_total{step_kind="cluster.verify",status="failed"}'
UPGRADE = 'hostler_events_total{type="agent.upgrade.failed"}'
ROLLBACK = 'hostler_events_total{type="agent.rollback.completed"}'
DENIED = 'credential_mint_denied_total{reason="mint_not_bound"}'
PARKED = 'hostler_webhook_deliveries_total{result="parked"}'
NO_MINTER = 'credential_mint_denied_total{reason="no_minter"}'

# (alert, series and their values minute by minute, labels of what fires)
FIRES: list[tuple[str, dict[str, str], list[dict[str, str]]]] = [
    ("HostlerOperationFailureSpike", {FAILED: "0+1x40", GOOD: "0+2x40"}, [{"severity": "critical"}]),
    ("HostlerOperationFailureSpike", {FAILED: "0+1x40", GOOD: "0x40"}, [{"severity": "critical"}]),
    ("HostlerBootstrapVerifyFailing", {VERIFY: "0x20 1 2 3 3x20"}, [{"severity": "critical"}]),
    (
        "HostlerAgentUpgradeFailing",
        {UPGRADE: "0x20 2 4 4x20"},
        [{"severity": "critical", "type": "agent.upgrade.failed"}],
    ),
    (
        "HostlerAgentUpgradeFailing",
        {ROLLBACK: "0x20 3 3x20"},
        [{"severity": "critical", "type": "agent.rollback.completed"}],
    ),
    ("HostlerWebhookParked", {PARKED: "0x30 1x12"}, [{"severity": "warning", "result": "parked"}]),
    ("HostlerCredentialDenied", {DENIED: "0x34 1x8"}, [{"severity": "critical", "reason": "mint_not_bound"}]),
    ("HostlerMinterFailing", {NO_MINTER: "0x30 0+1x12"}, [{"severity": "warning", "reason": "no_minter"}]),
]
SILENT: list[tuple[str, dict[str, str]]] = [
    # one in twenty fails, on a busy day
    ("HostlerOperationFailureSpike", {FAILED: "0+1x40", GOOD: "0+20x40"}),
    # all of two operations failed, on a quiet one
    ("HostlerOperationFailureSpike", {FAILED: "0x30 1 2 2x10", GOOD: "0x42"}),
    # a restart of the control plane sets every counter back
    ("HostlerOperationFailureSpike", {FAILED: "100x30 0x12", GOOD: "900x30 0x12"}),
    ("HostlerBootstrapVerifyFailing", {VERIFY: "0x20 1 1x20"}),
    ("HostlerBootstrapVerifyFailing", {VERIFY.replace("failed", "succeeded"): "0+5x40"}),
    ("HostlerAgentUpgradeFailing", {UPGRADE: "0x20 1 1x20", ROLLBACK: "0x20 1 1x20"}),
    ("HostlerAgentUpgradeFailing", {UPGRADE.replace("failed", "completed"): "0+10x40"}),
    ("HostlerWebhookParked", {PARKED: "3x42", PARKED.replace("parked", "failed"): "0+1x42"}),
    ("HostlerCredentialDenied", {DENIED: "7x40", NO_MINTER: "0+1x40"}),
    ("HostlerMinterFailing", {NO_MINTER: "0x30 1 2 2x10", DENIED: "0+1x40"}),
]


def promtool(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["promtool", *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
    )


def case(alert: str, series: dict[str, str], fires: list[dict[str, str]]) -> dict[str, Any]:
    (rule,) = [r for g in yaml.safe_load(ALERTS.read_text())["groups"] for r in g["rules"] if r["alert"] == alert]
    expected = []
    for labels in fires:
        notes = {
            name: text.replace("{{ $labels.reason }}", labels.get("reason", "")).replace(
                "{{ $labels.type }}", labels.get("type", "")
            )
            for name, text in rule["annotations"].items()
        }
        expected.append({"exp_labels": labels, "exp_annotations": notes})
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [{"eval_time": "38m", "alertname": alert, "exp_alerts": expected}],
    }


def check(tmp_path: Path, *cases: dict[str, Any]) -> None:
    document = {"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": list(cases)}
    path = tmp_path / "test.yaml"
    path.write_text(yaml.safe_dump(document))
    done = promtool("test", "rules", str(path))
    assert done.returncode == 0, done.stdout + done.stderr


def test_OB_03_the_rules_are_rules() -> None:
    need("promtool")
    done = promtool("check", "rules", str(ALERTS))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("alert", "series", "fires"), FIRES)
def test_OB_03_an_alert_fires(alert, series, fires, tmp_path) -> None:
    need("promtool")
    check(tmp_path, case(alert, series, fires))


@pytest.mark.parametrize(("alert", "series"), SILENT)
def test_OB_03_an_alert_is_silent(alert, series, tmp_path) -> None:
    need("promtool")
    check(tmp_path, case(alert, series, []))


def test_OB_03_every_rule_is_tried_both_ways() -> None:
    known = {r["alert"] for g in yaml.safe_load(ALERTS.read_text())["groups"] for r in g["rules"]}
    assert {alert for alert, *_ in FIRES} == known
    assert {alert for alert, _ in SILENT} == known


def test_OB_04_what_the_control_plane_exports_can_be_scraped() -> None:
    """The text of /metrics, as promtool reads it."""
    need("promtool")
    from hostler.control.metering import Metering
    from hostler.control.metrics import Metrics

    metrics = Metrics()
    Metering(metrics)
    metrics.steps.labels("file.render", "succeeded").inc()
    done = subprocess.run(
        ["promtool", "check", "metrics"], check=False, capture_output=True, input=metrics.text(), timeout=60
    )
    # 3: remarks of style only
    assert done.returncode in (0, 3), done.stderr
    assert b"error while linting" not in done.stderr
