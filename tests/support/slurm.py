"""A real Slurm controller with its munge daemon, in a folder and on loopback."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.ports import next_port

CLUSTER = "hostlertest"
SETTINGS = {
    "SlurmUser": "root",
    "SlurmdSpoolDir": "/var/spool/slurmd-test",
    "ProctrackType": "proctrack/linuxproc",
    "TaskPlugin": "task/none",
    "MpiDefault": "none",
    "SwitchType": "switch/none",
    "SelectType": "select/cons_tres",
    "JobAcctGatherType": "jobacct_gather/none",
    "ReturnToService": "2",
    "SlurmdParameters": "config_overrides",
    "SlurmdTimeout": "60",
}


@dataclass(frozen=True)
class Controller:
    """Attributes:
    conf: of the controller, for `SLURM_CONF`. key: of munge. attributes, settings: what a node's file must say too.
    """

    conf: Path
    key: bytes
    attributes: dict[str, str]
    settings: dict[str, str]

    def scontrol(self, *argv: str) -> str:
        environment = {"SLURM_CONF": str(self.conf), "PATH": "/usr/bin:/bin"}
        done = subprocess.run(["scontrol", *argv], env=environment, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr


@contextmanager
def controller(folder: Path, node: str) -> Iterator[Controller]:
    """Starts munged and slurmctld; `folder` must be open to every user and in nobody else's hands."""
    port, node_port = next_port(), next_port()
    key = os.urandom(128)
    run = folder / "run"
    for made in (run, folder / "state"):
        made.mkdir()
    shutil.chown(run, "munge", "munge")
    key_file = folder / "munge.key"
    key_file.write_bytes(key)
    shutil.chown(key_file, "munge", "munge")
    key_file.chmod(0o400)
    settings = SETTINGS | {"SlurmctldPort": str(port)}
    attributes = {"NodeAddr": "127.0.0.1", "Port": str(node_port), "CPUs": "2", "RealMemory": "100"}
    conf = folder / "slurm.conf"
    conf.write_text(_conf(folder, node, settings, attributes))
    processes: list[subprocess.Popen[bytes]] = []
    try:
        files = [f"--{name}={run}/munge.{end}" for name, end in (("socket", "sock"), ("pid-file", "pid"))]
        files += [f"--log-file={run}/munge.log", f"--seed-file={run}/seed", f"--key-file={key_file}"]
        processes.append(_start(folder, "/usr/sbin/munged", "--foreground", *files, user="munge"))
        _until(lambda: (run / "munge.sock").exists(), processes[-1], folder)
        processes.append(_start(folder, "/usr/sbin/slurmctld", "-D", "-c", "-f", str(conf)))
        found = Controller(conf, key, attributes, settings)
        _until(lambda: "UP" in found.scontrol("ping"), processes[-1], folder)
        yield found
    finally:
        for process in reversed(processes):
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _conf(folder: Path, node: str, settings: dict[str, str], attributes: dict[str, str]) -> str:
    lines = [f"ClusterName={CLUSTER}", "SlurmctldHost=localhost(127.0.0.1)"]
    lines += [f"AuthInfo=socket={folder}/run/munge.sock", f"StateSaveLocation={folder}/state"]
    lines += [f"SlurmctldPidFile={folder}/run/ctl.pid", f"SlurmctldLogFile={folder}/ctl.log"]
    lines += [f"{key}={value}" for key, value in settings.items()]
    lines.append(" ".join([f"NodeName={node}", *(f"{key}={value}" for key, value in attributes.items())]))
    lines.append("PartitionName=main Nodes=ALL Default=YES State=UP")
    return "\n".join(lines) + "\n"


def _start(folder: Path, *argv: str, user: str | None = None) -> "subprocess.Popen[bytes]":
    with (folder / f"{Path(argv[0]).name}.out").open("wb") as out:
        return subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, user=user, group=user, extra_groups=[]
        )


def _until(there: Any, process: "subprocess.Popen[bytes]", folder: Path) -> None:
    until = time.monotonic() + 30
    while not there():
        if process.poll() is not None or time.monotonic() > until:
            logs = [f"{path.name}: {path.read_text(errors='replace')[-1500:]}" for path in folder.glob("*.out")]
            raise AssertionError("Slurm's controller did not start:\n" + "\n".join(logs))
        time.sleep(0.05)
