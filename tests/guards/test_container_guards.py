"""Every guard around containers is taken out once, and a test must go red."""

import pytest

from support.mutant import Guard, outcome_without

STEPS, CONTAINERS, KERNEL = "hostler.agent.steps", "hostler.agent.containers", "hostler.control.kernel"
RULES, ENV, TASK = f"{STEPS}.container_rules", f"{STEPS}.container_env", f"{STEPS}.container_task"
WATCH, IMAGE = f"{STEPS}.container_watch", f"{STEPS}.container_image"
WORKLOADS, SESSIONS = "hostler.agent.workloads", f"{KERNEL}.sessions"
ESCAPES, ADOPTED = "tests/fault/test_J5_containers.py", "tests/fault/test_TE_20_adopted_containers.py"
CACHED, RUN = "tests/fault/test_A7_cached_private_image.py", "tests/unit/agent/steps/test_container_run.py"
FORGOT, BOOK = "tests/unit/control/kernel/test_lost_journals.py", "tests/unit/agent/containers/test_device_book.py"
PORTS = "tests/unit/agent/containers/test_ports.py"

GUARDS: dict[str, tuple[Guard, str]] = {
    "RN_05_process": (Guard(RULES, "if runtime == PROCESS and not settings.allow_process:", "if False:"), ESCAPES),
    "J5_privileged": (
        Guard(RULES, 'if params.security == "privileged" and not settings.allow_privileged:', "if False:"),
        ESCAPES,
    ),
    "J5_host_network": (
        Guard(RULES, 'if params.network == "host" and not settings.allow_host_network:', "if False:"),
        ESCAPES,
    ),
    "J5_images": (
        Guard(RULES, "if allowed is not None and not any(within(name", "if False and not any(within(name"),
        ESCAPES,
    ),
    "J5_targets": (
        Guard(RULES, "if any(within(target, taken) or within(taken, target) for taken in TAKEN):", "if False:"),
        ESCAPES,
    ),
    "J5_one_target_each": (Guard(RULES, "if len(set(targets)) < len(targets):", "if False:"), ESCAPES),
    "J5_mounts": (
        Guard(RULES, "if not any(within(mount.source, prefix) for prefix in settings.allow_mounts):", "if False:"),
        ESCAPES,
    ),
    "J5_writable_mounts": (
        Guard(RULES, "if not mount.read_only and not any(", "if False and not any("),
        ESCAPES,
    ),
    "J5_never": (Guard(RULES, "if within(mount.source, path) or within(path, mount.source):", "if False:"), ESCAPES),
    "J5_plain_paths": (Guard(RULES, "        components(path)", "        pass"), ESCAPES),
    "J5_directories_only": (Guard(RULES, "if not stat.S_ISDIR(found.st_mode):", "if False:"), ESCAPES),
    "J5_looked_at_again": (
        Guard(TASK, "        binds_of(self._context, self._workloads.kept_paths)\n\n", "        pass\n\n"),
        f"{ESCAPES}::test_J5_nobody_can_allow_these_mounts",
    ),
    "J5_visible_devices": (Guard(ENV, "        system[VISIBLE] = NOTHING_VISIBLE", "        pass"), ESCAPES),
    "TE_02_ours_win": (Guard(ENV, "if not name.startswith(OURS) and name not in system", "if True"), RUN),
    "TE_02_system_last": (Guard(ENV, "| kept | system, dropped", "| system | dict(wanted), dropped"), RUN),
    "A7_ask_the_registry": (Guard(IMAGE, "    await _authorise(context, reference)", "    pass"), CACHED),
    "TE_20_own_container": (
        Guard(TASK, "if any(found.labels.get(name) != value for name, value in said.items()):", "if False:"),
        ADOPTED,
    ),
    "TE_20_start_once": (Guard(TASK, "if await watched.state(container) is State.CREATED:", "if True:"), ADOPTED),
    "TE_20_stopping_agents_kill_nothing": (
        Guard(
            TASK,
            "        except Exception:\n            if self._begun:",
            "        except BaseException:\n            if self._begun:",
        ),
        ADOPTED,
    ),
    "TE_20_lines_and_cursor_together": (
        Guard("hostler.agent.journal.steps", "        save_checkpoint(db, *mark)", "        pass"),
        ADOPTED,
    ),
    "RN_07_setup_is_told_first": (
        Guard(TASK, "                await self._notes.keep()  # nobody", "                # nobody"),
        ADOPTED,
    ),
    "TE_21_ports_recovered": (
        Guard(
            WORKLOADS, '            self.ports.hold(uid, ports_in(one.labels.get(spec.PORTS, "")))', "            pass"
        ),
        ADOPTED,
    ),
    "TE_09_ports_held": (Guard(f"{CONTAINERS}.ports", "port not in taken and ", ""), PORTS),
    "TE_09_ports_free": (Guard(f"{CONTAINERS}.ports", " and self._is_free(port)", ""), PORTS),
    "RN_09_devices_held": (Guard(f"{CONTAINERS}.device_book", "if _word(one) not in held]", "]"), BOOK),
    "OP_17_stopped_before_it_is_said": (
        Guard("hostler.agent.runner.step_run", "and not found.alive:", "and True:"),
        ADOPTED,
    ),
    "EF_05_fence": (Guard(WATCH, "if silent >= self._params.fence_seconds:", "if False:"), RUN),
    "EF_05_only_who_asked": (Guard(WATCH, 'if self._params.fence == "hard":', "if True:"), RUN),
    "K3_silence_stops_nothing": (Guard(WORKLOADS, "        return self._was_heard()", "        return True"), ADOPTED),
    "K3_grace": (
        Guard(
            WORKLOADS,
            "return 0 < self._heard_for() >= self.settings.orphan_grace_seconds",
            "return self._heard_for() > 0",
        ),
        ADOPTED,
    ),
    "RN_11_scratch_is_closed": (Guard(WORKLOADS, "        folder.parent.parent.chmod(0o700)", "        pass"), RUN),
    "EF_09_sent_again": (Guard(SESSIONS, "if _outlives_its_agent(draft, task):", "if False:"), FORGOT),
    "EF_09_not_when_cancelled": (
        Guard(SESSIONS, "            if not task.cancel_requested:  # else", "            if True:  # else"),
        FORGOT,
    ),
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", list(GUARDS))
def test_without_the_guard_a_test_goes_red(name: str) -> None:
    guard, tests = GUARDS[name]
    done = outcome_without(guard, tests)
    assert done.returncode == 1, f"{name} can go and nobody notices:\n{done.stdout[-2000:]}{done.stderr[-500:]}"
