"""The base of screens with objects to act on: the keys of the actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.actions import parse
from textual.binding import Binding, BindingType

from podtui.api.v1 import ObjectMeta
from podtui.client.any_kind import ServedKind
from podtui.tui.commands.object_actions import OBJECT_ACTIONS, run_action
from podtui.tui.commands.objects import object_label
from podtui.tui.screens.live_screen import BackScreen
from podtui.tui.screens.object_why_screen import ObjectWhyScreen
from podtui.why.inventory import find_noun


class ObjectsScreen(BackScreen):
    """A screen with objects of one kind. Subclasses define the selection."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(action.key, f"object('{action.name}')", action.title, id=action.id,
                    tooltip=action.help)
            for action in OBJECT_ACTIONS.values()
        ),
        Binding("X", "why", "Why", id="object.why",
                tooltip="Why the object is not as desired, and how to fix it"),
        Binding("u", "app.undo", "Undo", show=False, id="object.undo",
                tooltip="Undo the last change of an object, or the last delete"),
    ]  # fmt: skip

    def __init__(self, kind: ServedKind) -> None:
        super().__init__()
        self.kind = kind

    def chosen_objects(self) -> Sequence[ObjectMeta]:
        """Return the metadata of the objects to act on."""
        return ()

    def clear_marks(self) -> None:
        """Clear the marks after an action on the marked objects."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "object":
            if not OBJECT_ACTIONS[str(parameters[0])].applies(self.kind):
                return False
            if not self.session.changes_objects and OBJECT_ACTIONS[str(parameters[0])].writes:
                return None  # disabled: the app refuses its key
        if action == "why":
            return find_noun(self.kind.qualified_name) is not None
        return super().check_action(action, parameters)

    def has_target(self, action: str) -> bool:
        if parse(action)[1] in ("object", "why"):
            return bool(self.chosen_objects())
        return super().has_target(action)

    @property
    def menu_title(self) -> str:
        metas = self.chosen_objects()
        if len(metas) == 1:
            return object_label(self.kind, metas[0])
        return f"{len(metas)} {self.kind.plural}" if metas else super().menu_title

    def action_why(self) -> None:
        """Explain the object."""
        noun, metas = find_noun(self.kind.qualified_name), self.chosen_objects()
        if noun is not None and metas:
            self.session.push(ObjectWhyScreen(noun, metas[0].name, metas[0].namespace))

    def action_object(self, name: str) -> None:
        """Run one of `OBJECT_ACTIONS` on the selection."""
        run_action(self.session, name, self.kind, self.chosen_objects(), self.clear_marks)
