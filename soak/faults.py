"""The faults: each injects itself into a running world, and declares its permitted effects.

A fault is a generator. It yields the permitted effects after each injection. The driver then waits
for the desired state and checks the invariants.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

import docker.errors

from podtui.api.names import SANDBOX_CONTAINER_NAME
from soak.damage import damage, write_and_reopen
from soak.fault import Fault, Step, Steps
from soak.invariants import Broken, Excuse
from soak.rollouts import roll_out
from soak.services import change_services
from soak.world import Usage, World

ALL_PODS: Final = Excuse(pods=None)
NOT_READY_SECONDS: Final = 30.0
STOP_SECONDS: Final = 25.0
IDLE_SECONDS: Final = 20.0
"""The agent keeps an idle connection to the engine for 15 seconds."""
FILES_PER_AGENT: Final = 40
"""Of so many damaged files, an agent starts with one; the others are only opened."""


def kill_agent(world: World, chance: random.Random, count: int) -> Steps:
    """kill -9 at random times while the agent starts, syncs or is idle and the folder changes."""
    done = 0
    while done < count:
        batch = min(10, count - done)
        for _ in range(batch):
            world.edit(chance, pool=8, changes=chance.randint(0, 2))
            time.sleep(chance.random() * 1.6)
            world.kill()
            world.start()
        done += batch
        yield Step(batch)


def restart_engine(world: World, chance: random.Random, count: int) -> Steps:
    """Stop and kill the engine alternately, every other time while it fills a new volume.
    Containers end with this engine, so all may restart."""
    for number in range(count):
        world.edit(chance, pool=8, changes=2)
        if number % 4 == 3:
            _await_filling(world, chance.uniform(1, 3))
        else:
            time.sleep(chance.random())
        world.engine.stop(signal.SIGKILL if number % 2 else signal.SIGTERM)
        world.edit(chance, pool=8, changes=1)
        world.engine.start()
        yield Step(1, ALL_PODS)


def _await_filling(world: World, seconds: float) -> None:
    """Return as soon as a new volume has a part of the sandbox image's files."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for volume in world.engine.volumes_path.glob("*/_data"):
            if (volume / "t").exists() and not (volume / "volumes").exists():
                return
        time.sleep(0.0005)


def hang_engine(world: World, chance: random.Random, count: int) -> Steps:
    """SIGSTOP during edits. Every fifth hang follows a short one and lasts until it is reported; in
    every tenth, the agent is stopped and started again."""
    for number in range(count):
        world.edit(chance, pool=8, changes=2)
        time.sleep(chance.random() * 0.5)
        world.engine.freeze()
        try:
            if number % 5 == 0:
                time.sleep(5)
                world.engine.thaw()
                time.sleep(chance.random())
                world.engine.freeze()
                _reported(world)
                if number % 10 == 0:
                    _stops(world)
                    world.start()
            else:
                time.sleep(chance.uniform(0.3, 6))
        finally:
            world.engine.thaw()
        yield Step(1)


def _reported(world: World) -> None:
    try:
        world.wait(lambda: world.node_condition()[0] == "False", "NotReady", NOT_READY_SECONDS)
    except TimeoutError as error:
        raise Broken(f"a hang is reported: {error}") from error


def _stops(world: World) -> None:
    assert world.process is not None
    world.process.send_signal(signal.SIGTERM)
    try:
        world.process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        raise Broken("the agent stops while the engine hangs: it did not") from None


def fill_disk(world: World, chance: random.Random, count: int) -> Steps:
    """Fill the small file system of the root directory, alternately with the agent running and with
    the agent killed and restarted on the full disk."""
    world.stop()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "soak", str(world.root)], check=True
    )
    world.start()
    yield Step(0, Excuse(pods=None, records=True))
    for number in range(count):
        # Let the records reach the disk: a failed write is retried after a second.
        time.sleep(3)
        fill = world.root / "fill"
        with fill.open("wb", buffering=0) as file, suppress(OSError):
            while file.write(bytes(512)):
                pass
        world.edit(chance, pool=8, changes=3)
        time.sleep(3)
        if not world.alive:
            raise Broken("the agent survives a full disk: it ended")
        world.get("/api/v1/pods")
        if number % 2:
            world.kill()
            world.start()
            time.sleep(3)
        fill.unlink()
        if not world.alive:
            # An agent without room for its first file may refuse to start, with a message.
            world.start()
        # Records written while the disk was full may be lost only if the agent was killed then.
        yield Step(1, Excuse(events=bool(number % 2)))


