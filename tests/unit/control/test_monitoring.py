"""What is counted, and that the shipped rules and dashboard ask for what is counted (OB-03, OB-04)."""

import json
import re
from pathlib import Path

import pytest
import yaml

from hostler.base.codes import CODES
from hostler.catalog.kinds import KINDS
from hostler.control.kernel.event_types import EVENT_TYPES
from hostler.control.kernel.rows import EventRow
from hostler.control.metering import STEP_ENDS, Metering
from hostler.control.metrics import Metrics

SHIPPED = Path(__file__).parents[3] / "packaging/monitoring"
# Events of a part that is not there yet: the rule stands, and counts from the day it is.
COMING: set[str] = set()
SERIES = re.compile(r"\b((?:hostler|credential_mint)_[a-z0-9_]+)(?:\{([^}]*)\})?")
LABEL = re.compile(r'(\w+)=(~?)"([^"]*)"')


def rules() -> dict[str, str]:
    groups = yaml.safe_load((SHIPPED / "alerts.yaml").read_text())["groups"]
    return {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"]}


def asked() -> list[tuple[str, str, str]]:
    """(where, series, labels) of every expression."""
    dashboard = json.loads((SHIPPED / "dashboard.json").read_text())
    found = list(rules().items())
    found += [(panel["title"], t["expr"]) for panel in dashboard["panels"] for t in panel["targets"]]
    return [(where, name, labels) for where, expr in found for name, labels in SERIES.findall(expr)]


def exported(metrics: Metrics) -> dict[str, set[str]]:
    """Sample name → names of its labels, of everything that can be scraped."""
    found: dict[str, set[str]] = {}
    for collector in set(metrics.registry._collector_to_names):
        labels = set(collector._labelnames)
        suffixes = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}[collector._type]
        for suffix in suffixes:
            found[f"{collector._name}{suffix}"] = labels | ({"le"} if suffix == "_bucket" else set())
    return found


@pytest.mark.parametrize(("where", "name", "labels"), asked())
def test_OB_03_what_rules_and_dashboard_ask_for_is_exported(where, name, labels) -> None:
    known = exported(Metrics())
    assert name in known, f"{where} asks for {name}"
    for label, is_pattern, value in LABEL.findall(labels):
        assert label in known[name]
        values = {
            "type": {*EVENT_TYPES, *COMING},
            "step_kind": KINDS,
            "reason": CODES,
            "status": STEP_ENDS,
            "result": {"delivered", "failed", "parked"},
        }[label]
        assert any(re.fullmatch(value, each) if is_pattern else each == value for each in values), (where, value)


def test_OB_03_there_is_a_rule_for_each_of_the_four_named_alerts() -> None:
    assert {
        "HostlerOperationFailureSpike",
        "HostlerBootstrapVerifyFailing",
        "HostlerAgentUpgradeFailing",
        "HostlerCredentialDenied",
    } <= set(rules())


def event(type_: str, **body: object) -> EventRow:
    return EventRow(at_ms=1, type=type_, body=json.dumps(body))


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_OB_04_events_are_counted_by_what_they_say() -> None:
    metrics = Metrics()
    metering = Metering(metrics)
    step = {"step_kind": "cluster.verify", "step_status": "failed", "duration_ms": 1500}
    metering.take(
        [event("operation.progress", **step), event("operation.progress", **(step | {"step_status": "running"}))]
    )
    metering.take([event("operation.failed"), event("operation.submit_refused"), event("node.lost")])
    assert value(metrics, "hostler_steps_finished_total", step_kind="cluster.verify", status="failed") == 1
    assert value(metrics, "hostler_step_seconds_sum", step_kind="cluster.verify") == 1.5
    assert value(metrics, "hostler_operations_finished_total", status="failed") == 1
    assert value(metrics, "hostler_events_total", type="operation.progress") == 2
    assert value(metrics, "hostler_events_total", type="refused") == 1
    assert value(metrics, "hostler_events_total", type="node.lost") == 1


def test_OB_04_no_node_makes_a_series() -> None:
    metrics = Metrics()
    metering = Metering(metrics)
    before = metrics.text().count(b"\n")
    for n in range(50):
        metering.take([event(f"made.up_{n}")])
        metering.take([event("operation.progress", step_kind=f"own.{n}", step_status="failed", duration_ms=1)])
        metering.take([event("operation.progress", step_kind="file.render", step_status=f"own{n}", duration_ms=1)])
    metering.take([EventRow(at_ms=1, type="operation.progress", body="{")])
    grown = metrics.text().count(b"\n") - before
    assert grown < 25  # one series each for `other`, and its histogram
    assert value(metrics, "hostler_steps_finished_total", step_kind="other", status="failed") == 50


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("hostler_operations_finished_total", {"status": "failed"}),
        ("hostler_steps_finished_total", {"step_kind": "cluster.verify", "status": "failed"}),
        ("credential_mint_denied_total", {"reason": "mint_not_bound"}),
        ("credential_mint_denied_total", {"reason": "no_minter"}),
        ("hostler_events_total", {"type": "node.lost"}),
    ],
)
def test_OB_03_the_first_failure_of_a_process_is_an_increase(name, labels) -> None:
    """A series that appears with its first count never rises in the eyes of `increase`."""
    metrics = Metrics()
    Metering(metrics)
    assert value(metrics, name, **labels) == 0
