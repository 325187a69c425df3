"""`hostler pki`: the trust root, made and kept offline, and what the fleet has proved of it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hostler.base.clock import SystemClock
from hostler.base.errors import error
from hostler.cli.client import Client
from hostler.cli.output import EXIT_REFUSED, guarded, output_option, print_done, print_json, table
from hostler.cli.settings import Settings

if TYPE_CHECKING:
    from hostler.pki.keys import X509Signer
    from hostler.pki.rotate_files import Done

_DIRECTORY = click.Path(path_type=Path, exists=True, file_okay=False)
_root_keys = click.option(
    "--root-key", "root_keys", multiple=True, type=click.Path(path_type=Path), help="else DIRECTORY/root/*.key"
)
_ROLES = click.Choice(["dispatch", "catalog", "ca", "root", "update"])


@click.group(name="pki")
def command() -> None:
    """Make, rotate and look at the trust root, keyset and keys.

    \b
    A rotation, with the root keys at hand in DIRECTORY/root:
      hostler pki rotate dispatch DIRECTORY --rehearse     what would happen; writes nothing
      hostler pki rotate dispatch DIRECTORY                introduce: old and new both count
      hostler pki publish DIRECTORY                        connected nodes follow at once
      hostler pki status                                   who has proved it, who is awaited
      hostler pki rotate dispatch DIRECTORY                activate: the new key is the one in use
      hostler pki rotate dispatch DIRECTORY                retire: the old key counts no more
      hostler pki publish DIRECTORY
    """


@command.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--trust-domain", required=True, help="name of the fleet, such as gpu.example.com")
@click.option("--cluster", default="main", show_default=True, help="name of this control plane")
@click.option("--host", "hosts", multiple=True, help="DNS name or address of the control plane (repeatable)")
@click.option("--root-keys", default=1, show_default=True, help="number of root keys")
@click.option("--root-threshold", default=1, show_default=True, help="root keys that must sign a keyset")
@click.option(
    "--approvers", default=1, show_default=True, help="keys besides the catalog key that approve what destroys"
)
@click.option("--approval-threshold", default=2, show_default=True, help="how many of all those must approve it")
@output_option
@guarded
def init(directory: Path, hosts: tuple[str, ...], output: str, **options: Any) -> None:
    """Make every key of a new fleet in DIRECTORY, which must be empty.

    \b
    DIRECTORY/root/      root keys: take them offline, they sign keysets only
    DIRECTORY/catalog/   catalog and approvers' keys: take them offline, they sign profiles
    DIRECTORY/update/    update key: take it offline, it signs releases of the agent
    DIRECTORY/control/   what the control plane needs (dispatch key, CA, server certificate, keyset)
    DIRECTORY/trust.json what every node is given together with its enrolment token
    """
    from hostler.pki import ceremony

    made = ceremony.init(
        directory,
        trust_domain=options["trust_domain"],
        cluster_id=options["cluster"],
        hosts=hosts or ("127.0.0.1", "localhost"),
        now_ms=SystemClock().now_ms(),
        root_count=options["root_keys"],
        root_threshold=options["root_threshold"],
        approvers=options["approvers"],
        approval_threshold=options["approval_threshold"],
    )
    if output == "json":
        print_json({"directory": str(directory), "files": [str(path) for path in made]})
        return
    for path in made:
        click.echo(f"  made {path}")
    click.echo("\nNext: move root/, catalog/ and update/ off this machine, then")
    click.echo(f"  hostler profiles sign profiles --key {directory}/catalog/catalog.key -o catalog.json")


@command.command()
@click.argument("directory", type=_DIRECTORY)
@output_option
@guarded
def show(directory: Path, output: str) -> None:
    """What DIRECTORY holds: keys by role, versions, expiry. No private key is printed."""
    from hostler.pki import ceremony

    described = ceremony.describe(directory)
    if output == "json":
        print_json(described)
        return
    for name, value in described.items():
        click.echo(f"{name:24} {value}")


@command.command()
@click.argument("role", type=_ROLES)
@click.argument("directory", type=_DIRECTORY)
@click.option("--rehearse", is_flag=True, help="play it through on a copy, with nodes that sleep; write nothing")
@click.option("--leaked", is_flag=True, help="replace the key at once, without an overlap")
@click.option(
    "--root-key", "root_keys", multiple=True, type=click.Path(path_type=Path), help="else DIRECTORY/root/*.key"
)
@click.option("--leave-behind", is_flag=True, help="go on although nodes have not proved the new key")
@output_option
@click.pass_obj
@guarded
def rotate(settings: Settings, role: str, directory: Path, output: str, **options: Any) -> None:
    """Take the next stage of rotating ROLE's key in DIRECTORY: introduce, activate, retire.

    Activate and retire ask the control plane first whether every node has proved the new key. The root is
    rotated in one stage, signed by the old root keys and the new ones.
    """
    from hostler.pki.keyset import KeyRole

    which, now_ms = KeyRole(role), SystemClock().now_ms()
    if options["rehearse"]:
        _rehearse(directory, which, now_ms, output)
        return
    done = _take_stage(settings, directory, which, now_ms, options)
    _print_stage(done, output)


def _take_stage(settings: Settings, directory: Path, role: Any, now_ms: int, options: dict[str, Any]) -> "Done":
    from hostler.pki import rotate_files
    from hostler.pki.keyset import KeyRole

    roots = _roots(directory, options["root_keys"])
    stage = rotate_files.stage_of(directory, role) if role is not KeyRole.ROOT else "replace"
    if role is KeyRole.ROOT:
        return rotate_files.rotate_root(directory, roots, now_ms)
    if options["leaked"]:
        return rotate_files.replace_leaked(directory, role, roots, now_ms)
    if stage == "introduce":
        return rotate_files.introduce(directory, role, roots, now_ms)
    if not options["leave_behind"]:
        _check_proved(settings, directory, role, stage)
    if stage == "activate":
        return rotate_files.activate(directory, role, now_ms)
    return rotate_files.retire(directory, role, roots, now_ms)


def _roots(directory: Path, named: tuple[Path, ...]) -> "list[X509Signer]":
    from hostler.pki.ceremony import load_signer
    from hostler.pki.rotate_files import load_roots

    return [load_signer(path) for path in named] or load_roots(directory)


def _check_proved(settings: Settings, directory: Path, role: str, stage: str) -> None:
    """Raises `not_proved`, naming the nodes that the next stage would leave behind."""
    from hostler.pki.rotate_files import files_of, present
    from hostler.pki.x509 import subject_key

    trust = Client(settings).call("GET", "/api/v1/admin/trust")
    version = present(directory).version
    waiting = [node["name"] for node in trust["nodes"] if node["keyset_version"] < version]
    if stage == "retire" and role == "ca":
        current = subject_key(files_of(directory, role).pem.read_bytes())  # type: ignore[arg-type]  # a KeyRole is a str
        waiting += [n["name"] for n in trust["nodes"] if n["ca_key"] != current and n["name"] not in waiting]
    if waiting:
        shown = ", ".join(waiting[:10]) + (" and more" if len(waiting) > 10 else "")
        raise error(
            "not_proved",
            f"{len(waiting)} of {len(trust['nodes'])} nodes have not proved the new {role} key: {shown}",
            hint="wait for them, see 'hostler pki status', or leave them behind with --leave-behind",
        )


def _rehearse(directory: Path, role: Any, now_ms: int, output: str) -> None:
    from hostler.pki.rehearsal import rehearse

    findings = rehearse(directory, role, now_ms)
    if output == "json":
        print_json([{"stage": f.stage, "node": f.node, "ok": not f.reason, "reason": f.reason} for f in findings])
    else:
        table(("STAGE", "NODE", "RESULT"), [(f.stage, f.node, f.reason or "ok") for f in findings])
    if any(f.reason for f in findings if f.node != "asleep until the end"):
        raise SystemExit(EXIT_REFUSED)


def _print_stage(done: "Done", output: str) -> None:
    body = {
        "stage": done.stage,
        "keyset_version": done.keyset_version,
        "missing_signatures": done.missing,
        "files": [str(path) for path in done.files],
        "next": done.next_step,
    }
    lines = [f"{done.stage}: keyset {done.keyset_version}", *(f"  wrote {path}" for path in done.files)]
    print_done(body, output, "\n".join([*lines, f"next: {done.next_step}"]))


@command.command()
@click.argument("role", type=click.Choice(["destructive", "witness", "artifact", "update"]))
@click.argument("directory", type=_DIRECTORY)
@click.option("--public-key", required=True, help="base64 of the key's SubjectPublicKeyInfo (DER)")
@click.option("--withdraw", is_flag=True, help="the key no longer counts")
@_root_keys
@output_option
@guarded
def grant(
    role: str, directory: Path, public_key: str, withdraw: bool, root_keys: tuple[Path, ...], output: str
) -> None:
    """Let somebody's key count for ROLE: an approver, a witness, a signer of artifacts or of agent versions."""
    import base64
    import binascii

    from hostler.pki import rotate_files
    from hostler.pki.keys import PublicKey
    from hostler.pki.keyset import KeyRole

    try:
        key = PublicKey(base64.b64decode(public_key, validate=True))
    except binascii.Error as err:
        raise error("invalid_request", "the public key is not base64") from err
    roots, now_ms = _roots(directory, root_keys), SystemClock().now_ms()
    if withdraw:
        done = rotate_files.withdraw(directory, KeyRole(role), key.key_id, roots, now_ms)
    else:
        done = rotate_files.grant(directory, KeyRole(role), key, roots, now_ms)
    _print_stage(done, output)


