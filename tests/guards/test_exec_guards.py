"""Every guard around commands, files and artifacts is taken out once, and its test must go red."""

import importlib.util
import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from conftest import need_root
from hostler.agent.host import confine, execute, files, helpers, output, reaper, users
from hostler.agent.steps import artifact_verify, command_exec_allowlisted, command_run, template
from hostler.pki.keys import PublicKey
from support.commands import host_in

UNIT = Path(__file__).parents[1] / "unit" / "agent"
Take = Callable[[pytest.MonkeyPatch], None]


def unit_tests(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"guarded_{Path(name).stem}", UNIT / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def passes(test: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *given: Any) -> bool:
    """Runs one test by hand, in a directory of its own; whether it is green."""
    parameters = list(inspect.signature(test).parameters)
    tmp_path.mkdir()
    values: dict[str, Any] = {"tmp_path": tmp_path, "monkeypatch": monkeypatch}
    values["files"] = files.Files(tmp_path, ("/srv", "/etc/app.conf"), ("/srv/private",))
    others = [name for name in parameters if name not in values and name != "host"]
    values.update(zip(others, given, strict=True))
    async with host_in(tmp_path) as values["host"]:
        try:
            found = test(**{name: values[name] for name in parameters})
            if inspect.isawaitable(found):
                await found
        except (Exception, pytest.fail.Exception):
            return False
    return True


# In the helper process the guard is taken out of the source. What it costs when it is gone: a test.
REAPER = {
    "orphans fall to the helper": (
        "    inherit_orphans()\n    prctl", "    prctl", "test_K6_what_outlives_its_command_is_ended_and_counted",
    ),
    "descriptors are closed": (
        "os.set_inheritable(fd, False)", "pass", "test_EX_07_only_three_descriptors_are_open_and_stdin_is_empty",
    ),
    "standard input is empty": (
        "    for fd in (0, 1, 2):\n", "    for fd in (1, 2):\n",
        "test_EX_07_only_three_descriptors_are_open_and_stdin_is_empty",
    ),
    "SIGKILL follows SIGTERM": (
        "+ KILL_LIMIT_S, signal.SIGKILL", "+ 0.1, signal.SIGTERM",
        "test_K6_every_generation_of_a_deep_tree_ends",
    ),
    "leftovers are looked for": (
        'stuck = [] if tree.reap() else tree.end(order["grace"])', "stuck = []",
        "test_K6_what_outlives_its_command_is_ended_and_counted",
    ),
    "SIGTERM comes first": (
        "monotonic() + grace_s, signal.SIGTERM", "monotonic(), signal.SIGKILL",
        "test_a_polite_command_may_clean_up_before_it_ends",
    ),
    "the pinned digest is compared": (
        "actual == sha256 and", "True and", "test_J4_a_pinned_executable_runs_while_its_digest_fits",
    ),
    "scripts are not pinned": (
        'os.pread(fd, 2, 0) != b"#!"', "True", "test_J4_a_script_cannot_be_pinned",
    ),
    "signals are given back": (
        "setsigdef=_DEFAULT_SIGNALS", "setsigdef=()",
        "test_a_command_starts_in_its_directory_with_a_private_umask_and_no_ignored_signals",
    ),
    "the umask is private": (
        "os.umask(0o077)", "os.umask(0o022)",
        "test_a_command_starts_in_its_directory_with_a_private_umask_and_no_ignored_signals",
    ),
    "the helper ignores SIGTERM": (
        "signal.signal(number, signal.SIG_IGN)", "pass",
        "test_a_helper_outlives_the_signals_of_a_service_stop",
    ),
}  # fmt: skip

USER = {
    "supplementary groups are set": '        ("setgroups", (len(groups), listed)),\n',
    "the group is set": '        ("setresgid", (gid, gid, gid)),\n',
    "the user is set": '        ("setresuid", (uid, uid, uid)),\n',
}


def without_in_confine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, old: str) -> None:
    """The helper as it is, but for one line of the module that changes the user."""
    source = Path(confine.__file__).read_text()
    assert source.count(old) == 1, f"the guard moved: {old!r}"
    (tmp_path / "weakened_confine.py").write_text(source.replace(old, ""))
    helper = Path(reaper.__file__).read_text().replace("hostler.agent.host.confine import", "weakened_confine import")
    (tmp_path / "weakened.py").write_text(f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n{helper}")
    monkeypatch.setattr(helpers, "_COMMAND", (sys.executable, "-I", str(tmp_path / "weakened.py")))


def without(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, old: str, new: str) -> None:
    source = Path(reaper.__file__).read_text()
    assert source.count(old) == 1, f"the guard moved: {old!r}"
    (tmp_path / "weakened.py").write_text(source.replace(old, new))
    monkeypatch.setattr(helpers, "_COMMAND", (sys.executable, "-I", str(tmp_path / "weakened.py")))


@pytest.mark.parametrize("guard", REAPER)
async def test_without_a_guard_of_the_helper_its_test_fails(
    guard: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new, name = REAPER[guard]
    test = getattr(unit_tests("host/test_execute"), name)
    assert await passes(test, tmp_path / "guarded", monkeypatch)
    without(monkeypatch, tmp_path, old, new)
    assert not await passes(test, tmp_path / "bare", monkeypatch)


@pytest.mark.parametrize("guard", USER)
async def test_without_one_step_of_the_user_s_change_a_test_fails(
    guard: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EX-07."""
    need_root()
    module = unit_tests("host/test_users")
    whole = module.test_EX_07_the_named_user_is_taken_on_whole_and_for_good
    again = module.test_EX_07_the_same_helper_is_root_again_afterwards
    without_in_confine(monkeypatch, tmp_path, USER[guard])
    green = [await passes(t, tmp_path / str(n), monkeypatch) for n, t in enumerate((whole, again))]
    assert not all(green)


def unchecked(profile: Any, args: dict[str, Any]) -> tuple[str, ...]:
    return (profile.command, *map(str, args.values()))


def follows_links(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(files, "_WALK", files._WALK & ~os.O_NOFOLLOW)


def inherits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(execute.Execute, "_order", _with_own_environment(execute.Execute._order))


def _with_own_environment(order: Callable[..., dict[str, object]]) -> Callable[..., dict[str, object]]:
    return lambda *args: {**order(*args), "env": dict(os.environ)}


def no_limit(patch: pytest.MonkeyPatch) -> None:
    make = output.Capture.__init__
    patch.setattr(output.Capture, "__init__", lambda s, name, _limit, *rest: make(s, name, 10**9, *rest))


def everything_is_safe(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(template._Environment, "is_safe_attribute", lambda *_: True)


def nothing_is_spent(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(template._Environment, "_spend", lambda _: None)


def any_operand(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(template._Environment, "intercepted_binops", frozenset())


AGENT: dict[str, tuple[Take, str, str, tuple[Any, ...]]] = {
    "the environment is exact": (
        inherits, "host/test_execute", "test_EX_07_the_environment_holds_only_what_was_given", (),
    ),
    "output has a limit": (
        no_limit, "host/test_execute", "test_EX_08_output_beyond_its_limit_is_read_and_dropped_with_a_mark", (),
    ),
    "a NUL is refused": (
        lambda p: p.setattr(execute, "_check", lambda _: None),
        "host/test_execute", "test_J3_a_nul_never_reaches_a_helper", (),
    ),
    "arguments are checked": (
        lambda p: p.setattr(command_exec_allowlisted, "build_argv", unchecked),
        "steps/test_command_exec_allowlisted", "test_J3_an_argument_outside_its_schema_starts_nothing", ("-rf",),
    ),
    "exit codes are compared": (
        lambda p: p.setattr(command_run, "failure_of", lambda *_: None),
        "steps/test_command_exec_allowlisted", "test_EX_08_an_exit_code_outside_the_expected_ones_fails", (),
    ),
    "an unknown end is ambiguous": (
        lambda p: p.setattr(
            command_exec_allowlisted, "_judge",
            lambda *_: command_exec_allowlisted.Probe(truth=command_exec_allowlisted.Truth.NOT_DONE),
        ),
        "steps/test_command_exec_allowlisted", "test_K1_an_interrupted_run_is_judged_by_its_profile",
        ("fail", "started {}\n", command_exec_allowlisted.Truth.AMBIGUOUS),
    ),
    "directories are not followed": (
        follows_links, "host/test_files", "test_J1_a_directory_that_is_a_symbolic_link_is_refused", ("../outside",),
    ),
    "prefixes are kept": (
        lambda p: p.setattr(files.Files, "may_write", lambda *_: None),
        "host/test_files", "test_a_path_that_is_not_plain_or_not_allowed_is_denied", ("/etc/passwd",),
    ),
    "prefixes end at a slash": (
        lambda p: p.setattr(files, "within", lambda path, prefix: path.startswith(prefix)),
        "host/test_files", "test_a_path_that_is_not_plain_or_not_allowed_is_denied", ("/srvx/file",),
    ),
    "a swapped directory is noticed": (
        lambda p: p.setattr(files.Files, "_still_there", lambda *_: None),
        "host/test_files", "test_J1_a_directory_swapped_while_the_file_is_written_is_refused", (),
    ),
    "the target's kind is looked at": (
        lambda p: p.setattr(files, "_status", lambda d, n, p: None),
        "host/test_files", "test_J1_a_target_that_is_a_symbolic_link_is_refused_and_not_followed", (),
    ),
    "temporary files are locked": (
        lambda p: p.setattr(files.fcntl, "flock", lambda *_: None),
        "host/test_files", "test_K7_the_temporary_file_of_a_writer_that_lives_is_left_alone", (),
    ),
    "leftovers are removed": (
        lambda p: p.setattr(files, "_remove_leftovers", lambda *_: None),
        "host/test_files", "test_K7_a_kill_leaves_the_old_file_or_the_new_one_and_the_next_write_cleans_up",
        ("rename", "before", b"old"),
    ),
    "attributes are sandboxed": (
        everything_is_safe, "steps/test_file_render", "test_J1_what_reaches_out_or_grows_is_a_template_error",
        ("{{ ''.__class__ }}",),
    ),
    "turns are counted": (
        nothing_is_spent, "steps/test_file_render", "test_J1_what_reaches_out_or_grows_is_a_template_error",
        ("{% for i in range(500) %}{% for j in range(500) %}{% endfor %}{% endfor %}",),
    ),
    "operands are bounded": (
        any_operand, "steps/test_file_render", "test_J1_what_reaches_out_or_grows_is_a_template_error",
        ("{{ ('a' * 10**7)|length }}",),
    ),
    "a signature is wanted": (
        lambda p: p.setattr(artifact_verify, "_wants_signature", lambda _: False),
        "steps/test_artifact_verify", "test_SK_03_an_unsigned_file_is_refused_where_policy_wants_a_signature", (),
    ),
    "a signature covers this file": (
        lambda p: p.setattr(artifact_verify, "check_statement", lambda *_: None),
        "steps/test_artifact_verify",
        "test_SK_03_a_foreign_or_wrong_signature_is_refused_whenever_one_is_named", (True,),
    ),
    "a signature is by a key of ours": (
        lambda p: p.setattr(PublicKey, "verifies", lambda *_: True),
        "steps/test_artifact_verify",
        "test_SK_03_a_foreign_or_wrong_signature_is_refused_whenever_one_is_named", (True,),
    ),
    "the digest is compared": (
        lambda p: p.setattr(artifact_verify, "same_digest", lambda *_: True),
        "steps/test_artifact_verify", "test_A3_the_right_size_with_wrong_bytes_is_a_digest_mismatch", (),
    ),
    "a missing verifier is a refusal": (
        lambda p: p.setattr(artifact_verify, "_signer", lambda _: "somebody"),
        "steps/test_artifact_verify", "test_A8_without_a_key_nothing_passes", (),
    ),
}  # fmt: skip


@pytest.mark.parametrize("guard", AGENT)
async def test_without_a_guard_of_the_agent_its_test_fails(
    guard: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take, where, name, given = AGENT[guard]
    test = getattr(unit_tests(where), name)
    assert await passes(test, tmp_path / "guarded", monkeypatch, *given)
    take(monkeypatch)
    assert not await passes(test, tmp_path / "bare", monkeypatch, *given)


async def test_without_the_service_user_root_s_commands_would_run_as_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EX-07."""
    need_root()

    async def nobody_else(*_: object) -> None:
        return None

    test = unit_tests("host/test_users").test_EX_07_without_a_name_root_starts_nothing_as_root
    monkeypatch.setattr(users.Users, "to_run_as", nobody_else)
    assert not await passes(test, tmp_path / "bare", monkeypatch)
