"""`hostler endpoints`: names under which running tasks can be reached."""

import contextlib
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any

import click

from hostler.base.errors import error
from hostler.cli import operations_api as api
from hostler.cli.client import Client, quoted
from hostler.cli.output import guarded, harmless, output_option, print_json, table
from hostler.cli.quantities import shown_bytes
from hostler.cli.settings import Settings


@click.group(name="endpoints")
def command() -> None:
    """Names under which running tasks can be reached, and their HTTP through the control plane.

    \b
    hostler --project train endpoints list --namespace /ann/prepare
    hostler --project train endpoints get dashboard /metrics
    hostler --project train endpoints forward dashboard 8080
    """


@command.command(name="list")
@click.option("--namespace", default="", help="path of a root job, such as /ann/prepare")
@click.option("--name", default="", help="exactly this name")
@output_option
@click.pass_obj
@guarded
def listing(settings: Settings, namespace: str, name: str, output: str) -> None:
    """List the endpoints of the project whose lease and task still live."""
    path = f"/api/v1/projects/{quoted(api.project_of(settings))}/endpoints"
    items = list(Client(settings).pages(path, namespace=namespace, endpoint_name=name))
    if output == "json":
        print_json(items)
        return
    now_ms = int(time.time() * 1000)
    rows = [
        (item["namespace"], item["name"], item["address"], item["node_name"], _left(item["lease_deadline_ms"], now_ms))
        for item in items
    ]
    table(("namespace", "name", "address", "node", "lease"), rows)


def _left(deadline_ms: int | None, now_ms: int) -> str:
    return "for ever" if deadline_ms is None else f"{max(0, deadline_ms - now_ms) // 60_000} min"


@command.command(name="get")
@click.argument("name")
@click.argument("path", default="/")
@click.option("--namespace", default="", help="path of a root job, where several have that name")
@click.option("-X", "--request", "method", default="", help="GET, HEAD, POST, PUT, PATCH or DELETE")
@click.option("-H", "--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="a header for the task")
@click.option("-d", "--data", default=None, help="a body, or @FILE; @- is standard input")
@click.option("-i", "--include", is_flag=True, help="print the status and the headers as well")
@click.pass_obj
@guarded
def get(
    settings: Settings,
    name: str,
    path: str,
    namespace: str,
    method: str,
    headers: tuple[str, ...],
    data: str | None,
    include: bool,
) -> None:
    """Ask a task's HTTP endpoint through the control plane, and print what it answers as it comes.

    Ends with 0 for an answer below 400, with 22 for any other, as `curl --fail` does.

    \b
    hostler endpoints get dashboard /metrics
    hostler endpoints get model /v1/predict -H 'content-type: application/json' -d @question.json
    """
    base = f"/api/v1/projects/{quoted(api.project_of(settings))}/endpoints"
    client = Client(settings)
    found = _one(list(client.pages(base, namespace=namespace, endpoint_name=name)), name)
    address = f"{base}/{quoted(found['task_id'])}/{quoted(found['endpoint_id'])}/proxy/{path.removeprefix('/')}"
    said = [_header(each) for each in headers]
    with client.through(method or ("GET" if data is None else "POST"), address, said, _body(data)) as answer:
        if include:
            click.echo(f"HTTP/1.1 {answer.status_code} {answer.reason_phrase}")
            for key, value in answer.headers.items():
                click.echo(f"{key}: {harmless(value)}")
            click.echo("")
        for chunk in answer.iter_bytes():
            if sys.stdout.isatty():
                click.echo(_lines(chunk), nl=False)
                continue
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
        if answer.status_code >= 400:
            raise SystemExit(22)


@command.command(name="forward")
@click.argument("name")
@click.argument("port", metavar="LOCALPORT", type=click.IntRange(0, 65_535))
@click.option("--namespace", default="", help="path of a root job, where several have that name")
@click.pass_obj
@guarded
def forward(settings: Settings, name: str, port: int, namespace: str) -> None:
    """Lead a port of this machine to a task's HTTP endpoint, until Ctrl-C.

    The port is open on 127.0.0.1 alone; 0 takes any that is free. Requests go through the control plane in your name.

    \b
    hostler endpoints forward dashboard 8080
    """
    from hostler.cli.endpoint_forward import ADDRESS, Forward  # nobody else needs a server

    base = f"/api/v1/projects/{quoted(api.project_of(settings))}/endpoints"
    client = Client(settings)
    line = StatusLine()
    last: dict[str, Any] = {}

    def find() -> dict[str, Any]:
        found = _one(list(client.pages(base, namespace=namespace, endpoint_name=name)), name)
        where = f"{found['name']} of {found['namespace']} on {found['node_name']}"
        if last:
            line.say(f"it leads to {where} now")
        last.update(found, where=where)
        return found

    with Forward(client, base, find, port, line.say) as served:
        line.say(f"http://{ADDRESS}:{served.server_port} leads to {last['where']}; Ctrl-C ends it")
        threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True).start()
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                line.show(f"{served.requests} requests, {served.open} under way, {shown_bytes(served.moved)} received")
                time.sleep(0.5)
        served.shutdown()
        line.say("ended")


class StatusLine:
    """Sentences, and below them on a terminal one line that is written anew; all on standard error."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shown = ""

    def say(self, text: str) -> None:
        with self._lock:
            clear, again = ("\r\x1b[K", self._shown) if self._shown else ("", "")
            click.echo(f"{clear}{harmless(text)}\n{again}", err=True, nl=False)

    def show(self, text: str) -> None:
        with self._lock:
            if sys.stderr.isatty() and text != self._shown:
                click.echo(f"\r\x1b[K{text}", err=True, nl=False)
                self._shown = text


def _one(found: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Tasks that share a name in one namespace are alike: any will do."""
    if not found:
        raise error("not_found", f"no task of the project is known as {name!r} now", hint="'hostler endpoints list'")
    namespaces = sorted({each["namespace"] for each in found})
    if len(namespaces) > 1:
        raise error("invalid_request", f"{name!r} stands in {', '.join(namespaces)}", hint="choose with --namespace")
    return random.choice(found)


def _lines(chunk: bytes) -> str:
    """For a terminal: whatever a task says does nothing to it."""
    return "\n".join(harmless(line) for line in chunk.decode(errors="replace").split("\n"))


def _header(said: str) -> tuple[str, str]:
    name, colon, value = said.partition(":")
    if not colon:
        raise error("invalid_request", f"{said!r} is no header", hint="write it as 'name: value'")
    return name.strip(), value.strip()


def _body(data: str | None) -> bytes | None:
    if data is None or not data.startswith("@"):
        return None if data is None else data.encode()
    if data == "@-":
        return sys.stdin.buffer.read()
    try:
        return Path(data[1:]).read_bytes()
    except OSError as err:
        raise error("file_error", f"{data[1:]} cannot be read ({err.strerror})") from err
