"""`hostler jobs` with nothing but what looks into tasks: SERVER TOKEN_FILE PROJECT, then the command."""

import sys

import click

from hostler.cli.jobs_exec import register
from hostler.cli.settings import Settings


@click.group()
def jobs() -> None:
    """Jobs."""


if __name__ == "__main__":
    server, token_file, project, *arguments = sys.argv[1:]
    register(jobs)
    jobs.main(arguments, obj=Settings(server=server, token_file=token_file, project=project))
