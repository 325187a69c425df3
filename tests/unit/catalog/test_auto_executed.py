"""J2: files that would run by themselves are written only when a signed definition names them one by one."""

import json
from pathlib import Path
from typing import Any

import pytest

from hostler.base.errors import HostlerError
from hostler.catalog.auto_executed import PLACES, auto_executed, check_written
from hostler.catalog.lint import lint
from hostler.catalog.load import load_profiles

RUN_BY_THEMSELVES = """
    /etc/kubernetes/manifests/x.yaml /etc/cron.d/x /etc/cron.daily/x /etc/crontab /var/spool/cron/crontabs/root
    /etc/systemd/system/x.service /usr/lib/systemd/system/x.service /lib/systemd/system/x.service
    /run/systemd/system/x.service /etc/systemd/system/ssh.service.d/x.conf /usr/local/lib/systemd/system/x.service
    /etc/profile.d/x.sh /etc/profile /etc/bash.bashrc /etc/environment /etc/apt/apt.conf.d/99x
    /etc/apt/sources.list.d/x.list /etc/dpkg/dpkg.cfg.d/x /etc/sudoers /etc/sudoers.d/x /etc/ld.so.preload
    /etc/ld.so.conf.d/x.conf /etc/modprobe.d/x.conf /etc/modules-load.d/x.conf /etc/udev/rules.d/x.rules
    /usr/lib/udev/rules.d/x.rules /etc/init.d/x /etc/rc.local /etc/rc3.d/S99x /etc/bash_completion.d/x
    /usr/share/bash-completion/completions/x /etc/xdg/autostart/x.desktop /etc/X11/Xsession.d/x
    /etc/update-motd.d/99-x /etc/logrotate.d/x /etc/NetworkManager/dispatcher.d/x /etc/network/if-up.d/x
    /etc/dhcp/dhclient-exit-hooks.d/x /etc/ppp/ip-up.d/x /etc/pam.d/x /etc/security/pam_env.conf /etc/ssh/sshrc
    /etc/ssh/sshd_config.d/x.conf /root/.bashrc /root/.ssh/authorized_keys /home/a/.bashrc
    /home/a/.ssh/authorized_keys /home/a/.config/autostart/x.desktop /etc/dbus-1/system.d/x.conf
    /usr/share/dbus-1/system-services/x.service /etc/polkit-1/rules.d/x.rules /etc/tmpfiles.d/x.conf
    /etc/binfmt.d/x.conf /etc/sysctl.d/x.conf /proc/sys/kernel/core_pattern /sys/kernel/uevent_helper
    /etc/kernel/postinst.d/x /etc/initramfs-tools/hooks/x /etc/grub.d/40_x /etc/default/grub /boot/grub/grub.cfg
    /usr/bin/x /usr/local/bin/x /bin/x /sbin/x /lib/x86_64-linux-gnu/libx.so /usr/lib/python3/dist-packages/x.pth
    /usr/local/lib/python3.11/site-packages/sitecustomize.py /etc/nsswitch.conf /etc/passwd /etc/shadow
    /etc/containerd/config.toml /etc/docker/daemon.json /etc/cni/net.d/x.conf /opt/cni/bin/x /etc/cdi/x.yaml
    /var/lib/kubelet/config.yaml /etc/hostler/agent.toml /etc/needrestart/hook.d/x /var/run/x /dev/mem
""".split()  # noqa: SIM905
HARMLESS = """
    /srv/models/model.bin /opt/app/config.toml /etc/app.conf /etc/app/cron.d/x /var/lib/app/systemd/x.service
    /etc/cron.dx /etc/profile.dx/y /etc/kubernetesx/y /srv/etc/cron.d/x /home/a/model.bin /etc/systemdx
    /home/.config /usrx/bin /etc/hostler.d/x /etc/Cron.d/x
""".split()  # noqa: SIM905


@pytest.mark.parametrize("path", RUN_BY_THEMSELVES)
def test_J2_what_runs_by_itself_is_known(path: str) -> None:
    assert auto_executed(path)


@pytest.mark.parametrize("path", HARMLESS)
def test_J2_what_only_looks_like_it_is_not(path: str) -> None:
    assert not auto_executed(path)


def test_J2_every_place_counts_itself_and_ends_at_a_slash() -> None:
    for place in PLACES:
        assert auto_executed(place)
        assert auto_executed(f"{place}/below")
    assert len(set(PLACES)) == len(PLACES)


@pytest.mark.parametrize("kind", ["file.render", "artifact.pull_blob", "python.env.create"])
def test_J2_only_the_very_file_that_is_named_may_be_written(kind: str) -> None:
    named = ("/etc/cron.d/ours",)
    check_written(kind, "/etc/cron.d/ours", named)
    for path in ("/etc/cron.d/other", "/etc/cron.d/ours/below", "/etc/cron.d", "/etc/cron.d/our", "/etc/cron.d/OURS"):
        with pytest.raises(HostlerError) as caught:
            check_written(kind, path, named)
        assert caught.value.code == "path_denied"
    check_written("artifact.verify", "/usr/bin/whatever", ())  # it reads


def findings(tmp_path: Path, path: str, *named: str) -> list[str]:
    definition: dict[str, Any] = {
        "type": "unit.write",
        "version": "v1",
        "inputs": {"type": "object", "additionalProperties": False, "properties": {}},
        "capabilities": {"os.kernel": "linux"},
        "auto_executed_paths": list(named),
        "steps": [{"id": "one", "kind": "file.render", "params": {"path": path, "template": "x"}}],
    }
    (tmp_path / "definitions").mkdir(parents=True)
    (tmp_path / "definitions" / "a.yaml").write_text(json.dumps(definition, indent=1))
    return [found.rule for found in lint(load_profiles(tmp_path))]


def test_J2_the_linter_wants_the_name_of_each_file(tmp_path: Path) -> None:
    unit = "/etc/systemd/system/app.service"
    assert findings(tmp_path / "1", unit) == ["auto-executed"]
    assert findings(tmp_path / "2", unit, unit) == []
    assert findings(tmp_path / "3", unit, "/etc/systemd/system/other.service") == ["auto-executed"]


@pytest.mark.parametrize(
    "named",
    [
        "/etc/cron.d",
        "/etc/cron.d/",
        "/etc/cron.d/*",
        "/etc/cron.d/../x",
        "/srv/x",
        "etc/cron.d/x",
        "/etc//cron.d/x",
        "/",
    ],
)
def test_J2_a_folder_a_pattern_or_what_needs_no_name_cannot_be_named(tmp_path: Path, named: str) -> None:
    assert "auto-executed" in findings(tmp_path, "/srv/app/x", named)