@command.command()
@click.argument("directory", type=_DIRECTORY)
@click.option("--key", required=True, type=click.Path(path_type=Path), help="a root key")
@output_option
@guarded
def sign(directory: Path, key: Path, output: str) -> None:
    """Add one root signature to the keyset that waits in DIRECTORY; the last one completes it."""
    from hostler.pki import rotate_files
    from hostler.pki.ceremony import load_signer

    _print_stage(rotate_files.add_signature(directory, load_signer(key), SystemClock().now_ms()), output)


@command.command()
@click.argument("directory", type=_DIRECTORY)
@click.option(
    "--root-key", "root_keys", multiple=True, type=click.Path(path_type=Path), help="else DIRECTORY/root/*.key"
)
@output_option
@guarded
def refresh(directory: Path, root_keys: tuple[Path, ...], output: str) -> None:
    """Sign the same keyset for another year, before it expires and every node stops taking tasks."""
    from hostler.pki import rotate_files

    _print_stage(rotate_files.refresh(directory, _roots(directory, root_keys), SystemClock().now_ms()), output)


@command.command()
@click.argument("directory", type=_DIRECTORY)
@click.option(
    "--root-key", "root_keys", multiple=True, type=click.Path(path_type=Path), help="else DIRECTORY/root/*.key"
)
@output_option
@guarded
def recover(directory: Path, root_keys: tuple[Path, ...], output: str) -> None:
    """Open the next control epoch, after the control plane's store was restored from an older copy.

    Nodes that have seen more than the restored store remembers hold until they are shown this keyset.
    """
    from hostler.pki import rotate_files

    _print_stage(rotate_files.open_epoch(directory, _roots(directory, root_keys), SystemClock().now_ms()), output)


