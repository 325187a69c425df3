"""Google TPUs on the PCI bus; ids as JAX's own detection lists them."""

from collections.abc import Sequence

from hostler.agent.hardware.gpu import GOOGLE
from hostler.agent.hardware.pci import PciDevice

_GENERATIONS = {0x0027: "v2_v3", 0x005E: "v4", 0x0062: "v5p", 0x0063: "v5e", 0x006F: "v6e", 0x0076: "v7"}


def tpu_type(devices: Sequence[PciDevice]) -> str:
    """The generation; `none` without one. Ids of other Google devices, such as its network card, are passed over."""
    found = {_GENERATIONS[one.device] for one in devices if one.vendor == GOOGLE and one.device in _GENERATIONS}
    return found.pop() if len(found) == 1 else "mixed" if found else "none"
