"""Every guard over what a registry, an archive or a signature brings is taken out once, and a test must go red."""

import pytest

from support.mutant import Guard, outcome_without

OCI = "hostler.agent.oci"
NAMES, UNPACK, ROOM, MANIFEST = "hostler.pki.archive", f"{OCI}.unpack", f"{OCI}.room", f"{OCI}.manifest"
REGISTRY, SIGNATURES, COSIGN = f"{OCI}.registry", f"{OCI}.signatures", "hostler.pki.cosign"
VERIFY, ARTIFACTS = "hostler.agent.steps.artifact_verify", "hostler.control.kernel.artifacts"
ARCHIVES = "tests/fault/test_A5_A6_archives.py"
LIARS = "tests/fault/test_A3_A4_registries_that_lie.py"
REAL, SIGNED = "tests/real/test_pull_oci.py", "tests/unit/agent/steps/test_artifact_verify_cosign.py"
SOURCES, KEPT = "tests/unit/agent/steps/test_artifact_sources.py", "tests/unit/control/kernel/test_artifacts.py"

GUARDS: dict[str, tuple[Guard, str]] = {
    "A6_parent": (Guard(NAMES, 'if ".." in parts:', "if False:"), ARCHIVES),
    "A6_depth": (Guard(NAMES, "if len(parts) > MAX_DEPTH:", "if False:"), ARCHIVES),
    "A6_our_names": (Guard(NAMES, "if part.startswith(OURS):", "if False:"), ARCHIVES),
    "A6_alike": (Guard(NAMES, "if spelled != name:", "if False:"), ARCHIVES),
    "A6_link_out": (Guard(NAMES, "if depth < 0:", "if False:"), ARCHIVES),
    "A6_link_absolute": (Guard(NAMES, 'target.startswith("/") or ', ""), ARCHIVES),
    "A6_set_id": (Guard(UNPACK, "if member.mode & (stat.S_ISUID | stat.S_ISGID):", "if False:"), ARCHIVES),
    "A6_types": (Guard(UNPACK, "if kind not in (", "if False and kind not in ("), ARCHIVES),
    "A6_twice": (Guard(UNPACK, "if name in mine and kind != tarfile.DIRTYPE:", "if False:"), ARCHIVES),
    "A6_through_a_link": (
        Guard(UNPACK, "_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW", "_OPEN = os.O_RDONLY | os.O_DIRECTORY"),
        ARCHIVES,
    ),
    "A6_hard_link_to_a_file_only": (Guard(UNPACK, "if not stat.S_ISREG(found.st_mode):", "if False:"), ARCHIVES),
    "A5_holes": (Guard(UNPACK, 'if getattr(member, "sparse", None) is not None:', "if False:"), ARCHIVES),
    "A5_bytes": (Guard(UNPACK, "if self.bytes > self.most_bytes:", "if False:"), ARCHIVES),
    "A5_entries": (Guard(UNPACK, "if self.entries > self.most_entries:", "if False:"), ARCHIVES),
    "A5_ratio": (Guard(UNPACK, "self._unpacked > self._packed * MOST_RATIO", "False"), ARCHIVES),
    "A5_header": (Guard(NAMES, "if self.size > MOST_HEADER:", "if False:"), ARCHIVES),
    "A6_headers_before_an_entry": (
        Guard(NAMES, "if before >= MOST_HEADERS:", "if False:"),
        "tests/unit/agent/oci/test_archive_headers.py",
    ),
    "A5_check_on_the_way": (Guard(UNPACK, "        self._budget.check()", "        pass"), ARCHIVES),
    "A4_digest_of_a_document": (
        Guard(MANIFEST, 'if not same_digest(f"sha256:{sha256_hex(body)}", digest):', "if False:"),
        LIARS,
    ),
    "A4_one_reading": (Guard(MANIFEST, 'if "layers" in fields and "manifests" in fields:', "if False:"), LIARS),
    "A4_media_type": (
        Guard(MANIFEST, "if stated not in (INDEXES if isinstance(found, Index) else MANIFESTS):", "if False:"),
        LIARS,
    ),
    "A4_token_server": (
        Guard(
            REGISTRY, "return self._access.named(url) if with_credential else self._access.allowed(url)", "return True"
        ),
        LIARS,
    ),
    "A7_credential_only_where_named": (
        Guard(
            REGISTRY,
            "self._access.named(url) if with_credential else self._access.allowed(url)",
            "self._access.allowed(url)",
        ),
        f"{REAL}::test_a_credential_is_shown_to_no_token_server_that_no_list_names",
    ),
    "AR_09_credential_of_another_registry": (
        Guard(REGISTRY, "if login is not None and login.registry not in (", "if False and login.registry not in ("),
        f"{REAL}::test_a_credential_is_shown_to_no_token_server_that_no_list_names",
    ),
    "A7_the_registry_is_always_asked": (  # and not whoever was told before
        Guard(
            "hostler.agent.steps.artifact_pull_oci",
            "found = await find(registry, params.platform or own_platform())",
            "found = vars(KIND).get(params.reference) or await find(registry, params.platform or own_platform()); "
            "vars(KIND)[params.reference] = found",
        ),
        f"{REAL}::test_A7_what_is_here_already_is_not_given_to_whoever_may_not_pull_it",
    ),
    "a_foreign_directory_stays": (
        Guard(ROOM, "if names and MARKER not in names:", "if False:"),
        f"{REAL}::test_a_new_digest_replaces_the_directory_in_one_step_and_a_foreign_directory_is_left",
    ),
    "RN_06_a_room_that_somebody_may_come_back_to": (
        Guard(ROOM, "if touched_s < before_s:", "if True:"),
        "tests/unit/agent/oci/test_room.py",
    ),
    "RN_06_a_room_that_is_gone": (
        Guard(ROOM, "if not os.fstat(self.descriptor).st_nlink:", "if False:"),
        "tests/unit/agent/oci/test_room.py",
    ),
    "SK_01_no_tag": (
        Guard("hostler.catalog.oci", "if match is None:", "if False:"),
        f"{REAL}::test_SK_01_a_tag_is_refused",
    ),
    "A8_no_key": (
        Guard(VERIFY, "if not view.artifact_keys:", "if False:"),
        "tests/unit/agent/steps/test_artifact_verify.py",
    ),
    "A8_asked_for_by_the_policy": (
        Guard(VERIFY, "view.policy.require_signature_verification or asked", "asked"),
        "tests/unit/agent/steps/test_artifact_verify.py",
    ),
    "AR_05_asked_for_by_the_definition": (
        Guard(
            "hostler.agent.runner.prepare",
            "policy, required = work.spec.policy, work.definition.artifacts.require_signature",
            "policy, required = work.spec.policy, False",
        ),
        "tests/unit/agent/runner/test_runner.py::test_AR_05_a_definition_s_signature_is_wanted_whatever_the_inputs_name",
    ),
    "AZ_09_what_this_node_forbids": (
        Guard(
            "hostler.agent.steps.contract",
            "allows_source(self.policy, self.allowed_sources, url) and self.local_source(url)",
            "allows_source(self.policy, self.allowed_sources, url)",
        ),
        f"{SOURCES}::test_AZ_09_a_redirect_leads_nowhere_that_this_node_forbids",
    ),
    "SK_03_what_is_pulled_is_verified": (
        Guard(
            "hostler.agent.admission.policy_gate",
            'pulled.get("path") in (verify.get("path"), verify["signature_path"])',
            "True",
        ),
        "tests/unit/agent/admission/test_policy_gates.py::test_SK_03_a_signature_that_is_pulled_needs_no_signature_of_its_own",
    ),
    "AR_05_subject": (
        Guard(
            COSIGN,
            'if not any(same_digest(one.digest.get("sha256", ""), sha256) for one in statement.subject):',
            "if False:",
        ),
        SIGNED,
    ),
    "AR_05_predicate_type": (
        Guard(COSIGN, "if predicate_types and statement.predicate_type", "if False and x"),
        SIGNED,
    ),
    "AR_05_predicate": (Guard(COSIGN, "if type(found) is not type(wanted) or found != wanted:", "if False:"), SIGNED),
    "AR_05_key": (
        Guard(COSIGN, "    if not signer:\n        raise error", "    if False:\n        raise error"),
        "tests/unit/agent/steps/test_artifact_verify.py",
    ),
    "AR_05_image": (
        Guard(COSIGN, "stated.type in _TYPES and same_digest(stated.image.digest, digest)", "stated.type in _TYPES"),
        "tests/real/test_verify_oci.py",
    ),
    "AR_05_kind_of_signature": (
        Guard(
            COSIGN,
            "stated.type in _TYPES and same_digest(stated.image.digest, digest)",
            "same_digest(stated.image.digest, digest)",
        ),
        "tests/real/test_verify_oci.py",
    ),
    "AR_05_an_attestation_is_no_signature": (
        Guard(
            SIGNATURES,
            "types = wanted.predicate_types if wanted.attestation else (SIGNED_IMAGE,)",
            "types = wanted.predicate_types",
        ),
        "tests/real/test_verify_oci.py",
    ),
    "AR_03_only_at_home": (
        Guard(
            "hostler.agent.steps.artifact_sources",
            "make(target) if target.origin == home.origin else NOTHING",
            "make(target)",
        ),
        SOURCES,
    ),
    "AR_03_signed_url_is_the_one_named": (
        Guard(
            "hostler.agent.steps.artifact_sources",
            'if url.partition("?")[0] != source.base or "#" in url:',
            "if False:",
        ),
        SOURCES,
    ),
    "AR_09_credential_of_another_store": (
        Guard("hostler.agent.steps.artifact_sources", "key.endpoint != source.endpoint or ", ""),
        SOURCES,
    ),
    "AR_04_parts": (
        Guard("hostler.agent.fetch.pace", "if known and (index", "if False and (index"),
        "tests/fault/test_A1_A2_ranges_that_lie.py::test_AR_04_a_wrong_part_is_found_on_the_way_by_its_own_digest",
    ),
    "DM_06_content_has_its_digest": (
        Guard(ARTIFACTS, "same_digest(sha256_hex(one.content), one.sha256)", "True"),
        KEPT,
    ),
    "DM_06_content_is_bounded": (Guard(ARTIFACTS, "or len(one.content) > MAX_CONTENT", ""), KEPT),
    "DM_06_no_query": (Guard(ARTIFACTS, ' or "?" in one.uri', ""), KEPT),
}


@pytest.mark.parametrize("name", GUARDS)
def test_the_suite_goes_red_without(name: str) -> None:
    guard, tests = GUARDS[name]
    done = outcome_without(guard, tests)
    assert done.returncode == 1, done.stdout[-1500:] + done.stderr[-500:]
    assert " failed" in done.stdout
