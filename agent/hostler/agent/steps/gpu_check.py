"""What the hardware-abstract kinds share: run the resolved command profile, read its output, ask the bus (RS-01).

A tool's word is not enough: a node whose PCI bus shows no device has none, whatever any program prints there.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from hostler.agent.hardware.device_tools import EXIT_CODES
from hostler.agent.hardware.gpu import Gpus, gpus
from hostler.agent.hardware.pci import pci_devices
from hostler.agent.hardware.reports import MOST_CHARACTERS, Unreadable
from hostler.agent.hardware.software import compute_runtime, container_runtime
from hostler.agent.host.execute import Finished
from hostler.agent.steps.command_run import run_profile
from hostler.agent.steps.contract import Change, Outcome, Plan, Probe, StepContext, StepView, Truth
from hostler.base.digest import digest_of
from hostler.base.errors import HostlerError, error
from hostler.catalog.argv import build_argv, placeholders
from hostler.catalog.command_profile import CommandProfile

Report = TypeVar("Report")
Readers = Mapping[str, Callable[[Sequence[str], str], Report]]


@dataclass(frozen=True)
class Node:
    """What the node itself shows, without any vendor's tool."""

    gpus: Gpus
    compute_runtime: str
    container_runtime: str

    @property
    def addresses(self) -> tuple[str, ...]:
        return tuple(one.address for one in self.gpus.devices)


@dataclass(frozen=True)
class GpuCheck(Generic[Report]):
    """One abstract kind: how the tools' output is read, and what is to be thought of it.

    Attributes:
        readers: by the program's base name; what another program prints is not believed.
        judge: the typed result for the step's outputs; raises a `StepFailed` that names device and reason.
    """

    name: str
    readers: Readers[Report]
    judge: Callable[[Any, Report, Node], dict[str, Any]]

    async def plan(self, view: StepView) -> Plan:
        profile, argv = resolved(view)
        detail = f"{profile.id} by rule {view.hardware_match or 'none'}; changes nothing"
        return Plan((Change(action="check", target=argv[0], detail=detail),))

    async def apply(self, context: StepContext) -> Outcome:
        profile, argv = resolved(context)
        try:
            finished = await run_profile(context, profile, argv, {})
        except HostlerError as err:
            raise _explained(err, argv[0]) from err
        report = self._read(profile, argv, finished)
        found = self.judge(context.params, report, node_of(context.host.root))
        digest = digest_of(argv)
        outputs = {"resolved_profile": profile.id, **found}
        return Outcome(outputs=outputs, changed=False, argv_digest=digest, exit_status=finished.status)

    async def probe(self, view: StepView) -> Probe:
        """It only looks, so it looks again; not before an earlier run of it has ended."""
        await view.host.execute.recall(view.task_id, view.step_index)
        return Probe(truth=Truth.NOT_DONE)

    def _read(self, profile: CommandProfile, argv: tuple[str, ...], finished: Finished) -> Report:
        program = argv[0].rpartition("/")[2]
        if program not in self.readers:
            known = ", ".join(sorted(self.readers))
            message = f"{self.name} resolved to {profile.id}, but what {program} prints is not known"
            raise error("report_invalid", message, hint=f"{self.name} reads {known}")
        if not profile.capture_stdout or len(finished.stdout) >= MOST_CHARACTERS:
            raise error("report_invalid", f"the output of {argv[0]} was not captured, or not whole")
        try:
            return self.readers[program](argv[1:], finished.stdout)
        except Unreadable as err:
            raise error("report_invalid", f"what {argv[0]} printed cannot be read: {err}") from err


def resolved(view: StepView) -> tuple[CommandProfile, tuple[str, ...]]:
    """The profile that the node resolved to, and its argv; `${devices}` is how many devices the bus shows."""
    profile = view.command
    if profile is None:
        raise error("no_resolver", f"step {view.step_id} was not resolved to a command profile")
    values = {"devices": max(1, gpus(view.host.root, pci_devices(view.host.root)).count)}
    known = {name: value for name, value in values.items() if name in placeholders(profile)}
    return profile, build_argv(profile, known)


def node_of(root: Path) -> Node:
    found = gpus(root, pci_devices(root))
    return Node(found, compute_runtime(root, found), container_runtime(root))


def enough(answered: int, wanted: int, node: Node, *, every: bool, what: str) -> None:
    """Raises `no_device` for a node without devices, or with fewer than wanted; `device_unhealthy` for a silent one."""
    if node.gpus.count == 0:
        raise error("no_device", "the PCI bus of this node shows no GPU")
    if min(answered, node.gpus.count) < wanted:
        message = f"{answered} devices {what} and {node.gpus.count} are on the PCI bus, at least {wanted} are needed"
        raise error("no_device", message)
    if every and answered < node.gpus.count:
        raise error("device_unhealthy", f"{answered} devices {what}, but {node.gpus.count} are on the PCI bus")


def _explained(err: HostlerError, path: str) -> HostlerError:
    """With what the program's manual says about an exit code."""
    said = EXIT_CODES.get(path.rpartition("/")[2], {})
    if err.code != "exit_status":
        return err
    code = err.message.rpartition(" ")[2]
    meaning = said.get(int(code), "") if code.isdigit() else ""
    return error("exit_status", f"{err.message}: {meaning}") if meaning else err
