"""What to write instead, for every rule of the linter; a finding that knows more says more."""

from collections.abc import Iterable
from difflib import get_close_matches

_MOST = 24  # names in one hint

HINTS = {
    "allowed": "name exactly that package or unit in allowed_packages or allowed_units of the definition",
    "arg-schema": "add it to arg_schema, such as 'NAME: {type: string, pattern: \"^[a-z0-9-]+$\", maxLength: 64}'",
    "artifacts": "write 'artifacts: {OUTPUT: text/plain}' with an output from the kind's page in docs/steps",
    "auto-executed": "write somewhere else, or name exactly this file in auto_executed_paths",
    "binding": "write ${inputs.NAME} of the inputs' properties, or ${steps.ID.OUTPUT} of a step before this one",
    "capabilities": "say at least which platform it needs, such as 'os.kernel: linux'",
    "command-args": "give exactly the placeholders of the command profile: 'args: {NAME: VALUE}'",
    "command-path": "write the whole path, such as 'command: /usr/bin/stat'",
    "command-profile": "write 'profile: ID' with the id of a command profile in the commands directory",
    "credentials": "see docs/steps/credential.mint.md for the fields and an example",
    "destructive": "write 'destructive: true' in the definition; approvers then sign it besides the catalog key",
    "digest": "name it by digest: registry/repository@sha256:…",
    "effects": "name what it writes in effects.writes, each by its whole path, such as /srv/models",
    "environment": "leave the variable out; PATH may be fixed in env, such as 'env: {PATH: /usr/sbin:/usr/bin}'",
    "inputs-schema": "write 'inputs: {type: object, additionalProperties: false, properties: {NAME: {type: string}}}'",
    "interpreter": "name the program that does the work",
    "kind-name": "choose another id; docs/steps lists the names that are taken",
    "limits": "write a positive number, such as 'timeout_seconds: 60' or 'retries: 0'",
    "literal": "write the value out in the definition; publish a new version to change it",
    "params": "see the kind's page in docs/steps for its parameters and an example",
    "placeholder": "split it into arguments of their own: '--path' and '${path}'",
    "resolver": "see the part about the resolver configuration in docs/profiles.md",
    "secrets": "bind the handle of an earlier credential.mint step: 'secrets: {NAME: \"${steps.ID.handle}\"}'",
    "step-id": "give each step an id of its own",
    "step-kind": "see docs/steps for the kinds there are",
    "steps": "write at least one step with an id, a kind and its params",
    "timeout": "write how long it may take at most, such as 'timeout_seconds: 60'",
    "unique": "raise the version of a definition, or give the command profile another id",
}


def nearest(name: object, known: Iterable[str], what: str) -> str:
    """What `name` may have been meant for, or all there is; `what` is such as 'the inputs are'."""
    names = sorted(known)
    close = get_close_matches(str(name)[:200], names, n=3)
    if close:
        return f"did you mean {' or '.join(close)}?"
    more = ", …" if len(names) > _MOST else ""
    return f"{what} {', '.join(names[:_MOST]) or 'none'}{more}"
