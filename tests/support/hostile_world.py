"""A world in which all user-written texts are hostile, and the same world sanitized."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import msgspec
import picture_world
from picture_objects import served
from picture_world import Forwarded
from service_scene import send_shop, with_services
from tui_scene import (
    BROKEN,
    FakeClient,
    ago,
    ended,
    event,
    events,
    gallery,
    manifest,
    manifests,
    node,
    pod,
    status,
    usage,
    waiting,
)

from podtui.api.insight import PodInsight
from podtui.api.local import (
    Diagnostic,
    FieldChange,
    FilePlan,
    ManifestState,
    NodeMetrics,
    ObjectPlan,
    Plan,
    PlanOutcome,
    PodPlan,
    Severity,
)
from podtui.api.v1 import ExecAction, ObjectMeta, Pod, Probe
from podtui.text.terminal_text import one_line
from podtui.tui.commands.session import RunningForward
from podtui.tui.views.journal import JournalEntry
from podtui.tui.views.logs.ansi import plain_text

EVIL: Final = (
    "\x1b]0;pwned\x07\x1b]52;c;cHduZWQ=\x1b\\\x1b]8;;x:y\x1b\\link\x1b]8;;\x1b\\\x1b[2J\x1b[31mred"
    "\x1b[10;10H\x1bc\x1bP+q544e\x1b\\\x1b_x\x1b\\\x9b2J\x9d0;pwned\x9c\x90q\x9c\x07\b\0\x7f"
    "\u202eevil\u2066\u202d\u2069\u200f\u061c\ufeff\u200b\u0600שלום 5日本語ｗe" + "\u0301" * 1000 +
    "👩\u200d👩\u200d👧❤\ufe0f👍🏽🇩🇪\U000e0041क\u093e\u3164"
    "[bold red]x[/] [@click=app.quit]y[/][/][$x]"
)  # fmt: skip
HARMLESS: Final = one_line(EVIL)
FILE_NAME: Final = "web\x1b]0;pwned\x07\x1b[2J日\u202e\udcff[red]x[@click=app.quit].yaml"
_KEPT: Final = frozenset(
    {
        "uid", "resourceVersion", "phase", "status", "type", "kind", "apiVersion", "restartPolicy",
        "verdict", "result", "last", "state", "operator", "namespace", "podNamespace", "version",
        "probe", "nodeName", "resource", "usage", "requests", "limits", "capacity", "allocatable",
        "protocol", "code", "verb", "imagePullPolicy", "frees", "timestamp", "window",
    }
)  # fmt: skip
"""Fields that affect the screen's behaviour, and quantities."""
_ADDRESSES: Final = frozenset(
    {"value", "args", "annotations", "addresses", "addressType", "clusterIP", "ip", "host", "path"}
)
"""Fields that must be well-formed for a Service to have URLs, endpoints and connections."""
_PLAIN: Final = re.compile(r"\d{4}-\d\d-\d\dT.*|[\d.]+|")
T = TypeVar("T")


def poisoned(thing: T, poison: str, kept: frozenset[str] = _KEPT) -> T:
    """Return a copy with ``poison`` appended to each text, except for the fields in ``kept``."""

    def walk(item: Any) -> Any:
        if isinstance(item, Enum):
            return item
        if isinstance(item, str):
            return item if _PLAIN.fullmatch(item) else item + poison
        if isinstance(item, msgspec.Struct):
            fields = {name: getattr(item, name) for name in item.__struct_fields__}
            new = {name: walk(value) for name, value in fields.items() if name not in kept}
            return msgspec.structs.replace(item, **new)
        if isinstance(item, Mapping):
            pairs = cast("Mapping[Any, Any]", item).items()
            return {key: walk(value) for key, value in pairs}
        if isinstance(item, tuple):
            return tuple(map(walk, cast("tuple[Any, ...]", item)))
        return item

    return walk(thing)


def probed() -> Pod:
    """Return a pod with everything: probes, labels, several containers, terminations."""
    made = pod(
        "rich",
        status("app", last=ended(1, "Error"), restarts=3),
        init=(status("first", ended(0)),),
        labels={"app": "rich", "tier": "web"},
        requests={"cpu": "100m", "memory": "32Mi"},
        message="a message",
    )
    probe = Probe(exec=ExecAction(command=("check", "me")), periodSeconds=7)
    app = msgspec.structs.replace(made.spec.containers[0], readinessProbe=probe)
    notes = {**made.metadata.annotations, "note": "text"}
    return msgspec.structs.replace(
        made,
        spec=msgspec.structs.replace(made.spec, containers=(app,)),
        metadata=msgspec.structs.replace(made.metadata, annotations=notes),
    )


def insight() -> PodInsight:
    made = picture_world.insight()
    start, before = made.starts
    failed = msgspec.structs.replace(start.steps[0], failed=True)
    start = msgspec.structs.replace(
        start, uid="uid-rich", cause="its sandbox changed", steps=(failed, *start.steps[1:])
    )
    probes = tuple(
        msgspec.structs.replace(one, container="app", running=True) for one in made.probes
    )
    return msgspec.structs.replace(
        made, starts=(start, before), probes=probes,
        unmeasured={"network": "it cannot be measured"},
    )  # fmt: skip


