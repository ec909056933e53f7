"""The agent is killed while 200 Services with 1,000 endpoints change and clients connect.

The endpoints are written by hand, so that each Service has the pods that this module chose: a pod
answers with its name. Clients in the networks of pods connect all the time. No request may fail,
and no pod may answer that the Service had neither before nor after the last changes.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import IO, Final

from podtui.agent.pod_networks import host_table
from podtui.api.names import SANDBOX_CONTAINER_NAME
from podtui.services.proxy import RESTORED
from soak.fault import Step, Steps
from soak.invariants import Broken, Excuse, settle
from soak.world import World

KILLS_PER_STEP: Final = 10
SERVICES: Final = 200
ENDPOINTS: Final = 5
_HOST_POD: Final = "host"
"""A pod in the host's network: its rules are the host's."""
_CHANGES: Final = 10
"""The Services that get other endpoints before each kill."""
_SAMPLE: Final = 4
"""The Services whose endpoints must all answer."""
_SAMPLE_REQUESTS: Final = 80
"""The probability that one of five endpoints does not answer is 10^-7."""
_NAMESPACE: Final = "default"
_API: Final = f"/api/v1/namespaces/{_NAMESPACE}/services"
_EVENTS: Final = f"/api/v1/namespaces/{_NAMESPACE}/events"
_SLICES: Final = f"/apis/discovery.k8s.io/v1/namespaces/{_NAMESPACE}/endpointslices"


def address(number: int) -> str:
    """Return the cluster address of a Service."""
    return f"10.96.8.{number + 1}"


def service(number: int) -> dict[str, object]:
    """Return a Service without a selector."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": f"s{number}"},
        "spec": {
            "clusterIP": address(number),
            "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
        },
    }


def endpoint_slice(number: int, ips: Collection[str]) -> dict[str, object]:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": f"s{number}", "labels": {"kubernetes.io/service-name": f"s{number}"}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080}],
        "endpoints": [{"addresses": [ip], "conditions": {"ready": True}} for ip in ips],
    }


def change_services(world: World, chance: random.Random, count: int) -> Steps:
    """kill -9 at random times while the rules change. After every other step, another program
    flushes all rules of a pod; after every fourth one, the engine is restarted."""
    world.put(_HOST_POD)
    settle(world)
    _add_route()
    fleet = Fleet(world)
    for number in range(SERVICES):
        world.send("POST", _API, service(number))
        fleet.change(number, chance)
    done = 0
    while done < count and not world.expired:
        batch = min(KILLS_PER_STEP, count - done)
        with clients(world) as asked:
            fleet.settle(asked, chance)
            with fleet.connecting(asked, chance):
                for _ in range(batch):
                    for number in chance.sample(range(SERVICES), _CHANGES):
                        fleet.change(number, chance)
                    # Half of the kills follow within 0.25 s, while the rules change.
                    time.sleep(2 * chance.random() ** 3)
                    world.kill()
                    world.start()
            fleet.settle(asked, chance)
            if done // KILLS_PER_STEP % 2 == 0:
                _flush(world, asked[chance.choice(sorted(asked))])
                fleet.settle(asked, chance)
        done += batch
        yield Step(batch)
        if done // KILLS_PER_STEP % 4 == 1:
            world.engine.stop(signal.SIGKILL)
            world.engine.start()
            settle(world)
            fleet.follow()
            yield Step(0, Excuse(pods=None))
    world.delete(_HOST_POD)
    settle(world)
    tables = subprocess.run(["nft", "list", "tables"], check=True, capture_output=True, text=True)
    if host_table(str(world.root)) in tables.stdout:
        raise Broken(f"nothing left over in the kernel: {tables.stdout}")


def _add_route() -> None:
    """The kernel looks for a route before it applies rules to the packets of the host."""
    subprocess.run(["busybox", "ip", "route", "add", "default", "dev", "docker0"], check=True)


def _flush(world: World, client: Client) -> None:
    """Flush all rules of a pod, and wait until the agent has noticed that. Raises `Broken`."""
    before = _restored(world)
    client.flush()
    try:
        world.wait(lambda: _restored(world) > before, "an event about the flushed rules")
    except TimeoutError as error:
        raise Broken(f"flushed rules are reported: {error}") from None


def _restored(world: World) -> int:
    with suppress(OSError):
        events = world.get(_EVENTS)["items"]
        return sum(event.get("count") or 1 for event in events if event["reason"] == RESTORED)
    return 0


