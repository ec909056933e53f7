"""Plan manifest changes: the folder previews the result, the kubelet checks the admission of new
pods."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from podtui.api.plan import Plan
from podtui.api.v1 import Pod
from podtui.api.what_if import WhatIf
from podtui.kubelet.admission.plan import comes, plan_of
from podtui.manifest.folder import ManifestFolder
from podtui.server.what_if import Planner


def planner(folder: ManifestFolder, judge: Callable[[Pod], Awaitable[WhatIf]]) -> Planner:
    """Return a planner for a watched folder; ``judge`` is called for every new pod."""

    async def plan(name: str, data: bytes | None) -> Plan:
        preview = await folder.preview(name, data)
        wanted = comes(plan_of(preview))
        rejections: dict[tuple[str, str], str] = {}
        for pod in preview.after.pods.values():
            key = (pod.metadata.namespace, pod.metadata.name)
            if key in wanted:
                answer = await judge(pod)
                if not answer.admitted:
                    rejections[key] = f"{answer.reason}: {answer.message}"
        return plan_of(preview, rejections)

    return plan
