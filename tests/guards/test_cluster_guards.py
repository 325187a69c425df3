"""Every guard of joining a cluster is taken out once, and a test must go red (SK-13, SK-14, J2)."""

# ruff: noqa: E501 - a guard and what is left of it stand on one line

import pytest

from support.mutant import Guard, outcome_without

TRUST, CSR, KUBE = (f"hostler.agent.clusters.{name}" for name in ("kube_trust", "kube_csr", "kubernetes"))
LABELS, FILES, RAY, SLURM = (f"hostler.agent.clusters.{name}" for name in ("kube_files", "files", "ray", "slurm"))
JOIN, PARAMS = "hostler.agent.steps.cluster_join", "hostler.catalog.params.cluster"
PREPARE, KNOWN, AUTHORITY = (
    "hostler.agent.runner.prepare",
    "hostler.agent.admission.known",
    "hostler.agent.admission.authority",
)
AUTO, ALLOWED, LINT = "hostler.catalog.auto_executed", "hostler.catalog.allowed", "hostler.catalog.lint_cluster"
K8S = "tests/flow/test_cluster_join_kubernetes.py"
U, J2 = "tests/unit/agent/clusters", "tests/fault/test_J2_files_of_a_join.py"
UNPINNED = f"{K8S}::test_SK_13_a_ca_that_is_not_pinned_gets_no_token"
ELSEWHERE = f"{K8S}::test_SK_13_a_node_of_another_cluster_is_refused_unless_it_is_to_be_replaced"
INFO = f"{K8S}::test_SK_13_the_ca_may_come_from_cluster_info_when_pin_and_signature_fit"
NOT_READY = f"{K8S}::test_SK_14_a_node_that_is_not_ready_fails_with_the_cluster_s_condition"
CATALOG = "tests/unit/catalog/test_cluster_params.py"

GUARDS = {
    "the CA is the pinned one": (TRUST, "if spki_sha256(one) in pins", "if True", UNPINNED),
    "the server shows that CA's certificate": (TRUST, "    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN", "    context.check_hostname = False; context.verify_mode = ssl.CERT_NONE", UNPINNED),
    "the credential is for that server": (KUBE, 'if given.server and given.server.rstrip("/") != site.cluster.server:', "if False:", UNPINNED),
    "cluster-info is signed": (TRUST, "or not hmac.compare_digest(signature, expected)", "", INFO),
    "another cluster is refused": (JOIN, "if other and not params.replace:", "if False:", ELSEWHERE),
    "a cluster is its CA": (KUBE, "            kube_trust.pinned(pem, site.cluster.ca_sha256)\n", "            pass\n", ELSEWHERE),
    "the other cluster's key is not kept": (KUBE, 'key = b"" if joining.fresh else content_of(site, "key")', 'key = content_of(site, "key")', ELSEWHERE),
    "nor what the kubelet rotated to": (KUBE, "            _refuse_rotated(site)\n", "            pass\n", f"{K8S}::test_SK_13_what_the_kubelet_rotated_to_in_the_other_cluster_has_to_go_first"),
    "labels a node may not have": (LABELS, "if reserved and not own and key not in _OWN_LABELS:", "if False:", f"{K8S}::test_SK_13_a_label_that_a_node_may_not_give_itself_is_refused_before_anything_is_written"),
    "the certificate is for our key": (KUBE, "if not kube_csr.is_ours(certificate, key, site.node, kube_csr.now()):", "if False:", f"{K8S}::test_SK_13_a_certificate_for_another_key_is_not_taken"),
    "the node object is of this machine": (KUBE, "if boot_id and theirs and theirs != boot_id:", "if False:", NOT_READY),
    "labels are looked for": (KUBE, "if node.metadata.labels.get(key) != value:", "if False:", NOT_READY),
    "taints are looked for": (KUBE, "if (taint.key, taint.value, taint.effect) not in carried:", "if False:", NOT_READY),
    "a file's mode counts": (FILES, "or int(found.mode, 8) != wanted.mode", "", f"{U}/test_slurm.py"),
    "a key is its owner's alone": (SLURM, 'Wanted("key", 0o400,', 'Wanted("key", 0o444,', f"{U}/test_slurm.py"),
    "so is a token": (RAY, 'Wanted("token", 0o400,', 'Wanted("token", 0o444,', f"{U}/test_ray.py"),
    "a receipt holds no digest of a key": (JOIN, "told = wanted.role not in self._open", "told = True", f"{U}/test_slurm.py"),
    "a silent node is not ready": (SLURM, "not bad and not silent", "not bad", f"{U}/test_slurm.py"),
    "a drained node is not ready": (SLURM, "and not bad and", "and", f"{U}/test_slurm.py"),
    "the head is not the node": (RAY, "and not node.is_head_node", "", f"{U}/test_ray.py"),
    "the token is for that head": (RAY, "if given.address != site.cluster.head:", "if False:", f"{U}/test_ray.py"),
    "a token is one word": (RAY, "if not _TOKEN.fullmatch(given.token):", "if False:", f"{U}/test_ray.py"),
    "admission judges every file": (KNOWN, 'if name == "files":', "if False:", f"{J2}::test_J2_a_join_into_what_runs_by_itself_is_refused_before_it_starts"),
    "so does the runner": (PREPARE, "    for path in files_of(params):\n        check_written(step.kind, path, work.definition.auto_executed_paths)\n", "", f"{J2}::test_J2_a_path_that_is_known_only_after_a_step_is_refused_then"),
    "so does the node's authority": (AUTHORITY, "        for path in files_of(params):\n            self.check_value(\"path\", path)\n", "", f"{J2}::test_AZ_09_the_node_s_own_authority_looks_at_every_file_and_unit"),
    "and its units": (AUTHORITY, '        elif name == "units":\n            self._check_name("unit", str(item), self.allow_units, self.deny_units)\n', '        elif name == "units":\n            pass\n', f"{J2}::test_AZ_09_the_node_s_own_authority_looks_at_every_file_and_unit"),
    "a join writes": (AUTO, ', "cluster.join"', "", f"{J2}::test_J2_files_count_only_where_they_are_written"),
    "a join's units are named": (ALLOWED, "    if kind == JOIN:\n", "    if False:\n", f"{J2}::test_SK_08_a_unit_that_the_definition_does_not_name_is_not_restarted"),
    "slurm.conf names no programs": (PARAMS, "for name in line if _SLURM_RESERVED.match(name)", "for name in line if False", CATALOG),
    "a kubelet's trust is not a setting": (PARAMS, "for name in self.settings.keys() - KUBELET_SETTINGS:", "for name in ():", CATALOG),
    "ray is not root": (PARAMS, 'if self.owner == "root":', "if False:", CATALOG),
    "credentials come from steps": (LINT, "if credential and (found is None or not found[0]):", "if False:", CATALOG),
    "replacing is signed": (LINT, 'if reference(step.params.get("replace")) is not None:', "if False:", CATALOG),
}  # fmt: skip


@pytest.mark.parametrize("name", GUARDS)
def test_without_a_guard_of_joining_a_test_fails(name: str) -> None:
    module, text, without, test = GUARDS[name]
    done = outcome_without(Guard(module, text, without), test)
    assert done.returncode == 1, done.stdout[-2000:] + done.stderr[-2000:]