@dataclass(slots=True)
class Fleet:
    """``endpoints`` names the pods of each Service; ``former`` those it had since the last time
    that all Services were settled."""

    world: World
    endpoints: dict[int, set[str]] = field(default_factory=dict[int, set[str]])
    former: dict[int, set[str]] = field(default_factory=dict[int, set[str]])

    def _ips(self) -> Mapping[str, str]:
        return {
            name: pod["status"].get("podIP", "")
            for name, pod in self.world.pods().items()
            if name != _HOST_POD
        }

    def change(self, number: int, chance: random.Random) -> None:
        """Give a Service other endpoints."""
        pods = [name for name in sorted(self.world.desired) if name != _HOST_POD]
        # Threads read the sets: they are replaced, not changed.
        former = self.former.get(number, set()) | self.endpoints.get(number, set())
        self.former[number] = former
        self.endpoints[number] = {*chance.sample(pods, min(ENDPOINTS, len(pods)))}
        self._write(number)

    def follow(self) -> None:
        """Write the new IPs of the pods."""
        for number in self.endpoints:
            self._write(number)

    def _write(self, number: int) -> None:
        names = self.endpoints[number]
        ips: list[str] = []

        def have_ips() -> bool:
            nonlocal ips
            with suppress(OSError):
                by_name = self._ips()
                ips = [by_name[name] for name in sorted(names) if by_name.get(name)]
            return len(ips) == len(names)

        self.world.wait(have_ips, "the IPs of the pods")
        self.world.send(
            "PATCH", f"{_SLICES}/s{number}?fieldManager=soak&force=true",
            endpoint_slice(number, ips), "application/apply-patch+yaml",
        )  # fmt: skip

    def settle(self, asked: Mapping[str, Client], chance: random.Random) -> None:
        """Wait until each Service answers with its pods, and only with them. Raises `Broken`."""
        wrong = ["nothing was asked"]

        def settled() -> bool:
            nonlocal wrong
            wrong = [
                f"s{number} from {pod}: {answers}, wanted {sorted(self.endpoints[number])}"
                for pod, client in asked.items()
                for number in range(SERVICES)
                if not {*(answers := client.ask(number, 2))} <= self.endpoints[number]
            ]
            return not wrong

        try:
            self.world.wait(settled, "the Services")
        except TimeoutError as error:
            raise Broken(f"Services answer: {error}: {'; '.join(wrong[:4])}") from None
        for pod, client in asked.items():
            for number in chance.sample(range(SERVICES), _SAMPLE):
                answers = client.ask(number, _SAMPLE_REQUESTS)
                if {*answers} != self.endpoints[number]:
                    wanted = sorted(self.endpoints[number])
                    raise Broken(f"all endpoints answer: s{number} from {pod}: {answers}, {wanted}")
        self.former = {number: {*names} for number, names in self.endpoints.items()}

    @contextmanager
    def connecting(self, asked: Mapping[str, Client], chance: random.Random) -> Generator[None]:
        """Connect to Services from all pods during the block. Raises `Broken` at its end if a
        request failed, or if a pod answered that was no endpoint."""
        stopped = threading.Event()
        problems: list[str] = []
        count = 0

        def connect(pod: str, client: Client, chance: random.Random) -> None:
            nonlocal count
            while not stopped.is_set():
                number = chance.randrange(SERVICES)
                before = self.endpoints[number] | self.former[number]
                answers = client.ask(number, 4)
                allowed = before | self.endpoints[number] | self.former[number]
                count += 4
                if not {*answers} <= allowed:
                    problems.append(f"s{number} from {pod}: {answers}, allowed {sorted(allowed)}")

        threads = [
            threading.Thread(target=connect, args=(*item, random.Random(chance.random())))
            for item in asked.items()
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stopped.set()
            for thread in threads:
                thread.join()
        if problems or not count:
            raise Broken(f"no request is lost: {len(problems)} of {count}: {problems[:4]}")


class Client:
    """Asks from inside the network of a process."""

    def __init__(self, pid: int) -> None:
        self._enter = ["nsenter", "--target", str(pid), "--net"]
        self._process = subprocess.Popen(
            [*self._enter, sys.executable, "-m", "soak.service_client"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def ask(self, number: int, requests: int) -> dict[str, int]:
        """Return the number of answers by pod, or by error. Raises `Broken`."""
        _pipe(self._process.stdin).write(f"{json.dumps([address(number), requests])}\n")
        _pipe(self._process.stdin).flush()
        line = _pipe(self._process.stdout).readline()
        if not line:
            raise Broken("a client ended")
        answers: dict[str, int] = json.loads(line)
        return answers

    def flush(self) -> None:
        """Remove all rules of this network, as the reload of a firewall does."""
        subprocess.run([*self._enter, "nft", "flush", "ruleset"], check=True)

    def close(self) -> None:
        self._process.communicate(timeout=60)


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


@contextmanager
def clients(world: World) -> Generator[dict[str, Client]]:
    """Run a client in each pod."""
    opened: dict[str, Client] = {}
    try:
        for container in world.containers():
            if container.name == SANDBOX_CONTAINER_NAME and container.state == "running":
                state = world.engine.client.inspect_container(container.id)["State"]
                opened[container.pod] = Client(state["Pid"])
        yield opened
    finally:
        for client in opened.values():
            client.close()
