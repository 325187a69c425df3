"""Places whose files run, or decide what runs, by themselves: writing there is code execution by another name (J2).

A signed definition may write there only to files that it names one by one in `auto_executed_paths`. The linter
looks at paths that stand in the definition, the node at whatever a path has become.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from hostler.base.errors import error

WRITING_KINDS = frozenset(
    {"file.render", "artifact.pull_blob", "artifact.pull_oci", "cluster.join", "python.env.create"}
)
# Whole path components: the place itself and all below it.
PLACES = tuple(
    """
    /bin /sbin /lib /lib32 /lib64 /libx32 /usr /boot /dev /proc /sys /root
    /etc/cron.d /etc/cron.daily /etc/cron.hourly /etc/cron.weekly /etc/cron.monthly /etc/cron.yearly /etc/crontab
    /etc/anacrontab /var/spool/cron /var/spool/anacron /var/spool/at /var/spool/incron /etc/incron.d
    /etc/systemd /run/systemd /etc/init.d /etc/init /etc/inittab /etc/rc.local /etc/rc.d
    /etc/rc0.d /etc/rc1.d /etc/rc2.d /etc/rc3.d /etc/rc4.d /etc/rc5.d /etc/rc6.d /etc/rcS.d
    /etc/inetd.conf /etc/xinetd.conf /etc/xinetd.d /etc/supervisor /etc/monit /etc/tmpfiles.d /run/tmpfiles.d
    /etc/sysusers.d /etc/binfmt.d /etc/modules /etc/modules-load.d /etc/modprobe.d /etc/modprobe.conf /etc/depmod.d
    /etc/initramfs-tools /etc/dracut.conf /etc/dracut.conf.d /etc/kernel /etc/grub.d /etc/default
    /etc/sysctl.conf /etc/sysctl.d /etc/fstab /etc/crypttab /etc/udev /run/udev
    /etc/profile /etc/profile.d /etc/bash.bashrc /etc/bashrc /etc/bash_completion /etc/bash_completion.d
    /etc/bash.bash_logout /etc/zsh /etc/zshrc /etc/zshenv /etc/csh.login /etc/csh.cshrc /etc/fish /etc/inputrc
    /etc/environment /etc/environment.d /etc/skel /etc/xdg /etc/X11 /etc/gdm3 /etc/lightdm
    /etc/apt /etc/dpkg /etc/yum /etc/yum.conf /etc/yum.repos.d /etc/dnf /etc/pip.conf /etc/alternatives
    /etc/ld.so.preload /etc/ld.so.conf /etc/ld.so.conf.d /etc/ld.so.cache /etc/python3 /etc/perl
    /etc/sudoers /etc/sudoers.d /etc/sudo.conf /etc/doas.conf /etc/polkit-1 /etc/dbus-1 /etc/pam.conf /etc/pam.d
    /etc/security /etc/nsswitch.conf /etc/passwd /etc/shadow /etc/group /etc/gshadow /etc/subuid /etc/subgid
    /etc/shells /etc/login.defs /etc/ssh /etc/ssl /etc/ca-certificates /etc/hosts.allow /etc/hosts.deny
    /etc/network /etc/netplan /etc/NetworkManager /etc/networkd-dispatcher /etc/dhcp /etc/dhcpcd.conf /etc/ppp
    /etc/wpa_supplicant /etc/openvpn /etc/acpi /etc/apm /etc/pm /etc/update-motd.d /etc/logrotate.conf
    /etc/logrotate.d /etc/needrestart /etc/snmp /etc/rsyslog.conf /etc/rsyslog.d /etc/audit /etc/mail.rc
    /etc/aliases /etc/gdb /etc/emacs /etc/vim /etc/cloud /var/lib/cloud /etc/salt /etc/puppet /etc/chef
    /etc/kubernetes /etc/slurm /etc/slurm-llnl /etc/kubelet.d /var/lib/kubelet /var/lib/rancher
    /etc/rancher /etc/cni /opt/cni /etc/containerd /etc/docker /etc/containers /etc/crio /etc/cdi /run/cdi /var/run
    /etc/nvidia-container-runtime /etc/OpenCL /etc/vulkan /etc/hostler
    """.split()  # noqa: SIM905 - a list of words reads better
)


def auto_executed(path: str) -> bool:
    """Of a plain absolute path; one that is not plain is refused elsewhere."""
    parts = path.split("/")
    if len(parts) > 3 and parts[1] == "home" and parts[3].startswith("."):
        return True  # .bashrc, .ssh, .config/autostart, .local/share/systemd and whatever comes next
    return any(path == place or path.startswith(f"{place}/") for place in PLACES)


def files_of(params: Any) -> tuple[Any, ...]:
    """The paths of a step that writes several files, each of which is judged as a `path` is."""
    files = params.get("files") if isinstance(params, Mapping) else getattr(params, "files", None)
    return tuple(files.values()) if isinstance(files, Mapping) else ()


def check_written(kind: str, path: object, named: Iterable[str]) -> None:
    """Raises `path_denied` for a file that would run by itself and is not named."""
    if kind in WRITING_KINDS and isinstance(path, str) and auto_executed(path) and path not in named:
        hint = "a definition must name such a file in auto_executed_paths, and be signed so"
        raise error("path_denied", f"{path} lies where files run by themselves", hint=hint)
