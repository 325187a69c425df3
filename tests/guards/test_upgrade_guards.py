# ruff: noqa: E501 - a table: one guard a line
"""Each guard over versions of the agent and their trial, taken out of the source: a test goes red. None is silent."""

import pytest

from support.mutant import Guard, outcome_without

UPGRADE = "hostler.agent.upgrade"
STAGE, ORDER, SLOTS, JUDGE, LAUNCH, ENDING = (
    f"{UPGRADE}.{name}" for name in ("stage", "order", "slots", "judge", "launch", "ending")
)
WATCH, STEPS = "hostler.agent.trial_watch", "hostler.agent.steps.upgrade_trial"
UNIT = "tests/unit/agent/upgrade"
STAGED, ORDERED, JUDGED, LAUNCHED, WATCHED, RUN = (
    f"{UNIT}/test_{name}.py" for name in ("stage", "order", "judge", "launch", "trial_watch", "trial_run")
)

GUARDS = {
    "LC_12 the signed package": (STAGE, "if (release.sha256, release.size) != (self._wanted.sha256, self._wanted.size_bytes):", "if False:", f"{STAGED}::test_LC_12_a_task_that_names_another_package_than_was_signed_is_refused"),
    "U3 downgrade when staged": (STAGE, "        may_install(release, __version__)\n", "", f"{STAGED}::test_U3_down_only_by_authority"),
    "U3 replayed metadata": (STAGE, "trust.keyset, before, now_ms)", "trust.keyset, {}, now_ms)", f"{STAGED}::test_U3_metadata_of_before_is_refused"),
    "LC_12 this Debian": (STAGE, "if mine is not None and mine.suite != self._wanted.suite:", "if False:", f"{STAGED}::test_a_release_for_another_debian_is_not_installed_here"),
    "PG_06 what the package says of itself": (STAGE, "if said != (release.version, release.commit, release.suite):", "if False:", f"{STAGED}::test_a_package_that_says_something_else_of_itself_is_refused"),
    "A5 what nobody goes on with": (STAGE, "            self._clear_fetched(release)\n", "", f"{STAGED}::test_A5_packages_that_nobody_fetches_to_the_end_do_not_fill_the_disk"),
    "room": (STAGE, "if free < needed:", "if False:", f"{STAGED}::test_a_disk_without_room_is_left_alone"),
    "a slot that is damaged is staged anew": (STAGE, "if same and not slots.damage(places, one.name):", "if same:", f"{STAGED}::test_LC_10_a_damaged_slot_is_staged_anew_beside_it"),
    "LC_12 only from a package": (STEPS, "if view.installed is None or not view.installed.running:", "if view.installed is None:", f"{STAGED}::test_an_agent_that_runs_from_no_package_refuses_and_says_so"),
    "no tenant": (STEPS, "if view.allocation_id and not view.sees_all_tasks:", "if False:", f"{STAGED}::test_a_tenant_of_the_node_does_not_replace_its_agent"),
    "U3 downgrade when activated": (ORDER, "        may_install(release, __version__)\n", "        pass\n", ORDERED),
    "U3 downgrade without a release": (ORDER, "elif version_key(slot.version) < version_key(__version__):", "elif False:", ORDERED),
    "U3 back only to what was good": (ORDER, "if slot.name not in (*book.good, book.previous, PACKAGED):", "if False:", ORDERED),
    "one trial": (ORDER, "if open_ is not None and open_.key != key:", "if False:", ORDERED),
    "PG_06 only a whole slot": (SLOTS, "next((one for one in fitting if not damage(places, one.name)), None)", "next(iter(fitting), None)", ORDERED),
    "only a slot": (SLOTS, 'return leads.name if plain and not leads.name.startswith(".") else ""', "return leads.name", ORDERED),
    "LC_21 words of this version": (JUDGE, "(said.key, said.slot, said.version) != (trial.key, trial.slot, trial.version)", "False", JUDGED),
    "LC_21 the certificate is seen": (JUDGE, "RENEWED: said.renewed_ms if facts.renewed else 0,", "RENEWED: said.renewed_ms,", JUDGED),
    "U1 a crash loop": (JUDGE, "if facts.passed_over or failed_starts(facts) >= MOST_FAILED_STARTS:\n        return Return", "if False:\n        return Return", JUDGED),
    "U2 the control plane's fault": (JUDGE, "if missed[0] != STARTED and bad_ms > trial.server_bad_ms:", "if False:", JUDGED),
    "U2 asked before it is judged": (JUDGE, "if missed[0] != STARTED and facts.server_good_ms + FRESH_MS < now_ms:", "if False:", JUDGED),
    "U3 boots have an end": (JUDGE, "if trial.boots >= MOST_BOOTS:", "if False:", JUDGED),
    "U1 a version that fails is passed over": (LAUNCH, "if name and counts.get(name, 0) < most)", "if name)", LAUNCHED),
    "U1 only a whole slot is started": (LAUNCH, "if is_whole(home):", "if True:", LAUNCHED),
    "a slot is a name": (LAUNCH, 'return name if folder == "slots" and name and not name.startswith(".") else ""', "return name", LAUNCHED),
    "LC_16 the judge is of before": (LAUNCH, 'if arguments[:1] == ["trial"]:', "if False:", LAUNCHED),
    "U3 a verdict stands": (WATCH, "if verdict is not None:", "if False:", f"{WATCHED}::test_U3_a_verdict_that_was_given_stands_whatever_comes_after_it"),
    "U1 the version before may be bad too": (WATCH, "if not runs and trial.from_slot != PACKAGED:", "if False:", f"{WATCHED}::test_U1_a_trial_ends_with_the_one_version_that_works"),
    "K7 the verdict before the end": (ENDING, "    records.note_verdict(places, _verdict(trial, RETURNED, to_version, checks, at_ms))\n    over(places)\n", "    over(places)\n    records.note_verdict(places, _verdict(trial, RETURNED, to_version, checks, at_ms))\n", f"{WATCHED}::test_K7_cut_off_at_any_write_a_trial_converges"),
    "LC_16 what cannot ask does not wait": ("hostler.agent.trial_run", "        return await is_served(config)\n    except Exception", "        return await is_served(config)\n    except ImportError", RUN),
    "U1 words that are none": (f"{UPGRADE}.records", "except (OSError, HostlerError) as err:", "except OSError as err:", RUN),
    "LC_13 the package has its turn": (LAUNCH, "            break  # its turn", "            continue  # its turn", LAUNCHED),
    "U1 the session reads the counts": (LAUNCH, "os.fchmod(file.fileno(), 0o644)", "file.fileno()", LAUNCHED),
    "U1 no pipe is waited for": (LAUNCH, "os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC", "os.O_RDONLY | os.O_CLOEXEC", LAUNCHED),
    "LC_16 a full disk": (WATCH, "            if slots.current(self._places) == trial.slot:\n                self._link_anyhow", "            if False:\n                self._link_anyhow", WATCHED),
    "LC_16 nor a link": (WATCH, "            slots.switch(self._places, PACKAGED)\n", "            raise\n", WATCHED),
}  # fmt: skip


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", GUARDS)
def test_without_a_guard_of_an_upgrade_a_test_fails(name: str) -> None:
    module, text, without, test = GUARDS[name]
    done = outcome_without(Guard(module, text, without), test)
    assert done.returncode == 1, done.stdout[-2000:] + done.stderr[-2000:]
    assert "skipped" not in done.stdout.rpartition("\n")[2]
