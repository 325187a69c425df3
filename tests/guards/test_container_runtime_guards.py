# ruff: noqa: E501 - a table: one guard a line
"""Guards of container runtimes, taken out once; a test must go red."""

import pytest

from conftest import need, need_root
from support.mutant import Guard, outcome_without

C = "hostler.agent.containers"
CRI, LOGS = "tests/unit/agent/containers/test_cri_spec.py", "tests/unit/agent/containers/test_cri_logs.py"

OWN = "tests/unit/agent/containers/test_cri_own.py"
DOCKER, PULLS = "tests/unit/agent/containers/test_docker_spec.py", "tests/unit/agent/containers/test_pulls.py"
GROUPS = "tests/unit/agent/containers/test_groups.py"
PIPES, KEEPER = "tests/unit/agent/containers/test_cri_pipes.py", "tests/unit/agent/containers/test_cri_keeper.py"
HTTP, MAKING = "tests/unit/agent/containers/test_docker_http.py", "tests/unit/agent/containers/test_cri_making.py"
UNSEEN = "tests/unit/agent/containers/test_docker_waits.py"
PROCESS, WALLS = "tests/unit/agent/containers/test_process.py", "tests/real/test_process_runtime.py"

GUARDS = {
    "containerd: all capabilities are dropped": (f"{C}.cri_spec", "made.capabilities.drop_capabilities.append(\"ALL\")", "pass", f"{CRI}::test_all_capabilities_are_dropped_but_those_that_are_kept"),
    "no capability beyond the default set": (f"{C}.walls", "if beyond:", "if False:", f"{CRI}::test_a_capability_beyond_the_default_set_is_refused"),
    "containerd: processes of its own": (f"{C}.cri_spec", "pid=cri.CONTAINER", "pid=cri.NODE", f"{CRI}::test_processes_of_the_node_are_never_seen"),
    "containerd: memory of its own": (f"{C}.cri_spec", "ipc=cri.POD", "ipc=cri.NODE", f"{CRI}::test_processes_of_the_node_are_never_seen"),
    "containerd: a container is not privileged": (f"{C}.cri_spec", "        privileged=spec.privileged,\n        readonly_rootfs", "        privileged=True,\n        readonly_rootfs", f"{CRI}::test_nothing_is_privileged_that_was_not_asked_to_be"),
    "containerd: a sandbox is not privileged": (f"{C}.cri_spec", "seccomp=_seccomp(spec), privileged=spec.privileged", "seccomp=_seccomp(spec), privileged=True", f"{CRI}::test_nothing_is_privileged_that_was_not_asked_to_be"),
    "containerd: system calls are filtered": (f"{C}.cri_spec", "cri.SecurityProfile.Unconfined if spec.privileged else cri.SecurityProfile.RuntimeDefault", "cri.SecurityProfile.Unconfined", f"{CRI}::test_nothing_is_privileged_that_was_not_asked_to_be"),
    "containerd: no new privileges": (f"{C}.cri_spec", "no_new_privs=spec.no_new_privileges", "no_new_privs=False", f"{CRI}::test_no_new_privileges_stands_unless_it_was_lifted"),
    "containerd: what was bound for reading stays so": (f"{C}.cri_spec", "readonly=b.read_only", "readonly=False", f"{CRI}::test_RN_09_every_field_comes_back"),
    "what has not ended is no end": (f"{C}.cri_spec", "cri.CONTAINER_UNKNOWN: State.UNKNOWN", "cri.CONTAINER_UNKNOWN: State.EXITED", f"{CRI}::test_RN_08_what_has_not_ended_is_no_end"),
    "a log is no link": (f"{C}.cri_logs", "os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC", "os.O_RDONLY | os.O_CLOEXEC", f"{LOGS}::test_a_log_that_is_a_link_is_not_followed"),
    "containerd: shared memory lies in our own directory": (f"{C}.shm", "if not stat.S_ISDIR(said.st_mode) or said.st_uid != os.geteuid() or said.st_mode & 0o022:", "if False:", f"{GROUPS}::test_J5_a_directory_that_somebody_else_may_have_made_holds_no_shared_memory"),
    "containerd: one that comes back reads nothing": (f"{C}.cri_pipes", "if path.is_symlink():", "if False:", f"{PIPES}::test_K3_containerd_reads_nothing_of_it_not_even_one_that_comes_back"),
    "containerd: only pipes are taken": (f"{C}.cri_pipes", "if not stat.S_ISFIFO(path.lstat().st_mode):", "if False:", f"{PIPES}::test_K3_a_pipe_is_taken_once_and_only_a_pipe"),
    "containerd: only pipes are held": (f"{C}.cri_pipes", "if not stat.S_ISFIFO(os.fstat(fd).st_mode):", "if False:", f"{PIPES}::test_K3_what_the_next_keeper_finds_in_a_pipe_comes_to_the_log"),
    "containerd: a log is no link for its keeper": (f"{C}.cri_pipes", "os.O_CREAT | os.O_NOFOLLOW", "os.O_CREAT", f"{PIPES}::test_K3_a_log_that_is_gone_or_a_link_is_not_written"),
    "containerd: what had begun is not begun again": (f"{C}.containerd", "if self._kept.noted(container).begun:", "if False:", f"{KEEPER}::test_K3_what_had_begun_when_containerd_was_killed_is_not_begun_again"),
    "containerd: only what never began is made anew": (f"{C}.cri_spec", "if noted.cut and not noted.begun else State.LOST", "if noted.cut else State.LOST", f"{CRI}::test_K3_a_start_that_was_cut_off_is_begun_again_only_where_nothing_ran"),
    "containerd: a start that may have run is lost": (f"{C}.cri_spec", "State.UNSTARTED if said.message.startswith(_BEFORE) else State.LOST", "State.UNSTARTED", f"{CRI}::test_K3_what_the_runtime_lost_is_no_failure_of_the_command"),
    "containerd: a note is a file of its directory": (f"{C}.cri_noted", "if not _ID.fullmatch(container):", "if False:", f"{KEEPER}::test_K3_a_note_is_a_file_of_its_directory"),
    "docker: all capabilities are dropped": (f"{C}.docker_spec", "[] if spec.privileged else [\"ALL\"]", "[]", f"{DOCKER}::test_all_capabilities_are_dropped_but_those_that_are_kept"),
    "docker: a container is not privileged": (f"{C}.docker_spec", "\"Privileged\": spec.privileged", "\"Privileged\": True", f"{DOCKER}::test_nothing_is_privileged_that_was_not_asked_to_be"),
    "containerd: a pod with our labels is not ours": (f"{C}.cri_spec", "each.metadata.uid == name and attempt in (\"\", name)", "True", f"{OWN}::test_J5_a_pod_of_kubernetes_with_our_labels_is_not_ours"),
    "containerd: labels alone make nothing ours": (f"{C}.cri_spec", " and name == name_of(attempt, each.labels.get(PHASE, \"\"))", "", f"{OWN}::test_J5_a_container_is_ours_by_its_name_and_its_sandbox_and_not_by_labels_alone"),
    "docker: labels alone make nothing ours": (f"{C}.docker_spec", "found.name == name_of(attempt, phase)", "True", f"{DOCKER}::test_J5_a_container_is_ours_by_its_name_and_node_and_not_by_labels_alone"),
    "docker: what another node made is not ours": (f"{C}.docker_spec", "return named and found.labels.get(NODE, \"\") == node_id", "return named", f"{DOCKER}::test_J5_a_container_is_ours_by_its_name_and_node_and_not_by_labels_alone"),
    "docker: nothing else is listed": (f"{C}.docker", "for one in found if docker_spec.is_own(one, self._node_id)", "for one in found", "tests/real/test_docker_engine.py::test_J5_what_only_carries_our_labels_is_not_taken_for_ours"),
    "docker: processes of its own": (f"{C}.docker_spec", "\"PidMode\": \"\"", "\"PidMode\": \"host\"", f"{DOCKER}::test_processes_and_memory_of_the_node_are_never_seen"),
    "docker: memory of its own": (f"{C}.docker_spec", "\"IpcMode\": \"private\"", "\"IpcMode\": \"host\"", f"{DOCKER}::test_processes_and_memory_of_the_node_are_never_seen"),
    "docker: no new privileges": (f"{C}.docker_spec", "[\"no-new-privileges\"] if spec.no_new_privileges else []", "[]", f"{DOCKER}::test_nothing_is_privileged_that_was_not_asked_to_be"),
    "docker: what was bound for reading stays so": (f"{C}.docker_spec", "\"ReadOnly\": bind.read_only", "\"ReadOnly\": False", f"{DOCKER}::test_RN_09_every_field_comes_back"),
    "docker: no swap behind the memory": (f"{C}.docker_spec", "\"MemorySwap\": limits.memory_bytes", "\"MemorySwap\": -1", f"{DOCKER}::test_memory_has_no_swap_behind_it"),
    "docker: the image's own program is not run": (f"{C}.docker_spec", "\"Entrypoint\": [spec.command[0]]", "\"Entrypoint\": []", f"{DOCKER}::test_RN_09_every_field_comes_back"),
    "an image is named by its digest": (f"{C}.pulls", "if not re.search(", "if False and not re.search(", f"{PULLS}::test_an_image_is_named_by_its_whole_digest"),
    "docker: an answer has its bounds": (f"{C}.docker_http", "if len(body) > MOST:", "if False:", f"{HTTP}::test_an_answer_has_its_bounds"),
    "docker: only what this process has started is waited for unseen": (f"{C}.docker", "runs = container in self._begun", "runs = True", f"{UNSEEN}::test_RN_01_one_that_nobody_has_started_has_not_ended"),
    "containerd: what is there already is looked at before it is started": (f"{C}.cri_making", "return Made(here[0].id, fresh=False)", "return Made(here[0].id)", f"{MAKING}::test_K3_what_an_earlier_agent_has_made_is_found_and_counts_as_not_fresh"),
    "processes: nothing is privileged": (f"{C}.process_spec", "if spec.privileged or kept_capabilities(spec):", "if False:", f"{PROCESS}::test_what_a_process_cannot_have_is_refused"),
    "processes: a root that is shared is not called read-only": (f"{C}.process_spec", "if spec.read_only_root:", "if False:", f"{PROCESS}::test_what_a_process_cannot_have_is_refused"),
    "processes: a name is one plain directory": (f"{C}.process", "if not _NAME.fullmatch(spec.name):", "if False:", f"{PROCESS}::test_a_name_is_one_plain_directory"),
    "processes: a container is one plain directory": (f"{C}.process", "if _NAME.fullmatch(container) and place.is_dir()", "if place.is_dir()", f"{PROCESS}::test_a_name_is_one_plain_directory"),
}  # fmt: skip

