"""What only programs of the host can tell: firewall rules, GPU memory, users of the management controller.

Fixed paths and fixed arguments; what they print is parsed as the hostile text it may be.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hostler.agent.host.execute import Command
from hostler.agent.host.host import Host
from hostler.agent.residue.model import NOT_APPLICABLE, Item, plain
from hostler.base.clock import Deadline
from hostler.base.digest import digest_of, sha256_hex
from hostler.base.errors import HostlerError

OUTPUT_BYTES = 60_000  # what the agent keeps of a command's output; more is cut, and then it cannot be parsed
MEMORY_NOISE_MIB = 64  # what a driver keeps for itself, in steps of which memory is compared


@dataclass(frozen=True)
class Asked:
    """One question to a program. `when` is a path that has to be there for the question to make sense."""

    family: str
    argv: tuple[str, ...]
    parse: Callable[[str], Iterator[Item]]
    when: str = ""
    absent: str = "the program is not installed"


def parse_nft(text: str) -> Iterator[Item]:
    """`nft -j list ruleset`. Raises ValueError for what is no such listing."""
    listing = json.loads(text)
    if not isinstance(listing, dict) or not isinstance(listing.get("nftables"), list):
        raise ValueError("no list of rules")
    for entry in listing["nftables"]:
        for what, body in entry.items():
            if what == "metainfo":
                continue
            where = " ".join(str(body[key]) for key in ("family", "table", "chain", "name") if key in body)
            steady = {key: value for key, value in body.items() if key not in ("handle", "counter")}
            mark = digest_of(_without_counters(steady))[:12]
            yield Item("firewall_rule", plain(f"{what} {where} {mark}" if what == "rule" else f"{what} {where}"))


def _without_counters(value: object) -> object:
    if isinstance(value, dict):
        return {k: None if k == "counter" else _without_counters(v) for k, v in value.items()}
    return [_without_counters(one) for one in value] if isinstance(value, list) else value


_COUNTERS = re.compile(r"\[\d+:\d+\]")


def parse_iptables(text: str) -> Iterator[Item]:
    """`iptables-save`: tables, chains with their policy, rules."""
    table = ""
    for line in text.splitlines():
        if line.startswith("*"):
            table = line[1:]
        elif line.startswith((":", "-")):
            yield Item("firewall_rule", plain(f"{table} {_COUNTERS.sub('', line).strip()}"))


def parse_gpu_processes(text: str) -> Iterator[Item]:
    """`pid, process_name` a line."""
    for line in text.splitlines():
        pid, _, name = line.partition(",")
        if pid.strip().isdigit():
            yield Item("gpu_process", plain(f"{name.strip()} (compute)"))


def parse_gpu_memory(text: str) -> Iterator[Item]:
    """`uuid, memory.used [MiB]` a line; what the driver itself keeps moves a little."""
    for line in text.splitlines():
        uuid, _, used = line.partition(",")
        number = used.strip().partition(" ")[0]
        if number.isdigit():
            steps = int(number) // MEMORY_NOISE_MIB
            yield Item("gpu_memory", plain(uuid.strip()), f"{steps * MEMORY_NOISE_MIB} MiB or more in use")


def parse_bmc_users(text: str) -> Iterator[Item]:
    """`ipmitool -c user list 1`: id, name, three switches, privilege."""
    for line in text.splitlines():
        fields = line.split(",")
        if len(fields) >= 6 and fields[0].isdigit() and fields[1]:
            yield Item("bmc_user", plain(f"{fields[0]} {fields[1]}"), plain(",".join(fields[2:])))


_SMI = "/usr/bin/nvidia-smi"
QUESTIONS = (
    Asked("firewall (nft)", ("/usr/sbin/nft", "-j", "list", "ruleset"), parse_nft),
    Asked("firewall (iptables)", ("/usr/sbin/iptables-save",), parse_iptables),
    Asked("firewall (ip6tables)", ("/usr/sbin/ip6tables-save",), parse_iptables),
    Asked("GPU processes", (_SMI, "--query-compute-apps=pid,process_name", "--format=csv,noheader"),
          parse_gpu_processes, "/proc/driver/nvidia/version", "there is no NVIDIA GPU"),
    Asked("GPU memory", (_SMI, "--query-gpu=uuid,memory.used", "--format=csv,noheader"),
          parse_gpu_memory, "/proc/driver/nvidia/version", "there is no NVIDIA GPU"),
    Asked("management controller", ("/usr/bin/ipmitool", "-c", "user", "list", "1"),
          parse_bmc_users, "/dev/ipmi0", "there is no management controller"),
)  # fmt: skip


async def ask(host: Host, asked: Asked, deadline: Deadline) -> tuple[str, tuple[Item, ...]]:
    """(what is missing or "", items). A program that is needed and not there is a gap; one that has nothing to
    tell about is `not applicable`."""
    if asked.when and not host.path(asked.when).exists():
        return NOT_APPLICABLE + asked.absent, ()
    if not host.path(asked.argv[0]).exists():
        return (f"{asked.argv[0]} is not installed" if asked.when else NOT_APPLICABLE + asked.absent), ()
    command = Command(
        argv=asked.argv, run_as="root", capture_stdout=True, max_output_bytes=OUTPUT_BYTES, note=digest_of(asked.argv)
    )
    try:
        finished = await host.execute.run(command, deadline=Deadline.after(min(30, deadline.remaining()), host.clock))
    except HostlerError as err:
        return err.message, ()
    if finished.status or finished.signal:
        return f"{asked.argv[0]} ended with {finished.signal or finished.status}", ()
    if len(finished.stdout.encode(errors="replace")) >= OUTPUT_BYTES:
        return f"{asked.argv[0]} says more than can be compared", ()
    try:
        return "", tuple(asked.parse(finished.stdout))
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        seen = sha256_hex(finished.stdout.encode(errors="replace"))[:12]
        return f"what {asked.argv[0]} says cannot be read ({seen})", ()