@command.command()
@click.argument("directory", type=_DIRECTORY)
@output_option
@click.pass_obj
@guarded
def publish(settings: Settings, directory: Path, output: str) -> None:
    """Give DIRECTORY's keyset to the control plane, which sends it to every node."""
    data = (directory / "control" / "keyset.json").read_bytes()
    done = Client(settings).call("POST", "/api/v1/admin/trust/keyset", content=data)
    text = f"published keyset {done['version']}; see who has proved it with: hostler pki status"
    if done["affected_tasks"]:
        text += f"\n{len(done['affected_tasks'])} open tasks were signed by a key that no longer counts"
    print_done(done, output, text)


@command.command()
@output_option
@click.pass_obj
@guarded
def status(settings: Settings, output: str) -> None:
    """The keyset in force, and which nodes have proved that they hold it."""
    trust = Client(settings).call("GET", "/api/v1/admin/trust")
    if output == "json":
        print_json(trust)
        return
    click.echo(f"keyset {trust['keyset_version']}, epoch {trust['control_epoch']}, proved by {trust['proved']} nodes")
    rows = [
        (n["name"], n["connection"], n["keyset_version"], "yes" if n["proved"] else "awaited") for n in trust["nodes"]
    ]
    table(("NODE", "CONNECTION", "KEYSET", "PROVED"), rows)


@command.command(name="blast-radius")
@click.argument("key")
@click.option("--keyset", type=click.Path(path_type=Path, exists=True), help="a keyset file; else the control plane's")
@output_option
@click.pass_obj
@guarded
def blast_radius(settings: Settings, key: str, keyset: Path | None, output: str) -> None:
    """What whoever holds KEY could do, to which nodes, and which open tasks it has signed.

    KEY is a role with one key (such as dispatch) or the beginning of a key id. Works offline with --keyset.
    """
    from hostler.pki.blast import find_key, reach_of
    from hostler.pki.ceremony import read_keyset

    trust: dict[str, Any] = {} if keyset else Client(settings).call("GET", "/api/v1/admin/trust")
    document = read_keyset(keyset.read_bytes() if keyset else trust["keyset"].encode())
    key_id = find_key(document, key)
    reaches = reach_of(document, key_id)
    nodes = [node["name"] for node in trust.get("nodes", ())]
    tasks = [] if keyset else Client(settings).call("GET", "/api/v1/admin/trust/tasks", key_id=key_id)["items"]
    if output == "json":
        roles = [{name: getattr(reach, name) for name in reach.__struct_fields__} for reach in reaches]
        print_json({"key_id": key_id, "roles": roles, "nodes": nodes, "open_tasks": tasks})
        return
    click.echo(f"key {key_id}")
    for reach in reaches:
        alone = "alone" if reach.alone else f"only together with {reach.others} more of {reach.threshold}"
        click.echo(f"\n{reach.role} ({alone})")
        for title, text in (("could", reach.could), ("could not", reach.could_not), ("do now", reach.remedy)):
            click.echo(f"  {title:10} {text}")
    if not keyset:
        click.echo(f"\nnodes that trust it: {len(nodes)}; open tasks that it has signed: {len(tasks)}")
        for task in tasks[:20]:
            click.echo(f"  {task['task_id']}  {task['state']}  on {task['node_id']}")