# They start programs as another user, so they need root.
WALLED = {
    "processes: no capability can be had": (f"{C}.shim_child", "_libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)", "pass", f"{WALLS}::test_J1_a_process_has_no_capability_and_can_get_none"),
    "processes: no new privileges": (f"{C}.shim_child", "spec[\"no_new_privileges\"] and _libc", "False and _libc", f"{WALLS}::test_J1_a_process_has_no_capability_and_can_get_none"),
    "processes: in no group of the agent's": (f"{C}.shim_child", "os.setgroups(groups)", "pass", f"{WALLS}::test_J1_a_process_is_the_user_it_was_given_and_in_no_group_of_the_agent_s"),
    "processes: another user": (f"{C}.shim_child", "os.setresuid(uid, uid, uid)", "pass", f"{WALLS}::test_J1_a_process_is_the_user_it_was_given_and_in_no_group_of_the_agent_s"),
    "processes: no core file": (f"{C}.shim_child", "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))", "pass", f"{WALLS}::test_J1_a_process_leaves_no_core"),
    "processes: they end with their supervisor": (f"{C}.shim_child", "_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # after", "pass  # after", f"{WALLS}::test_a_process_ends_with_its_supervisor"),
    "processes: bound for reading": (f"{C}.shim_mounts", "if read_only:", "if False:", f"{WALLS}::test_J1_what_is_bound_for_reading_is_not_written"),
}  # fmt: skip


@pytest.mark.parametrize("name", WALLED)
def test_without_a_wall_around_processes_a_test_fails(name: str) -> None:
    need("busybox")
    need_root()
    module, text, without, test = WALLED[name]
    done = outcome_without(Guard(module, text, without), test)
    assert done.returncode == 1, done.stdout[-2000:] + done.stderr[-2000:]


@pytest.mark.parametrize("name", GUARDS)
def test_without_a_guard_of_containers_a_test_fails(name: str) -> None:
    module, text, without, test = GUARDS[name]
    done = outcome_without(Guard(module, text, without), test)
    assert done.returncode == 1, done.stdout[-2000:] + done.stderr[-2000:]
