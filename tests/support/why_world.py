"""Run manifests on the simulated kubelet, and diagnose them."""

from __future__ import annotations

import textwrap
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from kubelet_world import World
from msgspec import structs

from podtui.api.health import pod_health
from podtui.api.local import Manifest, ManifestSpec, ManifestState, ManifestStatus
from podtui.api.names import CONFIG_SOURCE
from podtui.api.times import epoch
from podtui.api.v1 import ObjectMeta, Pod
from podtui.editing.findings import is_better
from podtui.manifest.diagnose import read_manifest
from podtui.manifest.fixes import read_with_fix
from podtui.why import Diagnosis, Facts, Fix, Kind, apply_edits, diagnose
from podtui.why.node_pods import NodePods

HEAD = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\nspec:\n"


def spec(text: str) -> str:
    """Return a manifest with this below ``spec``."""
    return HEAD + textwrap.indent(textwrap.dedent(text), "  ")


def pod_text(text: str = "", pod: str = "") -> str:
    """Return a manifest with one container ``c`` with these fields; ``pod`` is added to the
    spec.
    """
    indented = textwrap.indent(textwrap.dedent(text), "    ")
    return HEAD + textwrap.indent(
        f"{textwrap.dedent(pod)}containers:\n  - name: c\n    image: busybox:1\n{indented}", "  "
    )


def manifest_of(text: str, name: str = "web") -> tuple[Manifest, Pod | None]:
    """Return the record of a file and its pod, as the folder creates them."""
    result = read_with_fix(f"/m/{name}.yaml", text.encode(), node_name="n1")
    pod = result.pods[0]
    meta = pod.metadata if pod is not None else ObjectMeta()
    status = ManifestStatus(
        state=ManifestState.ACCEPTED if pod is not None else ManifestState.INVALID,
        podNamespace=meta.namespace,
        podName=meta.name,
        podUID=meta.uid,
        places=result.places,
        diagnostics=result.diagnostics,
        fix=result.fix,
    )
    spec_ = ManifestSpec(path=f"/m/{name}.yaml", text=result.text)
    return Manifest(metadata=ObjectMeta(name=f"{name}.yaml"), spec=spec_, status=status), pod


class DiagnosedPod:
    """A world with one manifest, and the diagnosis of its pod."""

    def __init__(self, world: World, text: str) -> None:
        self.world = world
        self.text = text
        self.manifest, pod = manifest_of(text)
        assert pod is not None, self.manifest.status.diagnostics
        annotations = {**pod.metadata.annotations, CONFIG_SOURCE: "file"}
        self.pod = structs.replace(
            pod, metadata=structs.replace(pod.metadata, annotations=annotations)
        )

    async def facts(self, **more: Any) -> Facts:
        name = self.pod.metadata.name
        listing = await self.world.store.list("pods")
        pods = NodePods(p for p in listing.items if isinstance(p, Pod))
        record = await self.world.record(name)
        assert record is not None
        known: dict[str, Any] = {
            "pod": record,
            "events": tuple(reversed(await self.world.events(name))),
            "manifest": self.manifest,
            "node": await self.world.node(),
            "node_pods": pods,
            "now": epoch(self.world.clock.now().isoformat()),
        }
        return Facts(**{**known, **more})

    async def why(self, **more: Any) -> Diagnosis:
        """Return the diagnosis, which must agree with the pod's health."""
        facts = await self.facts(**more)
        diagnosis = diagnose(facts)
        if diagnosis.cause not in ("EngineLost", "ManifestInvalid"):
            health = pod_health(facts.pod, facts.now)
            assert diagnosis.health is health.health
            well = diagnosis.kind not in (Kind.FAILURE, Kind.WAIT)
            assert well is health.well, (diagnosis, health)
        return diagnosis

    async def until(self, cause: str, limit: float = 120.0, **more: Any) -> Diagnosis:
        """Wait until this is the cause. Fail with the last diagnosis."""
        diagnosis = None
        for _ in range(round(limit / 0.5)):
            await self.world.sleep(0.5)
            if await self.world.record(self.pod.metadata.name) is None:
                continue
            diagnosis = await self.why(**more)
            if diagnosis.cause == cause:
                return diagnosis
        raise AssertionError(f"never {cause}; at last {diagnosis}")


@asynccontextmanager
async def diagnosed_pod(text: str, world: World | None = None) -> AsyncIterator[DiagnosedPod]:
    """Run the manifest in a world."""
    world = world or World()
    it = DiagnosedPod(world, text)
    async with world.running():
        await world.until(lambda: True)
        world.add(it.pod)
        yield it


def fixed(diagnosis: Diagnosis, text: str, number: int = 0) -> str:
    """Return the text with a fix applied; it must be valid, without new findings."""
    new = apply_edits(text, diagnosis.fixes[number].edits)
    result = read_manifest("/m/web.yaml", new.encode(), node_name="n1")
    assert result.sound, (new, result.diagnostics)
    before = read_manifest("/m/web.yaml", text.encode(), node_name="n1").diagnostics
    assert is_better(before, result.diagnostics), (new, result.diagnostics)
    return new


def fix_titles(diagnosis: Diagnosis) -> list[str]:
    return [fix.title for fix in diagnosis.fixes]


def fix_index(diagnosis: Diagnosis, words: str) -> int:
    return next(n for n, fix in enumerate(diagnosis.fixes) if words in fix.title)


Setting = Callable[[World], None]
__all__ = [
    "DiagnosedPod",
    "Fix",
    "diagnosed_pod",
    "fix_index",
    "fix_titles",
    "fixed",
    "manifest_of",
    "pod_text",
    "spec",
]
