"""Runs the flow: in this process without a cluster, or as jobs of a project.

    python docs/examples/coordinator_workers/run.py                       # threads, no control plane
    python docs/examples/coordinator_workers/run.py --project train       # two root jobs, and the workers' two children
    python docs/examples/coordinator_workers/run.py --project train --together     # one root job with two children

The jobs go out by `hostler jobs submit`, with this directory and the SDK as their code. `--server` and `--token-file`
are the command's own; without them its configuration file says where the control plane is.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from hostler import sdk
from hostler.sdk.local import LocalHouse

sys.path.insert(0, str(Path(__file__).resolve().parent))

import flow

HERE = Path(__file__).resolve().parent


def in_this_process() -> None:
    house = LocalHouse()
    arguments = "/ann/coordinator", flow.coordinate, 2, 1000
    coordinator = threading.Thread(target=house.run, args=arguments, kwargs={"ports": ("actor",)})
    coordinator.start()
    house.run("/ann/workers", flow.work, "/ann/coordinator", 2)
    coordinator.join()
    house.close()


class Cluster:
    """The command `hostler`, for one project."""

    def __init__(self, asked: argparse.Namespace) -> None:
        given = {"--server": asked.server, "--token-file": asked.token_file, "--project": asked.project}
        self._command = [asked.hostler, *(word for pair in given.items() if pair[1] for word in pair)]

    def say(self, *arguments: str) -> Any:
        command = [*self._command, *arguments, "--output", "json"]
        return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)

    def submit(self, name: str, workspace: Path) -> str:
        """A YAML file beside this one; the job's id."""
        made = self.say("jobs", "submit", str(HERE / f"{name}.yaml"), "--workspace", str(workspace))
        return str(made["job_id"])

    def follow(self, job: str) -> int:
        """Prints what it writes until it ends; its exit code."""
        subprocess.run([*self._command, "jobs", "logs", "--follow", job], check=True)
        return subprocess.run([*self._command, "jobs", "wait", job], check=False, stdout=subprocess.DEVNULL).returncode


def as_jobs(asked: argparse.Namespace) -> int:
    """One bundle for all: what a task imports has to be in it."""
    with tempfile.TemporaryDirectory() as made:
        workspace = Path(made)
        shutil.copy(HERE / "flow.py", workspace)
        shutil.copytree(Path(sdk.__file__).parent, workspace / "hostler" / "sdk")
        cluster = Cluster(asked)
        names = ("together",) if asked.together else ("coordinator", "workers")
        jobs = [cluster.submit(name, workspace) for name in names]
    return max(cluster.follow(job) for job in jobs)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--project", default="", help="run as jobs of this project")
    parser.add_argument("--together", action="store_true", help="workers as children of the coordinator")
    parser.add_argument("--server", default="")
    parser.add_argument("--token-file", default="")
    parser.add_argument("--hostler", default="hostler", help="the command, where it is not on PATH")
    asked = parser.parse_args()
    if asked.project:
        return as_jobs(asked)
    in_this_process()
    return 0


if __name__ == "__main__":
    sys.exit(main())
