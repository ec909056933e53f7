"""Edit an object of any kind as text in the user's editor."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from podtui.api.v1 import ObjectMeta
from podtui.client.any_kind import ServedKind
from podtui.errors import ApiError
from podtui.tui.commands.edit_manifest import (
    AGAIN,
    APPLY,
    DISCARD,
    DISCARD_DRAFT,
    EDIT_AGAIN,
    KEEP_DRAFT,
    edited_text,
)
from podtui.tui.commands.edit_record import refusal_dialog
from podtui.tui.commands.objects import object_label, plan_diff, record, report, send_patch
from podtui.tui.commands.session import Draft, ObjectChange, Session
from podtui.tui.views.objects.content import manifest_of, merge_patch
from podtui.tui.views.yaml_text import yaml_text
from podtui.tui.widgets.dialogs import Dialog, Option


async def edit_object(session: Session, kind: ServedKind, meta: ObjectMeta) -> None:
    """Edit an object, show what the server makes of the change, and apply it.

    Only the fields that the user changed are sent, so that changes by others stay. A text that is
    not applied is kept as a draft. Raises `ApiError`,
    `podtui.tui.commands.terminal.ProgramFailed`.
    """
    client, label = session.client, object_label(kind, meta)
    name = f"{meta.name}.yaml"
    key = Path(kind.qualified_name, meta.namespace, name)
    item = await client.get_object(kind, meta.namespace, meta.name)
    begin = manifest_of(item.content)
    base = text = yaml_text(begin).encode()
    draft = session.drafts.get(key)
    if draft is not None and draft.base == base:
        text = draft.text
        session.notify("Reopened your unsaved draft.", title=label)
    while True:
        text = await edited_text(session, name, text)
        if text == base:
            session.drafts.pop(key, None)
            session.notify("Nothing was changed.", title=label)
            return
        session.drafts[key] = Draft(base, text)
        try:
            patch = merge_patch(begin, _document(text, begin))
            change = ObjectChange(kind, item.metadata, patch, {}, "edited")
            after = manifest_of((await send_patch(session, change, dry_run=True)).content)
        except (ApiError, yaml.YAMLError, _NotTheObject) as error:
            answer = await session.ask(refusal_dialog(name, str(error), KEEP_DRAFT))
        else:
            current = await client.get_object(kind, meta.namespace, meta.name)
            before = manifest_of(current.content)
            answer = await session.ask(change_dialog(label, before, after))
            if answer == APPLY:
                done = await send_patch(session, change)
                reverse = merge_patch(manifest_of(done.content), before)
                change = ObjectChange(kind, done.metadata, patch, reverse, "edited")
                record(session, kind, meta, ["edit", f"{kind.qualified_name}/{meta.name}"])
                if reverse and not session.model.server.is_cluster:
                    session.undoable.append(change)
                del session.drafts[key]
                report(session, change, "edited")
                return
        if answer == DISCARD:
            del session.drafts[key]
            session.notify("Draft discarded; nothing was changed.", title=label)
            return
        if answer != AGAIN:
            session.notify("Nothing was changed; e reopens your draft.", title=label)
            return


class _NotTheObject(ValueError):
    """Raised for a text that is not the object that was opened."""


def _document(text: bytes, begin: Mapping[str, Any]) -> dict[str, Any]:
    """Parse an edited text. Raises `yaml.YAMLError`, `_NotTheObject`."""
    document: Any = yaml.safe_load(text)
    if not isinstance(document, dict) or not isinstance(document.get("metadata"), dict):  # pyright: ignore[reportUnknownMemberType]
        raise _NotTheObject("the text is not an object with metadata")
    for path in (("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace")):
        was: Any = begin
        now: Any = document  # pyright: ignore[reportUnknownVariableType]
        for part in path:
            was, now = was.get(part), now.get(part)
        if was != now:
            raise _NotTheObject(f"{'.'.join(path)} cannot be changed from {was} to {now}")
    return document  # pyright: ignore[reportUnknownVariableType]


def change_dialog(label: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Dialog:
    """Return the dialog with what the server makes of an edit."""
    lines = plan_diff(before, after)
    options = (KEEP_DRAFT, EDIT_AGAIN, DISCARD_DRAFT, Option(APPLY, "Apply", "y", danger=True))
    return Dialog(f"Change {label}", lines, options)
