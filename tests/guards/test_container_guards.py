"""Every guard around containers is taken out once, and a test must go red."""

import pytest

from support.mutant import Guard, outcome_without

STEPS, CONTAINERS, KERNEL = "hostler.agent.steps", "hostler.agent.containers", "hostler.control.kernel"
RULES, ENV, TASK = f"{STEPS}.container_rules", f"{STEPS}.container_env", f"{STEPS}.container_task"
WATCH, IMAGE = f"{STEPS}.container_watch", f"{STEPS}.container_image"
WORKLOADS, SESSIONS = "hostler.agent.workloads", f"{KERNEL}.sessions"
ESCAPES, ADOPTED = "tests/fault/test_J5_containers.py", "tests/fault/test_TE_20_adopted_containers.py"
CLOSED = f"{ESCAPES}::test_J5_closed_unless_root_of_the_node_has_said_so"
NEVER = f"{ESCAPES}::test_J5_nobody_can_allow_these_mounts"
CACHED, RUN = "tests/fault/test_A7_cached_private_image.py", "tests/unit/agent/steps/test_container_run.py"
FORGOT, BOOK = "tests/unit/control/kernel/test_lost_journals.py", "tests/unit/agent/containers/test_device_book.py"
PORTS = "tests/unit/agent/containers/test_ports.py"
PRIVATE = "tests/real/test_RN_06_private_images.py"
LEFT = "tests/unit/agent/test_workloads_clear.py::test_RN_11_what_a_killed_agent_has_not_cleared_the_next_one_clears"
ORPHANS = f"{ADOPTED}::test_K3_orphans_are_stopped_only_when_it_is_sure_that_nobody_wants_them"
ANY_DEATH = f"{ADOPTED}::test_TE_20_no_line_is_lost_or_told_twice_whenever_the_agent_dies"
STOPPED = f"{ADOPTED}::test_TE_20_a_stopped_agent_says_nothing_and_the_next_one_goes_on"
FENCE = "test_EF_05_only_a_hard_fence_stops_what_runs_while_the_control_plane_is_silent"
BEGUN = "\n            if self._begun:"
HOLD = '            self.ports.hold(uid, ports_in(one.labels.get(spec.PORTS, "")))'

