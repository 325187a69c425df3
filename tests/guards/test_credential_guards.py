"""Every guard around minted credentials is taken out once, and a test must go red (I6, CR-01 to CR-10)."""

import pytest

from support.mutant import Guard, outcome_without

KERNEL, SERVICE = "hostler.control.kernel.credentials", "hostler.control.credentials.service"
CONFIG, REGISTRY = "hostler.control.credentials.config", "hostler.control.credentials.registry"
TOKENS, OUT = "hostler.control.credentials.registry_token", "hostler.control.credentials.outgoing"
AWS, INTERNAL = "hostler.control.credentials.aws", "hostler.control.api.internal"
TLS, MINTS = "hostler.control.api.internal_tls", "hostler.agent.lifecycle.mints"
STEP, SEALING = "hostler.agent.steps.credential_mint", "hostler.pki.sealing"
TYPES, LINT = "hostler.catalog.credentials", "hostler.catalog.lint_credentials"
I6 = "tests/fault/test_I6_credentials.py"
CREDENTIALS = "tests/unit/control/credentials"
REGISTRY_MINTER, S3 = f"{CREDENTIALS}/test_registry_minter.py", f"{CREDENTIALS}/test_s3_minters.py"
SCOPES = f"{CREDENTIALS}/test_minter_scopes.py"
CLIENT, KIND = "tests/unit/agent/lifecycle/test_mints.py", "tests/unit/agent/steps/test_credential_mint.py"
SEALED, LINTED = "tests/unit/pki/test_sealing.py", "tests/unit/catalog/test_lint_credentials.py"
BENT = f"{I6}::test_I6_CR_02_signed_by_the_node_itself_and_still_not_its_due"
FIELDS = f"{I6}::test_I6_CR_01_each_field_missing_or_changed_after_it_was_signed"