def plan() -> Plan:
    change = FieldChange(field="spec.containers[0].image", old="a:1", new="a:2", line=9,
                         effect="the container restarts")  # fmt: skip
    pods = tuple(
        PodPlan(outcome=outcome, namespace="default", name="web-n1", changes=(change,),
                restarts=("app",), rejection="it does not fit", grace=3)
        for outcome in PlanOutcome
    )  # fmt: skip
    conf = ObjectPlan(outcome=PlanOutcome.IN_PLACE, kind="ConfigMap", namespace="default",
                      name="conf", readers=("default/web-n1",))  # fmt: skip
    file = FilePlan(name="api.yaml", old=ManifestState.ACCEPTED, new=ManifestState.INVALID,
                    message="another has its name")  # fmt: skip
    wrong = Diagnostic(severity=Severity.WARNING, path="/m/web.yaml", code="Odd", line=3, column=9,
                       message="odd value", field="spec.x", fix="spec.y")  # fmt: skip
    return Plan(metadata=ObjectMeta(name="web.yaml"), path="/m/web.yaml", message="a message",
                diagnostics=(wrong,), pods=pods, objects=(conf,), files=(file,))  # fmt: skip


class World:
    """``poison`` is appended to every text; ``log_poison`` is its form in logs."""

    def __init__(self, poison: str, log_poison: bytes) -> None:
        self.poison = poison
        self.log = [
            b"2026-11-21T11:59:00.123456789Z " + line + log_poison
            for line in (b"one ", b'{"level":"error","msg":"x"} ', b"ERROR three ", b"")
        ]

    def poisoned(self, value: T) -> T:
        return poisoned(value, self.poison)

    def client(self) -> FakeClient:
        client = FakeClient()
        poison = self.poison
        words = _KEPT | {"reason", "message"}
        # Half of the pods keep the reasons and messages that identify causes.
        pods = [poisoned(one, poison, words if n % 2 else _KEPT) for n, one in enumerate(gallery())]
        rich = self.poisoned(probed())
        looping = poisoned(
            pod("loop", status("app", waiting("CrashLoopBackOff"), last=ended(1), restarts=4)),
            poison, words,
        )  # fmt: skip
        files = [*manifests(), manifest("rich.yaml", pod_name="rich-n1", text=BROKEN * 3)]
        node_record = node(ready=False)
        client.fill(
            (*pods, rich, looping),
            [self.poisoned(one) for one in (*events(), event("rich", "Odd", "words", seen=2))],
            [self.poisoned(one) for one in files],
            [self.poisoned(node_record)],
        )
        client.log_lines = dict.fromkeys(
            [s.name for one in (*pods, rich, looping) for s in one.status.containerStatuses],
            self.log,
        )
        client.usages = tuple(self.poisoned(usage(name, "85m", "96Mi")) for name in ("web", "rich"))
        client.node_use = NodeMetrics(
            metadata=ObjectMeta(name="n1"), timestamp=ago(seconds=1), window="10s",
            usage={"cpu": "410m", "memory": "2300Mi"},
        )  # fmt: skip
        client.verdict = self.poisoned(picture_world.REFUSED)
        client.answer_plan = self.poisoned(plan())
        client.image_list = tuple(map(self.poisoned, picture_world.images()))
        client.insights = {rich.metadata.name: self.poisoned(insight())}
        client.calls = tuple(map(self.poisoned, picture_world.calls()))
        client.served = poisoned(served(), poison, _KEPT | {"content"})
        client.served |= with_services(self._poisoned_shop).served
        return client

    def send_shop(self, client: FakeClient) -> None:
        """Send the objects of a shop to the screen that follows them next."""
        send_shop(client, self._poisoned_shop)

    def _poisoned_shop(self, item: T) -> T:
        return poisoned(item, self.poison, _KEPT | _ADDRESSES)

    def journal_entry(self) -> JournalEntry:
        return JournalEntry(0.0, "edit", f"mv 'a{self.poison}' b", f"web-n1{self.poison}")

    def forward(self, pod: Pod) -> RunningForward:
        return RunningForward(pod, Forwarded(8080, 80, f"refused{self.poison}"))  # type: ignore[arg-type]

    def fill_trash(self, folder: Path) -> None:
        """Move a file with a hostile name to the trash, as far as the disk accepts the name."""
        trash = folder / ".trash"
        trash.mkdir(parents=True)
        name = FILE_NAME if self.poison == EVIL else one_line(FILE_NAME)
        (trash / f"20261121T115900.000000Z~{name}").write_text("kind: Pod\n")


def hostile() -> World:
    return World(EVIL, EVIL.encode())


def harmless() -> World:
    """The visible text of the hostile world."""
    return World(HARMLESS, plain_text(EVIL.encode()).encode())