GUARDS: dict[str, tuple[Guard, str]] = {
    "RN_05_process": (
        Guard(RULES, "if runtime == PROCESS and not settings.allow_process:", "if False:"),
        f"{ESCAPES}::test_RN_05_plain_processes_are_for_nodes_that_say_so",
    ),
    "J5_privileged": (
        Guard(RULES, 'if params.security == "privileged" and not settings.allow_privileged:', "if False:"),
        CLOSED,
    ),
    "J5_host_network": (
        Guard(RULES, 'if params.network == "host" and not settings.allow_host_network:', "if False:"),
        CLOSED,
    ),
    "J5_images": (Guard(RULES, "if allowed is not None and not any(", "if False and not any("), CLOSED),
    "J5_targets": (
        Guard(RULES, "if any(within(target, taken) or within(taken, target) for taken in TAKEN):", "if False:"),
        f"{ESCAPES}::test_J5_a_mount_covers_nothing_that_the_house_or_the_kernel_puts_there",
    ),
    "J5_one_target_each": (
        Guard(RULES, "if len(set(targets)) < len(targets):", "if False:"),
        f"{ESCAPES}::test_J5_two_mounts_at_one_place_are_refused",
    ),
    "J5_mounts": (
        Guard(RULES, "if not any(within(mount.source, prefix) for prefix in settings.allow_mounts):", "if False:"),
        CLOSED,
    ),
    "J5_writable_mounts": (Guard(RULES, "if not mount.read_only and not any(", "if False and not any("), CLOSED),
    "J5_never": (
        Guard(RULES, "if within(mount.source, path) or within(path, mount.source):", "if False:"),
        f"{ESCAPES}::test_J5_the_agents_own_state_is_never_mounted_wherever_it_is",
    ),
    "J5_plain_paths": (
        Guard(RULES, "        components(path)", "        pass"),
        f"{ESCAPES}::test_J5_a_mount_covers_nothing_that_the_house_or_the_kernel_puts_there",
    ),
    "J5_directories_only": (Guard(RULES, "if not stat.S_ISDIR(found[-1].st_mode):", "if False:"), NEVER),
    "J5_not_below_writable": (
        Guard(RULES, "if within(mount.source, prefix) and not within(prefix, mount.source):", "if False:"),
        f"{ESCAPES}::test_J5_nothing_is_mounted_from_within_what_other_containers_write_to",
    ),
    **{
        f"J5_swapped_{number}": (
            Guard(RULES, text, without),
            f"{ESCAPES}::test_J5_what_others_could_swap_for_a_link_is_not_mounted",
        )
        for number, (text, without) in enumerate(
            (
                ("if above.st_uid not in ours:", "if False:"),
                ("if not above.st_mode & (stat.S_IWGRP | stat.S_IWOTH):", "if True:"),
                (" or entry.st_uid not in ours", ""),
            )
        )
    },
    "J5_logs_of_others": (
        Guard(WORKLOADS, "settings.log_dir or LOG_DIR)", "settings.log_dir)"),
        f"{ESCAPES}::test_J5_what_other_tenants_containers_have_said_is_never_mounted",
    ),
    "J3_nul": (
        Guard(RULES, 'if any("\\0" in word for', "if any(False for"),
        f"{ESCAPES}::test_J3_no_argument_and_no_variable_holds_a_nul",
    ),
    "J5_visible_devices": (
        Guard(ENV, "        system[VISIBLE] = NOTHING_VISIBLE", "        pass"),
        f"{ESCAPES}::test_J4_J5_devices_come_from_the_node_alone",
    ),
    "TE_02_ours_win": (
        Guard(ENV, "if not name.startswith(OURS) and name not in system", "if True"),
        f"{RUN}::test_TE_02_TE_03_names_of_the_house_win_over_the_users",
    ),
    "TE_02_system_last": (
        Guard(ENV, "| kept | system, dropped", "| system | dict(wanted), dropped"),
        f"{RUN}::test_TE_02_TE_03_names_of_the_house_win_over_the_users",
    ),
    "A7_ask_the_registry": (  # and not whoever was told before
        Guard(
            IMAGE,
            "found = await find(registry, own_platform())",
            "found = globals().get(params.image) or await find(registry, own_platform()); "
            "globals()[params.image] = found",
        ),
        CACHED,
    ),
    "RN_06_a_token_that_containerd_drops": (
        Guard(IMAGE, "if runtime.name != CONTAINERD or not _by_token(context):", "if True:"),
        f"{PRIVATE}::test_RN_06_tasks_that_want_one_image_at_once_fetch_it_once",
    ),
    "RN_06_its_container_interface_sees_it": (
        Guard(IMAGE, "    await _until_seen(context, runtime, image)", "    pass"),
        f"{PRIVATE}::test_RN_06_a_container_is_made_when_the_container_interface_has_seen_the_image",
    ),
    "RN_06_an_image_of_any_size": (
        Guard(IMAGE, "    refuse_excess(found, _bounds(context))", "    pass"),
        f"{PRIVATE}::test_RN_06_the_limits_and_the_sources_of_a_pull_hold_here_too",
    ),
    "RN_06_what_was_cancelled_goes": (
        Guard("hostler.agent.oci.intake", "if self.owner.cancelled.is_set():", "if False:"),
        f"{PRIVATE}::test_RN_06_a_pull_that_is_cancelled_leaves_nothing_on_the_node",
    ),
    "RN_06_brought_once": (
        Guard("hostler.agent.oci.intake", "if waited and (image := await self._present(name, found)):", "if False:"),
        f"{PRIVATE}::test_RN_06_tasks_that_want_one_image_at_once_fetch_it_once",
    ),
    "A7_its_yes_before_the_start": (Guard(TASK, "await self._or_stopped(outcome_of(allowed))", "pass"), CACHED),
    "A7_what_was_not_started_is_asked_for": (
        Guard(TASK, "(main is not None and main.state is not State.CREATED)", "main is not None"),
        CACHED,
    ),
    "TE_20_own_container": (
        Guard(TASK, "if any(found.labels.get(name) != value for name, value in said.items()):", "if False:"),
        f"{ADOPTED}::test_K3_a_container_that_says_it_is_another_tasks_is_not_taken_up",
    ),
    "TE_20_start_once": (
        Guard(TASK, "if not fresh and await watched.state(container) is not State.CREATED:", "if False:"),
        f"{ADOPTED}::test_K2_a_container_that_ended_meanwhile_is_reported_and_not_run_again",
    ),
    "TE_20_stopping_agents_kill_nothing": (
        Guard(
            TASK, "except Exception:\n            if self._begun", "except BaseException:\n            if self._begun"
        ),
        STOPPED,
    ),
    "TE_20_lines_and_cursor_together": (
        Guard(
            "hostler.agent.journal.journal",
            "            steps.save_checkpoint(db, key, mark, data)",
            "            pass",
        ),
        ANY_DEATH,
    ),
    "TE_21_ports_recovered": (
        Guard(WORKLOADS, HOLD, "            pass"),
        f"{ADOPTED}::test_K3_EF_09_with_the_journal_gone_the_same_attempt_is_adopted_when_it_is_sent_again",
    ),
    "TE_09_ports_held": (Guard(f"{CONTAINERS}.ports", "port not in taken and ", ""), PORTS),
    "TE_09_ports_free": (Guard(f"{CONTAINERS}.ports", " and self._is_free(port)", ""), PORTS),
    "RN_09_devices_held": (Guard(f"{CONTAINERS}.device_book", "if _word(one) not in held]", "]"), BOOK),
    "OP_17_stopped_before_it_is_said": (
        Guard("hostler.agent.runner.step_run", "and not found.alive:", "and True:"),
        f"{ADOPTED}::test_a_cancel_that_came_while_the_agent_was_down_stops_the_container_first",
    ),
    "EF_05_fence": (Guard(WATCH, "if silent >= self._params.fence_seconds:", "if False:"), f"{RUN}::{FENCE}"),
    "EF_05_only_who_asked": (Guard(WATCH, 'if self._params.fence == "hard":', "if True:"), f"{RUN}::{FENCE}"),
    "K3_silence_stops_nothing": (Guard(WORKLOADS, "        return self._was_heard()", "        return True"), ORPHANS),
    "K3_silence_clears_nothing": (
        Guard(WORKLOADS, " if self._was_heard() else set()", ""),
        LEFT,
    ),
    "RN_11_what_is_open_stays": (
        Guard(WORKLOADS, "        left -= self._journal.open_attempts()", "        left -= set()"),
        LEFT,
    ),
    "K3_grace": (Guard(WORKLOADS, ">= self.settings.orphan_grace_seconds", ">= 0"), ORPHANS),
    "RN_11_scratch_is_closed": (
        Guard(WORKLOADS, "        folder.parent.parent.chmod(0o700)", "        pass"),
        f"{RUN}::test_RN_11_what_an_ended_task_leaves_is_cleared_away",
    ),
    "EF_09_sent_again": (Guard(SESSIONS, "if _outlives_its_agent(draft, task):", "if False:"), FORGOT),
    "EF_09_cancelled_after_it": (
        Guard(SESSIONS, "if task.cancel_requested and sent.state == ASSIGNED:", "if False:"),
        FORGOT,
    ),
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", GUARDS)
def test_the_suite_goes_red_without(name: str) -> None:
    guard, tests = GUARDS[name]
    done = outcome_without(guard, tests)
    assert done.returncode == 1, done.stdout[-1500:] + done.stderr[-500:]
    assert " failed" in done.stdout or "+ Timeout +" in done.stdout, done.stdout[-1500:]
