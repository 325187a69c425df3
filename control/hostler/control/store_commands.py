"""`hostler-control store`: stats, check, backup. Each works beside a control plane that runs."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

Adder = Callable[..., argparse.ArgumentParser]
EXIT_FAULTS = 1


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]", command: Adder) -> None:
    """`command` makes one with the options that all have."""
    summary = "The store itself: what is in it, whether it is whole, a copy of it; also while the control plane runs."
    group = commands.add_parser("store", help=summary, description=summary)
    actions = group.add_subparsers(required=True, metavar="COMMAND")
    stats = command(actions, "stats", _stats, "Rows and bytes of each table.")
    stats.add_argument("--json", action="store_true", help="print JSON")
    command(actions, "check", _check, "Look at every page, index and reference. Exits 1 if something is wrong.")
    copying = command(actions, "backup", _backup, "Write one moment of the store to a new file, and check that file.")
    copying.add_argument("file", type=Path, help="file to make, mode 0600")


def _path(options: argparse.Namespace) -> Path:
    from hostler.control.config import load

    return load(options.config).store_path


def _stats(options: argparse.Namespace) -> int:
    import msgspec

    from hostler.control.store import tools

    found = tools.stats(_path(options))
    if options.json:
        sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
        return 0
    print(  # noqa: T201
        f"{found.path}: schema {found.schema}, {found.bytes} bytes, {found.free_bytes} free inside,"
        f" {found.wal_bytes} in the write-ahead log"
    )
    for table in sorted(found.tables, key=lambda each: -each.bytes):
        print(f"{table.table:36} {table.rows:12} rows {table.bytes:14} bytes")  # noqa: T201
    return 0


def _check(options: argparse.Namespace) -> int:
    from hostler.control.store import tools

    faults = tools.check(_path(options))
    for fault in faults:
        print(fault)  # noqa: T201
    print("the store is whole" if not faults else "restore a copy: see 'The store was restored' in docs/operator.md")  # noqa: T201
    return EXIT_FAULTS if faults else 0


def _backup(options: argparse.Namespace) -> int:
    from hostler.control.store import tools

    written = tools.backup(_path(options), options.file)
    print(f"wrote {written} bytes to {options.file}")  # noqa: T201
    return 0
