"""The store compared with a dictionary, in any order of operations, with readers at any speed."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from examples import examples
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from podtui.api.v1 import ObjectMeta, Pod, PodSpec, PodStatus
from podtui.errors import StoreGone
from podtui.store import open_store
from podtui.store.protocol import WatchType

RING = 4
names = st.sampled_from(["a", "b", "c"])
namespaces = st.sampled_from(["x", "y"])


class FixedClock:
    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("the store slept")


class Watcher:
    """A reader's state, built from a list and updated only by changes."""

    def __init__(self, store, runner, namespace: str) -> None:
        self.namespace = namespace
        self.begin(store, runner)

    def begin(self, store, runner) -> None:
        listing = runner.run(store.list("pods", self.namespace))
        self.version = listing.resource_version
        self.picture = {(o.metadata.namespace, o.metadata.name): o for o in listing.items}
        self.changes = store.watch("pods", self.namespace, since=listing.resource_version)


class StoreMachine(RuleBasedStateMachine):
    watchers = Bundle("watchers")

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        sizes = {"pods": RING, "nodes": RING, "events": RING, "manifests": RING}
        self.store = open_store(None, clock=FixedClock(), history=sizes)
        self.model: dict[tuple[str, str], str] = {}
        self.log: list[tuple[int, str]] = []

    def version(self) -> int:
        return self.runner.run(self.store.list("pods")).resource_version

    @rule(name=names, namespace=namespaces, phase=st.sampled_from(["1", "2"]))
    def put(self, name: str, namespace: str, phase: str) -> None:
        before = self.version()
        item = Pod(
            metadata=ObjectMeta(name=name, namespace=namespace),
            spec=PodSpec(containers=()),
            status=PodStatus(phase=phase),
        )
        stored = self.runner.run(self.store.put("pods", item))
        changed = self.model.get((namespace, name)) != phase
        self.model[namespace, name] = phase
        assert self.version() == before + changed
        assert stored.status.phase == phase
        if changed:
            self.log.append((before + 1, namespace))

    @rule(name=names, namespace=namespaces)
    def delete(self, name: str, namespace: str) -> None:
        before = self.version()
        there = self.runner.run(self.store.delete("pods", namespace, name))
        assert there == (self.model.pop((namespace, name), None) is not None)
        assert self.version() == before + there
        if there:
            self.log.append((before + 1, namespace))

    @rule(target=watchers, namespace=st.sampled_from(["", "x"]))
    def watch(self, namespace: str) -> Watcher:
        return Watcher(self.store, self.runner, namespace)

    @rule(watcher=watchers)
    def catch_up(self, watcher: Watcher) -> None:
        due = [v for v, _ in self.log if v > watcher.version]
        mine = [v for v, n in self.log if v > watcher.version and watcher.namespace in ("", n)]
        if len(due) > RING:
            with pytest.raises(StoreGone):
                self.runner.run(self.read(watcher, len(mine) or 1))
            watcher.begin(self.store, self.runner)
            return
        self.runner.run(self.read(watcher, len(mine)))
        listing = self.runner.run(self.store.list("pods", watcher.namespace))
        assert {(o.metadata.namespace, o.metadata.name): o for o in listing.items} == (
            watcher.picture
        )
        watcher.version = listing.resource_version
        watcher.changes = self.store.watch("pods", watcher.namespace, since=watcher.version)

    async def read(self, watcher: Watcher, count: int) -> None:
        for _ in range(count):
            change = await anext(watcher.changes)
            assert change.object is not None
            key = (change.object.metadata.namespace, change.object.metadata.name)
            assert watcher.picture.get(key) == change.previous
            assert (change.type is WatchType.ADDED) == (key not in watcher.picture)
            if change.type is WatchType.DELETED:
                del watcher.picture[key]
            else:
                watcher.picture[key] = change.object

    @invariant()
    def lists_agree(self) -> None:
        listing = self.runner.run(self.store.list("pods"))
        found = [
            ((o.metadata.namespace, o.metadata.name), o.status.phase)  # type: ignore[union-attr]
            for o in listing.items
        ]
        assert found == sorted(self.model.items())

    def teardown(self) -> None:
        self.runner.run(self.store.close())
        self.runner.close()


TestStoreModel = StoreMachine.TestCase
TestStoreModel.settings = examples(40, stateful_step_count=40)
