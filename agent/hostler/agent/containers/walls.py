"""What no runtime may be asked for, whoever asks: the mappings check it once more."""

from hostler.agent.containers.spec import ContainerSpec
from hostler.base.errors import error

# What container engines give by default; a container keeps some of these, and never gets another.
DEFAULT_CAPABILITIES = frozenset(
    (
        "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW",
        "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
    )
)  # fmt: skip


def kept_capabilities(spec: ContainerSpec) -> list[str]:
    """Raises `container_failed` for one that is not of the default set."""
    names = [name.upper().removeprefix("CAP_") for name in spec.capabilities]
    beyond = sorted(set(names) - DEFAULT_CAPABILITIES)
    if beyond:
        raise error("container_failed", f"{spec.name} asks for the capability {beyond[0]}, which no container may have")
    return names
