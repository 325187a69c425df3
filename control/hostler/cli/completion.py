"""Shell completion, made by click from the commands themselves."""

import click
from click.shell_completion import get_completion_class

from hostler.cli.output import guarded


@click.command(name="completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@guarded
def command(shell: str) -> None:
    """Print the completion script of SHELL.

    \b
    bash:  hostler completion bash > ~/.local/share/bash-completion/completions/hostler
    zsh:   hostler completion zsh > "${fpath[1]}/_hostler"
    fish:  hostler completion fish > ~/.config/fish/completions/hostler.fish
    """
    from hostler.cli.main import main

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(main, {}, "hostler", "_HOSTLER_COMPLETE").source())
