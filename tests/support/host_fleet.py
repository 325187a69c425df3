"""Four hosts in two regions, the control plane that brings versions to them, and what is seen of it meanwhile.

with open_fleet() as fleet:
    rollout_id = fleet.create(fleet.publish("crash_loops"))
    found = fleet.still(rollout_id)
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from typing import Any, NamedTuple

import msgspec
import yaml

from hostler.cli.client import Client
from hostler.cli.settings import Settings
from support.agent_packages import version_of
from support.delivery import Delivery, open_delivery
from support.hosts import NOOP, Bed, open_hosts
from support.house import FINAL, PROJECT
from support.sites import JOBS, pids

REGIONS = {"n1": "eu", "n2": "eu", "n3": "us", "n4": "us"}
ROLLOUTS, NODES, RUNS = "/api/v1/admin/agent-rollouts", "/api/v1/admin/nodes", "/api/v1/admin/agent-runs"
FIRST = "0.1.0"
STILL = {"paused", "awaiting_approval", "succeeded", "failed", "aborted", "rolled_back"}
WAITS = ["/bin/sh", "-c", "while [ ! -e /scratch/go ]; do sleep 0.2; done"]


class Seen(NamedTuple):
    """What a list of nodes said of one."""

    reported: str
    desired: str
    badge: str
    drift: str


class Fleet:
    """`runs` is the version that all run by now."""

    def __init__(self, bed: Bed, delivery: Delivery) -> None:
        self.bed, self.house, self.delivery = bed, bed.house, delivery
        self._numbers = count(1)
        self.runs = FIRST

    # -- versions -----------------------------------------------------------------------------------------------------

    def publish(self, kind: str = "", *options: str) -> str:
        version = f"1.{next(self._numbers)}.0"
        self.delivery.publish(version_of(version, kind), *options)
        return version

    def version(self, name: str) -> str:
        """By the host's own word."""
        status: str = msgspec.json.decode(self.bed[name].read("/var/lib/hostler/status.json"))["version"]
        return status

    def node(self, name: str) -> dict[str, Any]:
        """As the list of nodes has it, with its agent."""
        (found,) = [node for node in self.house.client.pages(NODES) if node["name"] == name]
        return dict(found)

    def state_of(self, name: str) -> tuple[str, str]:
        """Badge and drift."""
        agent = self.node(name)["agent"]
        return agent["badge"], agent["drift_state"]

    def events(self, family: str, **wanted: str) -> list[dict[str, Any]]:
        """Oldest first; those whose body says what is `wanted`."""
        found = self.house.client.pages("/api/v1/events", type=family, page_size=1000)
        return [event for event in found if wanted.items() <= event["body"].items()]

    # -- rollouts -----------------------------------------------------------------------------------------------------

    def create(self, version: str, *options: str) -> str:
        said = self.house.cli(
            "rollouts", "create", version, "--canary", "1", "--by", "region", "--soak-seconds", "2",
            "--output", "json", *options,
        )  # fmt: skip
        made: str = msgspec.json.decode(said)["rollout_id"]
        return made

    def show(self, rollout_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.house.client.call("GET", f"{ROLLOUTS}/{rollout_id}", page_size=500)
        return found

    def members(self, rollout_id: str) -> dict[str, dict[str, Any]]:
        return {row["node_name"]: row for row in self.show(rollout_id)["members"]["items"]}

    def would_be_canary(self, version: str) -> str:
        """By a dry run."""
        said = self.house.cli(
            "rollouts", "create", version, "--canary", "1", "--by", "region", "--dry-run", "--output", "json"
        )
        (name,) = msgspec.json.decode(said)["waves"][0]["nodes"]
        return str(name)

    def canary(self, rollout_id: str) -> str:
        (name,) = [name for name, row in self.members(rollout_id).items() if row["wave"] == 0]
        return name

    def still(self, rollout_id: str, limit_s: float = 200) -> dict[str, Any]:
        """Once it is over, or waits for a person and changes no node any more."""

        def is_still() -> bool:
            found = self.show(rollout_id)
            moving = found["states"].get("running", 0) + found["states"].get("rolling_back", 0)
            return found["state"] in STILL and not moving

        self.until(is_still, f"rollout {rollout_id} goes on", limit_s, lambda: self.show(rollout_id))
        return self.show(rollout_id)

    def succeeded(self, rollout_id: str, version: str) -> dict[str, Any]:
        found = self.still(rollout_id, 300)
        assert found["state"] == "succeeded", self.told(found)
        for name in self.bed.names:
            assert self.version(name) == version, name
        self.runs = version
        return found

    def told(self, what: Any) -> str:
        """For a failure's message: what it is about, the newest runs, what hosts and control plane logged."""
        runs = list(self.house.client.pages(RUNS, page_size=200))[:6]
        units = ["-u", "hostler-trial.service", "-u", "hostler-agent.service", "-n", "25"]
        logs = [f"{name}: {self.bed[name].journal(*units)}" for name in self.bed.names if self.bed[name].leader]
        return "\n".join([str(what), *map(str, runs), *logs, self.house.logs()])

    def until(
        self, there: Callable[[], bool], what: str, limit_s: float = 60, about: Callable[[], Any] = lambda: ""
    ) -> None:
        end = time.monotonic() + limit_s
        while not there():
            assert time.monotonic() < end, f"{what}: {self.told(about())}"
            time.sleep(0.1)

    # -- runs of one node ---------------------------------------------------------------------------------------------

    def bring(self, name: str, scenario: str, version: str = "", safety: str = "idle", **more: str) -> str:
        """→ the run's id."""
        words = ["--to", version] if version else []
        for option, value in more.items():
            words += [f"--{option}", value]
        said = self.house.cli(
            "agents", "upgrade", name, "--scenario", scenario, "--safety", safety, "--no-watch",
            "--output", "json", *words,
        )  # fmt: skip
        run_id: str = msgspec.json.decode(said)["run"]["run_id"]
        return run_id

    def run(self, run_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.house.client.call("GET", f"{RUNS}/{run_id}")
        return found

    def run_ended(self, run_id: str, state: str, limit_s: float = 150) -> dict[str, Any]:
        self.until(lambda: self.run(run_id)["finished_at_ms"] > 0, "it goes on", limit_s, lambda: self.run(run_id))
        found = self.run(run_id)
        assert found["state"] == state, self.told(found)
        return found

    # -- work on the hosts --------------------------------------------------------------------------------------------

    def job_on_each(self) -> str:
        """One task that waits on every host; ended by `let_end`."""
        file = self.house.home / "each.yaml"
        resources = {"cpu": "1200m", "memory": "64MiB"}
        spec = {"name": f"each-{next(self._numbers)}", "replicas": 4, "resources": resources, "command": WAITS}
        file.write_text(yaml.safe_dump(spec))
        job_id = self.house.cli("jobs", "submit", str(file)).strip()
        self.until(lambda: len(self.pids(job_id)) == len(self.bed.names), "the job does not run everywhere")
        return job_id

    def pids(self, job_id: str) -> dict[str, int]:
        """The first process of the job's task, by the name of its host."""
        named = {self.house.node(name)["node_id"]: name for name in self.bed.names}
        found = {}
        for task in self.house.client.call("GET", f"{JOBS}/{job_id}/tasks")["items"]:
            if task["attempt_uid"] and (there := pids(task["attempt_uid"])):
                found[named[task["node_id"]]] = there[0]
        return found

    def let_end(self, job_id: str) -> str:
        """→ the job's state."""
        for task in self.house.client.call("GET", f"{JOBS}/{job_id}/tasks")["items"]:
            for host in self.bed.hosts.values():
                place = f"/var/lib/hostler/containers/scratch/{task['attempt_uid']}"
                if host.exists(place):
                    host.put(f"{place}/go", "")
        self.until(lambda: self._job(job_id)["finished_at_ms"] > 0, "the job does not end")
        state: str = self._job(job_id)["state"]
        return state

    def _job(self, job_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.house.client.call("GET", f"{JOBS}/{job_id}")
        return found

    @contextmanager
    def watched(self) -> Iterator[dict[str, set[Seen]]]:
        """What every look at the list of nodes shows of each, until the block ends."""
        seen: dict[str, set[Seen]] = {name: set() for name in self.bed.names}
        client, over = self._client(), threading.Event()

        def look() -> None:
            while not over.wait(0.2):
                for node in client.pages(NODES):
                    agent = node["agent"]
                    words = ("reported_agent_version", "desired_agent_version", "badge", "drift_state")
                    seen[node["name"]].add(Seen(*(agent[word] for word in words)))

        with closing(client), self._beside(look, over):
            yield seen

    @contextmanager
    def at_work(self, *names: str) -> Iterator[list[str]]:
        """One small operation after the other on these hosts; the ends of all that were given them."""
        ends: list[str] = []
        over = threading.Event()

        def work() -> None:
            while not over.is_set():
                operation_id = self.house.submit(NOOP, nodes=names)
                while (status := self.house.operation(operation_id)["status"]) not in FINAL:
                    time.sleep(0.1)
                ends.append(status)

        with self._beside(work, over):
            yield ends

    @contextmanager
    def _beside(self, work: Callable[[], None], over: threading.Event) -> Iterator[None]:
        failed: list[BaseException] = []

        def run() -> None:
            try:
                work()
            except BaseException as err:
                failed.append(err)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(60)
        assert not failed, failed

    def _client(self) -> Client:
        token = str(self.house.home / "admin.token")
        return Client(Settings(server=self.house.ports.server, token_file=token, project=PROJECT))


@contextmanager
def open_fleet() -> Iterator[Fleet]:
    labels = {name: {"region": region} for name, region in REGIONS.items()}
    with open_hosts(4, labels=labels) as bed, open_delivery(bed) as delivery:
        yield Fleet(bed, delivery)
