"""`hostler`: the operator's command line. Groups load when they are called."""

from importlib import import_module
from pathlib import Path
from typing import Any

import click

from hostler.base.version import __version__, said_by
from hostler.cli import settings as settings_file
from hostler.cli.output import guarded

GROUPS: dict[str, tuple[str, str]] = {
    "operations": ("hostler.cli.operations", "Submit, plan, follow, cancel and retry operations."),
    "agents": ("hostler.cli.agents", "Which agents nodes run, and bringing versions to them."),
    "nodes": ("hostler.cli.nodes", "See nodes, make enrolment tokens, cordon, drain, quarantine, revoke."),
    "jobs": ("hostler.cli.jobs", "Run, follow and end jobs: a command, an image, replicas."),
    "allocations": ("hostler.cli.allocations", "Ask for nodes, follow them, give them back."),
    "rollouts": ("hostler.cli.rollouts", "Bring a version of the agent to many nodes, in waves."),
    "profiles": ("hostler.cli.profiles", "Lint, sign, publish and read operation profiles."),
    "catalog": ("hostler.cli.catalog", "Propose, sign and publish catalogs, with as many signers as it takes."),
    "principals": ("hostler.cli.principals", "Who may call the API."),
    "policy": ("hostler.cli.policy", "What each scope allows, and who set it."),
    "events": ("hostler.cli.events", "What happens, as it happens."),
    "endpoints": ("hostler.cli.endpoints", "Names under which running tasks can be reached."),
    "webhooks": ("hostler.cli.webhooks", "Who is told of events over HTTPS."),
    "audit": ("hostler.cli.audit", "Export receipts and verify them offline."),
    "pki": ("hostler.cli.pki", "Make, rotate and look at the trust root, keyset and keys."),
    "releases": ("hostler.cli.releases", "Publish signed releases of the agent."),
    "demo": ("hostler.cli.demo", "A control plane and three agents on this machine, one real operation."),
    "completion": ("hostler.cli.completion", "Print the completion script of a shell."),
}


class LazyGroups(click.Group):
    """Knows the names and help of its commands without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(GROUPS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in GROUPS:
            return None
        command: click.Command = import_module(GROUPS[cmd_name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in GROUPS.items()])


@click.group(cls=LazyGroups, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message=said_by("hostler"))
@click.option("--config", type=click.Path(path_type=Path), help="configuration file (else $HOSTLER_CONFIG)")
@click.option("--server", help="address of the control plane's HTTP API")
@click.option("--token-file", help="file with the bearer token")
@click.option("--project", help="project to work in")
@click.pass_context
@guarded
def main(ctx: click.Context, config: Path | None, **flags: Any) -> None:
    """Ready hosts between tenants: signed operations, pulled by nodes, proved by receipts.

    \b
    A first look:   hostler demo
    Exit codes:     0 done, 1 refused or failed, 2 wrong usage, 3 control plane not reachable
    """
    loaded = settings_file.load(config)
    given = {name: value for name, value in flags.items() if value}
    ctx.obj = settings_file.Settings(
        **{name: given.get(name, getattr(loaded, name)) for name in settings_file.Settings.__struct_fields__}
    )
