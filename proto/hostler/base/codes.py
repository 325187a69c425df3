"""Every `error_code`, its family, what it means and what to do. Codes are a contract: never renamed.

`docs/errors.md` is generated from this table.
"""

from typing import NamedTuple


class Code(NamedTuple):
    family: str
    meaning: str
    hint: str


CODES: dict[str, Code] = {
    # -- the caller's data --------------------------------------------------------------------
    "invalid_request": Code("InvalidInput", "the request body or a parameter is malformed", "compare the request with /openapi.json"),
    "unknown_field": Code("InvalidInput", "a document holds a field that does not exist", "remove the field, or check its spelling"),
    "input_schema": Code("InvalidInput", "operation inputs break the definition's schema", "see the pointer, and the schema in 'hostler profiles show'"),
    "secret_in_payload": Code("InvalidInput", "inputs look like secret material", "name a credential instead; secrets never travel in a request"),
    "unknown_definition": Code("InvalidInput", "no such operation type and version is registered", "'hostler profiles list' shows what there is"),
    "unknown_step_kind": Code("InvalidInput", "a definition names a step kind that does not exist", "see docs/steps for the kinds there are"),
    "invalid_definition": Code("InvalidInput", "a profile document breaks a rule", "run 'hostler profiles lint' for file, line and rule"),
    "invalid_yaml": Code("InvalidInput", "a YAML document cannot be read", "mend the line named"),
    "invalid_config": Code("InvalidInput", "a configuration file cannot be used", "mend the key named; nothing was started"),
    "unknown_target": Code("InvalidInput", "the target selector names a node that does not exist", "'hostler nodes list' shows the nodes of your project"),
    "empty_target": Code("InvalidInput", "the target selector matches no node", "check the labels with 'hostler nodes list'"),
    "not_proved": Code("Conflict", "nodes have not proved the new key yet", "wait for them: 'hostler pki status'"),
    "catalog_unsigned": Code("InvalidInput", "the catalog is not signed by enough trusted catalog keys", "sign it with 'hostler profiles sign'"),
    "digest_required": Code("InvalidInput", "an artifact is named without its digest", "name it by sha256"),
    "invalid_cursor": Code("InvalidInput", "the page cursor is not one this server gave out", "start again without a cursor"),
    # -- who you are, and what you may --------------------------------------------------------
    "unauthenticated": Code("Unauthenticated", "the request carries no valid credential", "pass a token made by 'hostler-control principals add'"),
    "certificate_invalid": Code("Unauthenticated", "the peer's certificate is not one of ours or has expired", "enrol the node again"),
    "enrolment_token_invalid": Code("Unauthenticated", "the enrolment token is unknown or expired", "make a new one with 'hostler nodes token'"),
    "enrolment_token_used": Code("Unauthenticated", "the enrolment token was used before", "if that was not you, look at the node it enrolled; make a new token"),
    "identity_cloned": Code("Denied", "two hosts use one node identity", "revoke the node and enrol each host by itself"),
    "revoked": Code("Denied", "the node's certificate is revoked", "enrol the node again if it is trusted"),
    "scope_denied": Code("Denied", "the principal's role does not allow this", "ask an administrator of the scope"),
    "target_not_owned": Code("Denied", "the target belongs to another tenant or project", "select nodes of your own project"),
    "policy_denied": Code("Denied", "the effective policy forbids the operation", "see the policy named in the message"),
    # -- the node says no ---------------------------------------------------------------------
    "bad_signature": Code("Refused", "a signature does not fit the bytes it covers", "the envelope was altered; nothing was run"),
    "untrusted_key": Code("Refused", "signed by a key that has no such role in the keyset", "check which key signed, and the keyset's version"),
    "malformed_envelope": Code("Refused", "the envelope is no canonical envelope", "the sender is broken or hostile; nothing was run"),
    "unknown_signed_field": Code("Refused", "the signed payload holds a field this agent does not know", "update the agent"),
    "wrong_node": Code("Refused", "the task is addressed to another node", "nothing was run"),
    "wrong_node_key": Code("Refused", "the task is bound to another key of this node", "the node was enrolled again meanwhile; submit again"),
    "wrong_allocation": Code("Refused", "the task is bound to another allocation", "submit again for the present allocation"),
    "expired": Code("Refused", "the task's validity has ended", "submit again; check both clocks"),
    "not_yet_valid": Code("Refused", "the task is not valid yet", "check both clocks"),
    "replayed": Code("Refused", "the task was executed before; its first result stands", "nothing was run a second time"),
    "stale_sequence": Code("Refused", "the task's sequence is not above the last one seen", "the control plane may be an old copy"),
    "controller_rollback": Code("Refused", "the control plane knows less than this node has seen of it", "restore the newest copy, or open a recovery epoch: 'hostler pki recover'"),
    "epoch_unsigned": Code("Refused", "the control plane names an epoch that no keyset of this node carries", "publish the keyset that the root signed for it"),
    "approval_missing": Code("Refused", "a definition that destroys or runs as root lacks enough approvals", "sign the proposal with the approvers' keys: 'hostler catalog sign'"),
    "catalog_mismatch": Code("Refused", "the task differs from the signed catalog", "publish the definition in a signed catalog first"),
    "catalog_rollback": Code("Refused", "the catalog is older than the one in use", "publish a higher version with the old content"),
    "catalog_stale": Code("Refused", "the catalog has expired", "sign and publish a fresh one"),
    "keyset_rollback": Code("Refused", "the keyset is older than the one in use", "only a higher version is accepted"),
    "keyset_stale": Code("Refused", "the keyset has expired", "sign a fresh keyset with the root keys"),
    "keyset_untrusted": Code("Refused", "the keyset is not signed by enough pinned root keys", "check the root pins of this node"),
    "local_policy_denied": Code("Refused", "this node's own authority forbids it", "see the authority section of the agent's configuration"),
    "incompatible": Code("Refused", "the node lacks a required capability", "see the key named in the message"),
    "plan_drift": Code("Refused", "a fresh plan differs from the approved one", "look at the new plan and approve it"),
    "source_denied": Code("Refused", "the artifact's source is not allowed", "see allowed_artifact_sources of the policy and the definition"),
    "path_denied": Code("Refused", "a path lies outside what is allowed", "see the allowed prefixes of the definition and of the node"),
    "unknown_handle": Code("Refused", "a step names a secret that it may not use, or that is used up, expired or wiped", "handles are for one attempt and the steps they were made for; retry the operation"),
    "storage_unhealthy": Code("Refused", "the node's journal cannot be trusted or written", "see 'hostler-agent status' on the node"),
    "audit_fork": Code("Refused", "the control plane shows two histories", "treat it as taken over; keep the witness's state file as evidence"),
    "audit_rollback": Code("Refused", "the control plane's history went back, or hides receipts", "was an old copy restored? else treat it as taken over"),
    "audit_incomplete": Code("Refused", "checkpoints are missing between those shown and the last one seen", "fetch them from the first one on"),
    # -- state --------------------------------------------------------------------------------
    "not_found": Code("NotFound", "there is nothing under that name in your scope", "check the id and the project"),
    "definition_exists": Code("Conflict", "the version is registered with another content", "publish under a new version"),
    "definition_retired": Code("Conflict", "the definition version is retired", "use a newer version"),
    "idempotency_mismatch": Code("Conflict", "the idempotency key was used with another body", "use a new key for a new request"),
    "operation_final": Code("Conflict", "the operation has already ended", "submit a new operation or retry it"),
    "operation_not_final": Code("Conflict", "the operation has not ended yet", "wait for it or cancel it first"),
    "node_exists": Code("Conflict", "a node of that name exists", "choose another name, or remove the old node"),
    "principal_exists": Code("Conflict", "a principal of that name exists", "choose another name, or revoke the old one"),
    "already_initialised": Code("Conflict", "the directory already holds keys or state", "choose an empty directory; nothing was overwritten"),
    # -- capacity and dependencies ------------------------------------------------------------
    "disk_full": Code("Exhausted", "there is not enough free space", "free space on the file system named"),
    "too_large": Code("Exhausted", "a size limit was passed", "see max_artifact_size_bytes of the policy"),
    "rate_limited": Code("Exhausted", "too many requests at once", "try again later"),
    "secret_memory": Code("Exhausted", "a secret cannot be held in memory that is locked and can be wiped", "raise the agent's RLIMIT_MEMLOCK, or see the size named"),
    "backend_not_implemented": Code("Unavailable", "no executor of that backend type is present", "use backend_type node_agent"),
    "signer_unavailable": Code("Unavailable", "the token or TPM that holds a signing key does not answer", "look at the token; nothing was signed"),
    "controller_unreachable": Code("Unavailable", "the control plane does not answer", "check the address and that it runs"),
    "source_unreachable": Code("Unavailable", "the artifact's source does not answer", "the transfer resumes where it stood when tried again"),
    "store_unavailable": Code("Unavailable", "the store cannot be written", "see the control plane's log"),
    # -- the work ran and failed --------------------------------------------------------------
    "exit_status": Code("StepFailed", "the command ended with an unexpected exit code", "see the step's log"),
    "killed_by_signal": Code("StepFailed", "the command was ended by a signal", "see the step's log"),
    "command_not_found": Code("StepFailed", "the command profile's executable is not on this node", "install it, or require the capability"),
    "command_changed": Code("StepFailed", "the executable's digest differs from the pinned one", "find out who replaced it"),
    "digest_mismatch": Code("StepFailed", "the bytes do not have the expected digest", "check the digest and the source"),
    "size_mismatch": Code("StepFailed", "the bytes do not have the expected length", "check the size and the source"),
    "bad_range": Code("StepFailed", "the server answered a range request wrongly", "the transfer was not spliced; try again or another source"),
    "bad_response": Code("StepFailed", "the source answered in a way that cannot be used", "nothing of it was kept; try another source"),
    "sandbox_unavailable": Code("StepFailed", "the kernel refused a wall around the command, so it was not started", "see docs/security.md for what a node's kernel needs"),
    "undeclared_effect": Code("StepFailed", "the command tried to change what its profile does not declare", "declare it under effects.writes, or mend the command"),
    "signature_missing": Code("StepFailed", "a required artifact signature is absent or foreign", "sign the artifact with a key of the keyset"),
    "verifier_missing": Code("StepFailed", "a required verifier is not available", "verification fails closed"),
    "health_red": Code("StepFailed", "a health check did not pass in time", "see the check named"),
    "template_error": Code("StepFailed", "the template could not be rendered", "check the template's variables"),
    "file_error": Code("StepFailed", "a file could not be read or written", "see the path named"),
    "timeout": Code("StepFailed", "the step took longer than allowed", "its process tree was ended"),
    "canceled": Code("StepFailed", "the step was cancelled", "nothing, if that was intended"),
    "binding_error": Code("StepFailed", "an input or output that a step needs is absent", "check the definition's bindings"),
    "interrupted_apply": Code("Ambiguous", "the agent ended in the middle of the step and the effect is unknown", "look at the node, then retry"),
    "internal_error": Code("Internal", "Hostler itself failed", "report it with the correlation id"),
}  # fmt: skip
