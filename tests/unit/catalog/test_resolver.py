"""RS-02..RS-06, RS-09, EX-04: the form of a resolver configuration, what must hold of it, and what it resolves to."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from hostler.base.errors import HostlerError
from hostler.catalog.command_profile import CommandProfile, command_profile_from
from hostler.catalog.kinds import ABSTRACT, KINDS
from hostler.catalog.lint import lint
from hostler.catalog.load import load_profiles
from hostler.catalog.manifest import make_manifest
from hostler.catalog.resolver import (
    ResolverConfig,
    advice,
    check_config,
    consider,
    resolve,
    resolver_config_from,
    rule_id,
)
from hostler.control.api.openapi import document
from support import builders, resolving
from support.builders import definition
from support.keys import NOW, YEAR_MS, Keys
from support.resolving import KIND, config

ROOT = Path(__file__).resolve().parents[3]
BY_NAME = {profile.id: profile for profile in resolving.commands()}
NVIDIA, AMD, BOTH = {"gpu.vendor": "nvidia"}, {"gpu.vendor": "amd"}, {"gpu.vendor": "nvidia", "os.machine": "x86_64"}
ANY: dict[str, str] = {}


def problems(of: ResolverConfig, *definitions: Any, commands: Any = BY_NAME) -> list[str]:
    return [f"{problem.pointer}: {problem.message}" for problem in check_config(of, commands, definitions)]


def step_of(kind: str) -> Any:
    return builders.StepTemplate(id="one", kind=kind)


# -- the seed's samples ---------------------------------------------------------------------------


def test_RS_04_the_seeds_sample_loads_unchanged_and_holds_together() -> None:
    sample = resolver_config_from(yaml.safe_load(resolving.SAMPLE))
    assert problems(sample) == []
    assert [rule.match for rule in sample.hardware_profiles] == [NVIDIA, AMD, {}]
    assert resolve(sample, KIND, {"gpu.vendor": "intel"}).profile_id == "generic_gpu_runtime_check"


def test_EX_04_X18_the_seeds_resolved_profile_loads_unchanged_with_the_safest_defaults(tmp_path: Path) -> None:
    profile = command_profile_from(yaml.safe_load(resolving.NVIDIA_SMI_HEALTH))
    assert (profile.run_as, profile.retries, profile.arg_schema) == ("", 0, {})
    assert (profile.timeout_seconds, profile.expected_exit_codes) == (30, (0,))
    assert profile.allowed_args[1] == "--format=csv,noheader"
    for name, text in (("commands", resolving.NVIDIA_SMI_HEALTH), ("definitions", None), ("resolver", None)):
        (tmp_path / name).mkdir()
        if text:
            (tmp_path / name / "a.yaml").write_text(text)
    ((loaded, _),) = load_profiles(tmp_path).commands
    assert loaded == profile


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"hardware_profiles": []},
        {"hardware_profiles": [{"match": {}}]},
        {"hardware_profiles": [{"match": {}, "overrides": {}, "when": "now"}]},
        {"hardware_profiles": [{"match": {"gpu.vendor": 1}, "overrides": {}}]},
        {"hardware_profiles": [{"match": {}, "overrides": {KIND: ["a"]}}]},
        {"hardware_profiles": [{"match": {}, "overrides": {}}] * 257},
        {"hardware_profiles": [{"match": {f"k{n}": "v" for n in range(17)}, "overrides": {}}]},
        {"hardware_profiles": [{"match": {"k" * 129: "v"}, "overrides": {}}]},
        {"hardware_profiles": [], "id": "x"},
    ],
)
def test_RS_04_any_other_form_is_refused(value: Any) -> None:
    with pytest.raises(HostlerError) as refused:
        resolver_config_from(value)
    assert refused.value.code == "invalid_definition"


# -- what it resolves to --------------------------------------------------------------------------


def test_RS_02_of_two_rules_that_match_the_first_wins_and_swapped_the_other() -> None:
    one, other = (NVIDIA, {KIND: "nvidia_smi_health"}), (BOTH, {KIND: "rocm_smi_health"})
    last = (ANY, {KIND: "generic_gpu_runtime_check"})
    assert resolve(config(one, other, last), KIND, BOTH).profile_id == "nvidia_smi_health"
    assert resolve(config(other, one, last), KIND, BOTH).profile_id == "rocm_smi_health"


def test_RS_02_a_rule_that_matches_and_does_not_name_the_kind_leaves_it_to_the_next() -> None:
    made = config((NVIDIA, {"gpu.fabric.verify": "nccl_allreduce_test"}), (ANY, {KIND: "generic_gpu_runtime_check"}))
    assert resolve(made, KIND, NVIDIA).rule_id == "2:*"


def test_RS_05_no_rule_that_names_the_kind_is_a_refusal() -> None:
    sample = resolving.sample()
    for kind, capabilities in (("gpu.fabric.verify", {"gpu.vendor": "intel"}), ("gpu.container_runtime.check", NVIDIA)):
        with pytest.raises(HostlerError) as refused:
            resolve(sample, kind, capabilities)
        assert refused.value.code == "no_resolver"
        assert kind in refused.value.message


def test_RS_09_a_rules_id_is_made_of_its_place_and_its_match_and_of_nothing_else() -> None:
    match = {"os.machine": "x86_64", "gpu.vendor": "nvidia"}
    backwards = dict(reversed(match.items()))
    ids = {rule_id(config((each, {}), (ANY, {})), 0) for each in (match, backwards)}
    assert ids == {"1:gpu.vendor=nvidia,os.machine=x86_64"}


@pytest.mark.parametrize("capabilities", [NVIDIA, AMD, BOTH, ANY, {"gpu.vendor": "other"}])
@pytest.mark.parametrize("kind", sorted(ABSTRACT))
def test_RS_09_the_explanation_is_the_resolution(kind: str, capabilities: dict[str, str]) -> None:
    sample = resolving.sample()
    told = consider(sample, kind, capabilities)
    assert len(told) == 3
    taken = [(rule.rule_id, rule.profile_id) for rule in told if rule.taken]
    try:
        found = resolve(sample, kind, capabilities)
    except HostlerError:
        assert taken == []
    else:
        assert taken == [(found.rule_id, found.profile_id)]
    assert consider(sample, kind, capabilities) == told


def test_RS_09_each_rule_says_why() -> None:
    told = consider(resolving.sample(), KIND, AMD)
    assert [rule.why for rule in told] == [
        "gpu.vendor is amd, not nvidia",
        "the first that matches",
        "matches, and an earlier one won",
    ]
    assert consider(resolving.sample(), "gpu.fabric.verify", ANY)[0].why == "gpu.vendor is unknown, not nvidia"
    assert (
        consider(resolving.sample(), "gpu.fabric.verify", ANY)[2].why
        == "matches, and says nothing about gpu.fabric.verify"
    )


# -- what must hold -------------------------------------------------------------------------------


def test_RS_03_a_configuration_without_a_fallback_or_with_rules_after_it_is_refused() -> None:
    one, last = (NVIDIA, {KIND: "nvidia_smi_health"}), (ANY, {KIND: "generic_gpu_runtime_check"})
    assert "must be the fallback" in problems(config(one))[0]
    (after,) = [text for text in problems(config(last, last)) if "must be the last" in text]
    assert after.startswith("/hardware_profiles/0/match")
    assert problems(config(one, last)) == []


@pytest.mark.parametrize(
    "command",
    [
        CommandProfile(id="fine", command="/usr/bin/true"),
        CommandProfile(id="fine", command="/bin/echo"),
        CommandProfile(id="fine", command="/usr/bin/grep", expected_exit_codes=(0, 1)),
    ],
    ids=["true", "echo", "any-exit-code"],
)
def test_RS_03_a_fallback_may_not_be_always_fine(command: CommandProfile) -> None:
    (problem,) = problems(config((ANY, {KIND: "fine"})), commands={"fine": command})
    assert "verifies nothing" in problem


def test_RS_05_an_override_names_a_profile_that_exists_and_a_kind_that_is_abstract() -> None:
    (missing,) = problems(config((NVIDIA, {KIND: "nobody"}), (ANY, {})))
    assert missing.startswith("/hardware_profiles/0/overrides/gpu.runtime.check: there is no command profile 'nobody'")
    (wrong,) = problems(config((ANY, {"artifact.verify": "nvidia_smi_health"})))
    assert "is no abstract step kind" in wrong


@pytest.mark.parametrize("user", ["root", "0"])
def test_a_rule_picks_nothing_that_runs_as_root_because_no_approval_covers_it(user: str) -> None:
    by_name = {"mighty": CommandProfile(id="mighty", command="/usr/bin/stat", run_as=user)}
    (problem,) = problems(config((NVIDIA, {KIND: "mighty"}), (ANY, {})), commands=by_name)
    assert "runs as root" in problem


@pytest.mark.parametrize(
    ("kind", "requires", "where"),
    [
        (KIND, {"os.kernel": "linux"}, ""),
        ("gpu.fabric.verify", {"os.kernel": "linux"}, "a node of any hardware"),
        ("gpu.fabric.verify", {"gpu.vendor": "nvidia"}, ""),
        ("gpu.fabric.verify", {"gpu.vendor": ["nvidia", "amd"], "host.init": ["systemd", "other"]}, ""),
        ("gpu.fabric.verify", {"gpu.vendor": ["nvidia", "intel"]}, "gpu.vendor=intel"),
        ("gpu.fabric.verify", {}, "a node of any hardware"),
        ("gpu.container_runtime.check", {"gpu.vendor": "nvidia"}, "gpu.vendor=nvidia"),
    ],
)
def test_RS_05_a_kind_that_a_definition_uses_resolves_on_every_node_it_may_run_on(
    kind: str, requires: dict[str, Any], where: str
) -> None:
    found = problems(resolving.sample(), definition(step_of(kind), capabilities=requires))
    assert len(found) == bool(where)
    assert all(f"{kind} of demo.write@v1 has no resolution on {where} " in text for text in found)


def test_a_rule_that_could_never_win_is_pointed_out() -> None:
    made = config((NVIDIA, {KIND: "nvidia_smi_health"}), (BOTH, {KIND: "rocm_smi_health"}), (ANY, {}))
    (problem,) = advice(made, BY_NAME)
    assert problem.pointer == "/hardware_profiles/1/overrides/gpu.runtime.check"
    assert "rule 1:gpu.vendor=nvidia matches all it could match" in problem.message


# -- as files, and in the catalog -----------------------------------------------------------------


def test_RS_03_the_linter_names_file_and_line(tmp_path: Path) -> None:
    for name in ("definitions", "commands", "resolver"):
        (tmp_path / name).mkdir()
    path = tmp_path / "resolver" / "site.yaml"
    path.write_text(
        "hardware_profiles:\n  - match: {gpu.vendor: nvidia}\n    overrides:\n      gpu.runtime.check: nobody\n"
    )
    found = [(each.file, each.line, each.rule) for each in lint(load_profiles(tmp_path))]
    assert found == [(str(path), 2, "resolver"), (str(path), 4, "resolver")]
    path.write_text("hardware_profiles:\n  - match: {}\n    overrides: [a]\n")
    with pytest.raises(HostlerError, match=re.escape(f"{path}, line 3")):
        load_profiles(tmp_path)


def test_the_configuration_that_ships_is_in_order_and_signed_by_its_files_name() -> None:
    shipped = load_profiles(ROOT / "profiles")
    assert [finding for finding in lint(shipped) if finding.rule == "resolver"] == []
    made = make_manifest(1, (), (), shipped.configs, now_ms=NOW, lifetime_ms=YEAR_MS)
    assert made.resolvers == {"default": shipped.configs["default"].digest()}


def test_RD_01_a_configuration_is_opened_by_its_digest_or_the_catalog_is_refused() -> None:
    keys = Keys()
    opened = builders.catalog(keys, commands=resolving.commands(), resolvers={"site": resolving.sample()})
    assert opened.resolvers == {"site": resolving.sample()}
    assert resolving.sample().canonical() in opened.documents
    from hostler.catalog.manifest import open_catalog

    manifest, documents = builders.catalog_bundle(
        keys, (), resolving.commands(), resolvers={"site": resolving.sample()}
    )
    others = tuple(document for document in documents if document != resolving.sample().canonical())
    with pytest.raises(HostlerError, match="site is absent") as refused:
        open_catalog(manifest, others, keys.trust(), NOW)
    assert refused.value.code == "catalog_mismatch"


def test_a_catalog_without_one_is_signed_over_the_same_bytes_as_ever() -> None:
    plain = make_manifest(1, (), (), now_ms=NOW, lifetime_ms=YEAR_MS)
    assert "resolvers" not in msgspec.json.decode(plain.canonical())


# -- the public contracts -------------------------------------------------------------------------

VENDORS = "nvidia amd intel mellanox cuda rocm level_zero nccl rccl nvlink xgmi geforce tesla instinct hopper blackwell"


def test_RS_06_no_public_contract_names_a_vendor() -> None:
    texts = {"openapi": msgspec.json.encode(document("1")).decode()}
    texts |= {path.name: path.read_text() for path in (ROOT / "proto" / "hostler" / "v1").glob("*.proto")}
    assert len(texts) >= 5
    named = re.compile(rf"(?<![a-z])({'|'.join(VENDORS.split())})", re.IGNORECASE)
    assert {name: match[0] for name, text in texts.items() if (match := named.search(text))} == {}


def test_the_kinds_that_are_abstract_are_those_a_configuration_may_speak_of() -> None:
    assert {name for name, kind in KINDS.items() if kind.abstract} == ABSTRACT & KINDS.keys()