GUARDS = {
    "the node is the certificate's": (SERVICE, "if request.node_id != node_id:", "if False:", FIELDS),
    "the task is the path's": (SERVICE, "if task_id not in", "if False and task_id not in", f"{I6}::test_API_17_the_path_must_say_what_certificate_and_body_say"),  # noqa: E501
    "the path's type": (SERVICE, "if credential_type not in", "if False and credential_type not in", f"{I6}::test_API_16_the_registry_s_path_issues_registry_credentials_alone"),  # noqa: E501
    "the runner has signed": (SERVICE, "if not spki or not PublicKey(spki).verifies(signed.signature, request.signed_bytes()):", "if not spki:", f"{I6}::test_I6_SE_04_the_network_process_has_the_node_s_key_and_still_cannot_ask"),  # noqa: E501
    "denials at the edge are counted": (SERVICE, "        self._count(err, actor.name)\n", "", f"{I6}::test_I6_a_revoked_node"),  # noqa: E501
    "denials of the kernel are counted": (SERVICE, "                self._count(err, node_id)\n", "                pass\n", f"{I6}::test_I6_a_finished_task"),  # noqa: E501
    "a last look before it is handed over": (KERNEL, "    if not command.error_code:\n        _bound(", "    if False:\n        _bound(", f"{I6}::test_CR_02_a_task_that_is_cancelled_while_the_issuer_thinks_gets_nothing"),  # noqa: E501
    "the task is this node's": (KERNEL, "        and task.node_id == node_id\n", "", f"{I6}::test_I6_another_node_s_task"),  # noqa: E501
    "the operation is the task's": (KERNEL, "        and task.operation_id == request.operation_id\n", "", BENT),
    "the attempt is the present one": (KERNEL, "        and task.attempt_uid == request.attempt_uid\n", "", BENT),
    "the task has not ended": (KERNEL, "        and task.state in (ASSIGNED, RUNNING)\n", "", f"{I6}::test_I6_a_finished_task"),  # noqa: E501
    "the step mints": (KERNEL, "template is None or template.kind != KIND", "template is None", BENT),
    "the step asks for the very same": (KERNEL, "if asked != (params.credential_type, params.part, params.intent):", "if False:", BENT),  # noqa: E501
    "the source is allowed": (KERNEL, "if source and not allows_source(", "if False and not allows_source(", f"{I6}::test_AR_09_a_source_outside_the_definition_or_the_minter_s_scope"),  # noqa: E501
    "three and no more": (KERNEL, "if minted >= MOST_MINTED:", "if False:", f"{I6}::test_CR_02_no_more_than_three_in_one_attempt"),  # noqa: E501
    "a request is answered once": (KERNEL, "if row.request_digest == request.digest():", "if False:", f"{I6}::test_I6_the_same_request_twice"),  # noqa: E501
    "the step is open": (KERNEL, "    return any(status.get(user", "    return True or any(status.get(user", f"{I6}::test_I6_a_step_that_has_ended_and_whose_users_have_too"),  # noqa: E501
    "the path names the caller": (INTERNAL, "if name != node_id:", "if False:", f"{I6}::test_API_17_the_path_must_say_what_certificate_and_body_say"),  # noqa: E501
    "a client shows a certificate": (TLS, "context.verify_mode = ssl.CERT_REQUIRED", "context.verify_mode = ssl.CERT_OPTIONAL", f"{I6}::test_API_17_nobody_but_a_node_reaches_the_endpoints"),  # noqa: E501
    "tenant and project of a scope": (CONFIG, "if self.org not in (ANY, org_id) or self.project not in (ANY, project_id):", "if False:", f"{SCOPES}::test_CR_02_a_scope_ends_where_it_says"),  # noqa: E501
    "sources of a scope": (CONFIG, "return any(covers(prefix, source_of(intent)) for prefix in self.sources)", "return True", f"{SCOPES}::test_CR_02_a_scope_ends_where_it_says"),  # noqa: E501
    "a cluster's own minter": (REGISTRY, "ask.intent.cluster != config.cluster", "False", f"{SCOPES}::test_a_cluster_s_minter_is_for_that_cluster"),  # noqa: E501
    "minters' secrets are private": (REGISTRY, "            read_private(Path(config.secret_file))\n", "", f"{SCOPES}::test_a_secret_that_others_can_read_stops_the_start"),  # noqa: E501
    "a token that opens more": (TOKENS, "if wider or not any(", "if not any(", f"{REGISTRY_MINTER}::test_CR_08_a_token_that_says_more_or_nothing_is_not_handed_on"),  # noqa: E501
    "an issuer is asked by TLS": (OUT, 'if not url.startswith("https://"):', "if False:", f"{REGISTRY_MINTER}::test_an_issuer_without_tls_is_not_spoken_to"),  # noqa: E501
    "an issuer's answer is bounded": (OUT, "if len(body) > MAX_ANSWER_BYTES:", "if False:", f"{REGISTRY_MINTER}::test_an_answer_without_end_is_cut_off"),  # noqa: E501
    "an issuer's errors are not quoted": (OUT, "({type(err).__name__})\") from None", "({type(err).__name__})\") from err", f"{REGISTRY_MINTER}::test_an_issuer_with_another_ca_is_not_spoken_to"),  # noqa: E501
    "a key without a slash is one object": (AWS, 'objects = intent.prefix if intent.prefix and not intent.prefix.endswith("/") else f"{intent.prefix}*"', 'objects = f"{intent.prefix}*"', f"{S3}::test_a_prefix_without_a_slash_is_one_object"),  # noqa: E501
    "a session ends with its task": (AWS, '"Condition": until}', '"Condition": {}}', f"{S3}::test_the_session_may_read_what_was_asked_for_until_the_task_ends_and_no_more"),  # noqa: E501
    "the control plane has signed": (MINTS, "payload = self._trust().verify(envelope, MINTED_TYPE, KeyRole.DISPATCH, self._clock.now_ms())", "payload = envelope.payload", CLIENT),  # noqa: E501
    "the answer is to this request": (MINTS, "if minted.request_digest != digest or minted.credential_type != request.credential_type:", "if False:", CLIENT),  # noqa: E501
    "the context is bound": (SEALING, "cipher.authenticate_additional_data(context)", "pass", SEALED),
    "what was sealed is whole": (SEALING, "        cipher.finalize()\n", "", SEALED),
    "a key opens once": (SEALING, "private, self._private = self._private, None", "private = self._private", SEALED),
    "the node judges the source too": (STEP, "if params.source and not allows_source(", "if False and not allows_source(", KIND),  # noqa: E501
    "an answer is not asked for again": (STEP, "if err.code not in PASSING:", "if False:", KIND),
    "no way up in a key's prefix": (TYPES, '(?!.*\\.\\.)', "", "tests/unit/catalog/test_credentials.py"),
    "an intent is no step's output": (LINT, "if found is not None and found[0]:", "if False:", LINTED),
    "users come later": (LINT, "if user not in later:", "if False:", LINTED),
    "a mint is not reused": (LINT, "    if step.reusable:\n", "    if False:\n", LINTED),
}  # fmt: skip


@pytest.mark.parametrize("name", GUARDS)
def test_without_a_guard_of_credentials_a_test_fails(name: str) -> None:
    module, text, without, test = GUARDS[name]
    done = outcome_without(Guard(module, text, without), test)
    assert done.returncode == 1, done.stdout[-2000:] + done.stderr[-2000:]
