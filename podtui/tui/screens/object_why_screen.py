"""The screen that explains an object that is no pod: a workload, a Service, a claim …"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from podtui.api.discovery import EndpointSlice
from podtui.api.local import Manifest
from podtui.api.networking import Ingress, IngressClass
from podtui.api.rbac import ClusterRole, ClusterRoleBinding, Role, RoleBinding
from podtui.api.storage import StorageClass
from podtui.api.v1 import ConfigMap, Endpoints, Namespace, Pod, Secret
from podtui.tui.commands.fix import apply_fix
from podtui.tui.commands.label_node import label_node, wanted_labels
from podtui.tui.model.connection_checks import ConnectionChecks
from podtui.tui.model.model import Changes
from podtui.tui.model.objects import FollowedObjects
from podtui.tui.screens.live_screen import BackScreen
from podtui.tui.views.why import WhyView, health_text, inventory_of, why_lines
from podtui.tui.widgets.bars import Bar, Hints
from podtui.tui.widgets.cells import Line, Span
from podtui.tui.widgets.prompt import Prompt
from podtui.tui.widgets.sanitize import clean
from podtui.tui.widgets.tones import LinesView
from podtui.why import Diagnosis, Fix
from podtui.why.documents import manifest_of
from podtui.why.inventory import NOUNS, Noun
from podtui.why.objects import diagnose_object, find_objects

FOLLOWED: Final[tuple[type[Any], ...]] = (
    *(noun.struct for noun in NOUNS if noun.struct is not Pod),
    Endpoints, EndpointSlice, IngressClass, ConfigMap, Namespace, StorageClass,
    Role, RoleBinding, ClusterRole, ClusterRoleBinding,
)  # fmt: skip


class ObjectWhyScreen(BackScreen):
    """Found by kind, namespace and name, so that the screen follows the object when it is created
    again. Without a namespace, it is ``default``, or any other if there is no such object."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "apply", "Apply the fix", id="why.apply-object",
                tooltip="Show the plan of the fix, then apply it to the file"),
        Binding("L", "label_node", "Label the node", id="why.label-node",
                tooltip="Label the node, so that the pod fits its selector and affinity"),
    ]  # fmt: skip
    DEFAULT_CSS = """
    ObjectWhyScreen #why-text { height: 1fr; border: round $pane-border-focus; padding: 0 1;
        border-title-color: $pane-title-focus; background: $background; }
    """
    AUTO_FOCUS = "#why-text"
    FIRST_HINTS: ClassVar[frozenset[str]] = frozenset({"why.apply-object", "why.label-node"})

    def __init__(self, noun: Noun, name: str, namespace: str = "") -> None:
        super().__init__()
        self._noun = noun
        self._name_ = name
        self._namespace_ = namespace
        self._objects = FollowedObjects(FOLLOWED)
        self._diagnosis: Diagnosis | None = None
        self._manifest: Manifest | None = None
        self._checks = ConnectionChecks(lambda: self.session.now())

    def compose(self) -> ComposeResult:
        if self._noun.struct is Ingress and not self.session.model.server.is_cluster:
            # Of Secrets, only the certificates of an Ingress need to be known.
            self._objects = FollowedObjects((*FOLLOWED, Secret))
        yield Bar(id="header")
        yield LinesView(id="why-text")
        yield Hints()
        yield Prompt()

    def begin(self) -> None:
        follow = partial(self._objects.run, self.session.client, self._draw_now)
        self.run_worker(follow, group="why-objects", exclusive=True)

    def publish(self, changes: Changes, now: float) -> None:
        self._draw(now)

    def on_resize(self) -> None:
        self.call_after_refresh(self._draw_now)

    def _draw_now(self) -> None:
        self._draw(self.session.now())

    def _draw(self, now: float) -> None:
        if not self.shown:
            return
        view = self.query_one("#why-text", LinesView)
        inventory = inventory_of(self.session.model, self._objects.read, now, self._checks)
        items = find_objects(inventory, self._noun, self._name_, self._namespace_)
        self._diagnosis = diagnose_object(inventory, items[0]) if items else None
        self._manifest = manifest_of(inventory, items[0]) if items else None
        if self._diagnosis is None:
            self._header((), (Span("does not exist" if self._is_known else "…", "muted"),))
            view.show([])
        else:
            self._header(items, health_text(self._diagnosis, None))
            shown = WhyView(self._diagnosis, self._manifest, now, readonly=self.session.readonly)
            view.show(why_lines(shown, view.size.width - 1))
        self.refresh_bindings()
        if self._checks.is_due:
            ask = partial(self._checks.ask, self.session.client, self._draw_now)
            self.run_worker(ask, group="why-connections")

    @property
    def _is_known(self) -> bool:
        return self._objects.read(self._noun.struct) is not None or self._objects.is_complete

    def _header(self, items: Sequence[Any], state: Line) -> None:
        namespace = items[0].metadata.namespace if items else self._namespace_
        where = f"{namespace}/" if namespace not in ("", "default") else ""
        label = clean(f"{where}{self._noun.shown}/{self._name_}")
        self.query_one("#header", Bar).show(
            (Span(" why ", "brand"), Span(f" {label} ", "name"), *state)
        )

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "label_node":
            if not wanted_labels(self._diagnosis) or self.session.model.node is None:
                return False
            return True if self.session.changes_objects else None
        if action == "apply":
            if self._fix is None:
                return False
            return None if self.session.readonly else True
        return super().check_action(action, parameters)

    @property
    def _fix(self) -> Fix | None:
        """The fix that is shown, if it can be applied to a file."""
        fixes = self._diagnosis.fixes if self._diagnosis is not None else ()
        return fixes[0] if fixes and fixes[0].edits and self._manifest is not None else None

    def action_apply(self) -> None:
        """Ask with the plan of the fix, and write it into the file."""
        fix, manifest = self._fix, self._manifest
        if fix is None or manifest is None:
            return

        async def apply() -> None:
            await apply_fix(self.session, manifest, fix)

        self.session.start("Fix", apply)

    def action_label_node(self) -> None:
        labels, node = wanted_labels(self._diagnosis), self.session.model.node
        if labels and node is not None:
            name = node.metadata.name
            self.session.start("Label", partial(label_node, self.session, name, labels, None, ""))
