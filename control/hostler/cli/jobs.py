"""`hostler jobs`: into running tasks."""

import click

from hostler.cli.jobs_exec import register


@click.group(name="jobs")
def command() -> None:
    """Look into running tasks."""


register(command)