def damage_records(world: World, chance: random.Random, count: int) -> Steps:
    """Truncate, overwrite, empty or replace the records, under a running agent and between two of
    them. Before each, open a batch of copies that are damaged in all ways."""
    world.stop()
    copy = world.base / "records"
    shutil.copy(world.root / "records.db", copy)
    world.start()
    for number in range(count // FILES_PER_AGENT):
        for each in range(FILES_PER_AGENT - 1):
            _open_damaged(copy, number * FILES_PER_AGENT + each, chance)
        live = number % 3 == 2
        if not live:
            world.kill() if number % 2 else world.stop()
        _damage(world.root / "records.db", number, chance)
        if live:
            world.edit(chance, pool=8, changes=1)
            time.sleep(0.3)
            world.kill()
        world.start()
        yield Step(FILES_PER_AGENT, Excuse(records=True))


def _open_damaged(original: Path, number: int, chance: random.Random) -> None:
    """Damage a copy, open it as an agent does, and write to it."""
    with tempfile.TemporaryDirectory(dir=original.parent) as folder:
        path = Path(folder) / "records.db"
        shutil.copy(original, path)
        made = damage(path, number, chance)
        try:
            asyncio.run(write_and_reopen(path))
        except (Exception, BaseExceptionGroup) as error:
            problem = f"{type(error).__name__}: {error}"
            raise Broken(f"a damaged file is opened ({number}: {made}): {problem}") from error


def _damage(path: Path, number: int, chance: random.Random) -> None:
    wal = path.with_name(path.name + "-wal")
    size = path.stat().st_size
    match number % 10:
        case 0:
            os.truncate(path, chance.randrange(size))
        case 1:
            _overwrite(path, chance.randrange(size), chance.randbytes(64))
        case 2:
            _overwrite(path, chance.randrange(size // 4096) * 4096, bytes(4096))
        case 3:
            _overwrite(path, 0, chance.randbytes(100))
        case 4:
            path.write_bytes(chance.randbytes(8192))
        case 5:
            path.unlink()
        case 6:
            path.write_bytes(b"")
        case 7 if wal.exists() and wal.stat().st_size:
            os.truncate(wal, chance.randrange(wal.stat().st_size))
        case 8 if wal.exists() and wal.stat().st_size:
            _overwrite(wal, chance.randrange(wal.stat().st_size), chance.randbytes(64))
        case _:
            with suppress(sqlite3.Error), closing(sqlite3.connect(path, timeout=1)) as connection:
                statement = chance.choice(
                    (
                        "UPDATE records SET data = '{}' WHERE resource = 'pods'",
                        "UPDATE records SET data = x'00ff' WHERE rv % 2",
                        "DELETE FROM records",
                        "DELETE FROM meta",
                        "DROP TABLE records",
                        "PRAGMA user_version = 77",
                    )
                )
                connection.execute(statement)
                connection.commit()


def _overwrite(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def lose_folder(world: World, chance: random.Random, count: int) -> Steps:
    """Delete the folder, replace it by a file, and restore it, once after a restart of the agent.
    An unreadable folder must not terminate a pod."""
    folder = world.folder
    aside = world.base / "aside"
    for number in range(count):
        kind = number % 5
        os.rename(folder, aside)
        match kind:
            case 0:
                pass
            case 1:
                folder.symlink_to(world.base / "nowhere")
            case 2:
                os.mkfifo(folder)
            case 3:
                folder.symlink_to(folder)
            case _:
                folder.symlink_to(aside)
        if kind == 4:
            yield Step(0)
        elif number % 2:
            world.kill()
            world.start()
        time.sleep(chance.uniform(2, 4))
        if os.path.lexists(folder):
            folder.unlink()
        os.rename(aside, folder)
        world.edit(chance, pool=8, changes=1)
        yield Step(1)


def jump_clock(world: World, chance: random.Random, count: int) -> Steps:
    """Change the agent's wall clock with libfaketime; its monotonic clock continues. A client with
    the same clock must trust the API's certificate, which is valid for 90 days."""
    offset = world.base / "clock"
    offset.write_text("+0")
    world.stop()
    world.settings = {
        **world.settings,
        "LD_PRELOAD": str(_libfaketime()),
        "FAKETIME_TIMESTAMP_FILE": str(offset),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "NO_FAKE_STAT": "1",
    }
    world.start()
    yield Step(0)
    for number in range(count):
        # Events expire after an hour: the sum of the first two jumps is less.
        seconds = _JUMPS[number % len(_JUMPS)] + chance.randrange(60)
        offset.write_text(f"{seconds:+d}")
        restarted = number % 3 == 1
        if restarted:
            world.kill()
            world.start()
        _check_trust(world, f"{seconds:+d} s", restarted=restarted)
        world.edit(chance, pool=8, changes=2)
        yield Step(1, Excuse(events=number % len(_JUMPS) >= 2))


_JUMPS: Final = (1500, -1500, 100 * 86400, -86400, 4000 * 86400, 0)
"""Offsets of the wall clock in seconds. The certificates of server and authority expire, and their
replacements are not valid yet after a jump back."""


def _check_trust(world: World, jump: str, *, restarted: bool) -> None:
    """The first connection after a jump may fail if the authority is new, but not the second."""
    client = [sys.executable, "-m", "soak.tls_client", str(world.root / "kubeconfig")]
    problem = ""

    def trusts() -> bool:
        nonlocal problem
        done = subprocess.run(
            client, env={**os.environ, **world.settings}, capture_output=True, text=True
        )
        problem = done.stderr.strip()[-300:]
        return done.returncode == 0

    try:
        if restarted:
            world.wait(trusts, "a trusted certificate")
        elif not trusts() and not trusts():
            raise TimeoutError("the second connection failed")
    except TimeoutError as error:
        raise Broken(
            f"the certificate is trusted after a jump ({jump}): {error}: {problem}"
        ) from error


def _libfaketime() -> Path:
    found = [*Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")]
    if not found:
        subprocess.run(["apt-get", "install", "-y", "-qq", "faketime"], check=True,
                       stdout=subprocess.DEVNULL)  # fmt: skip
        found = [*Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")]
    return found[0]


def remove_by_hand(world: World, chance: random.Random, count: int) -> Steps:
    """Stop, kill and remove containers, volumes and networks of a pod from outside."""
    for number in range(count):
        pod = chance.choice(sorted(world.desired))
        mine = [one for one in world.containers() if one.pod == pod]
        apps = [one.id for one in mine if one.name != SANDBOX_CONTAINER_NAME]
        boxes = [one.id for one in mine if one.name == SANDBOX_CONTAINER_NAME]
        client = world.engine.client
        # The agent may be faster: objects that it has already removed count as removed.
        with suppress(docker.errors.APIError):
            match number % 6:
                case 0:
                    client.remove_container(apps[0], force=True)
                case 1:
                    client.remove_container(boxes[0], force=True)
                case 2:
                    client.kill(apps[0])
                case 3:
                    client.stop(boxes[0], timeout=0)
                case 4:
                    uid = mine[0].uid
                    for one in (*apps, *boxes):
                        client.remove_container(one, force=True)
                    for volume in world.engine.volumes(world.label):
                        if uid in volume:
                            client.remove_volume(volume, force=True)
                case _:
                    client.disconnect_container_from_network(boxes[0], "bridge", force=True)
                    client.remove_container(apps[0], force=True)
        yield Step(1, Excuse(pods={pod}))


def waves(world: World, chance: random.Random, count: int) -> Steps:
    """Start, edit and remove many pods together. The agent's resource usage is compared after each
    wave: from the third wave on it must not grow."""
    size = 100 if count > 3 else 30
    kept: list[Usage] = []
    for _ in range(count):
        for number in range(size):
            world.put(f"w{number}")
        yield Step(0)
        for number in range(size):
            world.put(f"w{number}")
        yield Step(0)
        for number in range(size):
            world.delete(f"w{number}")
        yield Step(1)
        time.sleep(IDLE_SECONDS)
        kept.append(world.usage())
    if len(kept) > 3:
        _flat(kept[2], kept[-1])


def _flat(first: Usage, last: Usage) -> None:
    ratios = {
        "memory": last.memory / first.memory,
        "descriptors": last.descriptors / first.descriptors,
        "threads": last.threads / first.threads,
    }
    for name, ratio in ratios.items():
        if ratio > 1.25:
            raise Broken(f"flat over waves: {name} {ratio:.2f} times the third wave's")


FAULTS: Final = (
    Fault(
        name="kills",
        title="The agent is killed (kill -9) at random moments under edits",
        unit="kills",
        run=kill_agent,
        full=200,
        short=10,
        seconds=1680,
    ),
    Fault(
        name="rollouts",
        title="The agent is killed (kill -9) at random moments while several workloads at once are"
        " rolled out and scaled",
        unit="kills",
        run=roll_out,
        full=200,
        short=4,
        seconds=4800,
        checked="at every moment, by the API and by the engine: no pod more or fewer than"
        " maxSurge and maxUnavailable allow, one pod of an ordinal, an ordered StatefulSet starts"
        " no pod before the ones below it are ready, Recreate runs no two revisions, a Job runs"
        " each completion once",
        pods=2,
        ends_itself=True,
    ),
    Fault(
        name="services",
        title="The agent is killed (kill -9) while 200 Services with 1,000 endpoints change and"
        " clients in all pods connect; rules are flushed, and the engine is killed",
        unit="kills",
        run=change_services,
        full=100,
        short=3,
        seconds=4800,
        checked="no request fails while the pods run, and no pod answers that was no endpoint;"
        " afterwards each Service answers from each pod with all of its endpoints and no other,"
        " also after a flush, which an event reports; no rules are left on the host",
        engine_ends=True,
        ends_itself=True,
    ),
    Fault(
        name="restarts",
        title="The engine is restarted under load: stopped, killed, killed while it fills a volume",
        unit="restarts",
        run=restart_engine,
        full=20,
        short=1,
        seconds=480,
        engine_ends=True,
    ),
    Fault(
        name="hangs",
        title="The engine hangs (SIGSTOP) under load",
        unit="hangs",
        run=hang_engine,
        full=20,
        short=2,
        seconds=520,
        checked=f"a hang, also one that follows another, is reported as NotReady within"
        f" {NOT_READY_SECONDS:.0f} s; the agent stops within {STOP_SECONDS:.0f} s in the middle"
        " of one",
    ),
    Fault(
        name="disk",
        title="The disk under the root directory is full while records, logs and state are written",
        unit="times full",
        run=fill_disk,
        full=4,
        short=1,
        seconds=240,
        checked="the agent survives it, and the API answers meanwhile",
    ),
    Fault(
        name="records",
        title="records.db is cut, overwritten, emptied, deleted or changed at random places, every"
        " table and column among them",
        unit="damaged files",
        run=damage_records,
        full=2000,
        short=120,
        seconds=1440,
        checked="each file is opened or set aside, and written to afterwards; with one of"
        f" {FILES_PER_AGENT}, an agent starts: no container is restarted; records may start over",
    ),
    Fault(
        name="folder",
        title="The folder is deleted, or replaced by a dangling link, a pipe, a loop, a link to it",
        unit="times",
        run=lose_folder,
        full=10,
        short=2,
        seconds=300,
    ),
    Fault(
        name="clock",
        title="The agent's wall clock jumps forward and back (libfaketime)",
        unit="jumps",
        run=jump_clock,
        full=12,
        short=3,
        seconds=360,
        checked="a client with the same clock trusts the API's certificate at once, also after a"
        " jump of 100 days and one of 11 years",
    ),
    Fault(
        name="others",
        title="Containers, sandboxes, volumes and networks are removed by another program",
        unit="times",
        run=remove_by_hand,
        full=12,
        short=2,
        seconds=360,
        checked="no other pod is touched",
    ),
    Fault(
        name="waves",
        title="100 pods (short form: 30) are started, edited and removed together",
        unit="waves",
        run=waves,
        full=10,
        short=1,
        seconds=1280,
        checked="memory, descriptors and threads of the agent after the last wave are at most"
        " 1.25 times those after the third",
        pods=0,
    ),
)
