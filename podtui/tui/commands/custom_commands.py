"""Parser of the user's custom commands in the settings. An invalid command is reported with its
position; the others apply.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from podtui.api.pods import all_containers, container_names, container_statuses
from podtui.api.v1 import Pod
from podtui.errors import PodtuiError
from podtui.settings import parse_duration
from podtui.text.expansion import expand, expand_by
from podtui.tui.model.model import pod_key
from podtui.tui.views.labels import pod_label
from podtui.tui.views.logs.target import default_container
from podtui.tui.widgets.key_names import KeyNameError, key_list
from podtui.tui.widgets.sanitize import clean

SUBJECTS: Final = ("pod", "container", "manifest", "image", "node", "always")
MODES: Final = ("terminal", "output", "background")
FIELDS: Final = (
    "name", "key", "description", "for", "command", "mode", "confirm", "dangerous", "timeout",
)  # fmt: skip
DEFAULT_SECONDS: Final = 60.0

_ALWAYS: Final = frozenset({"NODE", "ROOT_DIR", "SOCKET", "CONTEXT", "LINE"})
_POD: Final = _ALWAYS | {"POD_NAME", "NAMESPACE", "UID", "IP", "MANIFEST"}
_CONTAINER: Final = _POD | {"CONTAINER", "CONTAINER_ID", "IMAGE"}
VALUES: Final[Mapping[str, frozenset[str]]] = {
    "pod": _POD,
    "container": _CONTAINER,
    "manifest": _ALWAYS | {"MANIFEST"},
    "image": _ALWAYS | {"IMAGE"},
    "node": _ALWAYS,
    "always": _ALWAYS,
}
"""The available values by subject; some of them may be absent at run time."""
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,28}[a-z0-9])?")
_OURS: Final = re.compile(r"[A-Z][A-Z0-9_]*")
"""A ``$(NAME)`` that stands for a value of podtui; any other is kept unchanged, as in a Pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomCommand:
    """A custom command.

    ``command`` is a program and its arguments, with ``$(NAME)`` not yet expanded. ``subject`` is
    the kind of object it runs on, one of `SUBJECTS`. ``timeout`` is in seconds, 0 for none.
    ``keys`` are Textual's key names.
    """

    name: str
    command: tuple[str, ...]
    keys: tuple[str, ...] = ()
    description: str = ""
    subject: str = "pod"
    mode: str = "terminal"
    confirm: bool = False
    dangerous: bool = False
    timeout: float = DEFAULT_SECONDS
    number: int = 0
    """The index in the settings' list."""

    @property
    def id(self) -> str:
        """The ID of the command's binding."""
        return f"own.{self.name}"

    @property
    def summary(self) -> str:
        """The description of the command in lists."""
        return self.description or " ".join(self.command)

    @property
    def needed(self) -> frozenset[str]:
        """The names of the values that the command needs to run."""
        return references(self.command) & VALUES[self.subject]


@dataclass(slots=True)
class _Problems:
    places: Mapping[str, str]
    problems: list[str] = field(default_factory=list[str])

    def add(self, name: str, text: str) -> None:
        position = self.places.get(name) or self.places.get(name.partition(".")[0], "settings")
        self.problems.append(f"{position}: {name}: {text}")


class _InvalidValue(ValueError):
    """Raised for an invalid value of a field."""


def read_commands(
    entries: Sequence[object], places: Mapping[str, str], taken: Collection[str] = ()
) -> tuple[tuple[CustomCommand, ...], tuple[str, ...]]:
    """Return the valid commands, and the problems of the others.

    A problem is ``FILE:LINE:COLUMN: commands[0].field: problem``. ``taken`` are reserved names. An
    invalid key is reported, but its command is kept.
    """
    problems = _Problems(places)
    valid: dict[str, CustomCommand] = {}
    for number, entry in enumerate(entries):
        command = _read(entry, number, problems)
        if command is None:
            continue
        if command.name in taken or command.name in valid:
            whose = "another custom command" if command.name in valid else "a built-in command"
            problems.add(f"commands[{number}].name", f":{command.name} is already {whose}")
        else:
            valid[command.name] = command
    return tuple(valid.values()), tuple(problems.problems)


def _read(entry: object, number: int, problems: _Problems) -> CustomCommand | None:
    name = f"commands[{number}]"
    if not isinstance(entry, dict):
        problems.add(name, "must be a map with name and command")
        return None
    fields = cast(dict[str, object], entry)
    before = len(problems.problems)
    for each in fields:
        if each not in FIELDS:
            near = difflib.get_close_matches(each, FIELDS, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; the fields are {', '.join(FIELDS)}"
            problems.add(f"{name}.{each}", f"no such field{hint}")
    for each in ("name", "command"):
        if each not in fields:
            problems.add(name, f"{each} is missing")
    parsed: dict[str, Any] = {}
    for each, value in fields.items():
        if each in _PARSERS:
            try:
                parsed[each] = _PARSERS[each](value)
            except (_InvalidValue, ValueError) as error:
                problems.add(f"{name}.{each}", str(error))
    if len(problems.problems) > before:
        return None
    subject: str = parsed.pop("for", "pod")
    for text in _unknown_values(parsed["command"], subject):
        problems.add(f"{name}.command", text)
    if len(problems.problems) > before:
        return None
    keys = _keys(fields.get("key", ""), f"{name}.key", problems)
    return CustomCommand(subject=subject, keys=keys, number=number, **parsed)


def _keys(value: object, name: str, problems: _Problems) -> tuple[str, ...]:
    keys = cast(list[object], value) if isinstance(value, list) else [value]
    try:
        return key_list(",".join(map(str, keys)))
    except KeyNameError as error:
        problems.add(name, str(error))
        return ()


def references(tokens: Iterable[str]) -> frozenset[str]:
    """Return the names in ``$(NAME)`` that stand for podtui's values."""
    names: set[str] = set()

    def note(name: str) -> str:
        if _OURS.fullmatch(name):
            names.add(name)
        return ""

    for token in tokens:
        expand_by(token, note)
    return frozenset(names)


def _unknown_values(tokens: Sequence[str], subject: str) -> list[str]:
    names = VALUES[subject]
    problems: list[str] = []
    for name in sorted(references(tokens) - names):
        where = [each for each in SUBJECTS if name in VALUES[each]]
        near = difflib.get_close_matches(name, sorted(names), n=1)
        if where:
            problems.append(
                f"$({name}) is not available for {subject}, only for {' or '.join(where)}"
            )
            continue
        literal = f"; use $$({name}) for a literal $({name})"
        hint = f"; did you mean $({near[0]})?" if near else literal
        problems.append(f"there is no $({name}){hint}")
    return problems


# --- the fields


def _name(value: object) -> str:
    if isinstance(value, str) and _NAME.fullmatch(value):
        return value
    raise _InvalidValue("must be at most 30 lower-case letters, digits and '-'")


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise _InvalidValue("must be a string")


def _words(value: object) -> tuple[str, ...]:
    items = cast(list[object], value) if isinstance(value, list) else []
    if not items or not all(isinstance(item, str) for item in items) or not items[0]:
        raise _InvalidValue(
            "must be a list such as [trivy, image, $(IMAGE)]; it is run without a shell"
        )
    texts = tuple(cast(list[str], items))
    if any("\0" in text for text in texts):
        raise _InvalidValue("an argument must not contain a NUL character")
    return texts


def _one_of(value: object, choices: Sequence[str]) -> str:
    if isinstance(value, str) and value in choices:
        return value
    raise _InvalidValue(f"must be one of {', '.join(choices)}")


def _boolean(value: object) -> bool:
    booleans = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
    if isinstance(value, str) and value.lower() in booleans:
        return booleans[value.lower()]
    raise _InvalidValue("must be true or false")


def _seconds(value: object) -> float:
    if isinstance(value, str):
        return parse_duration(value)
    raise _InvalidValue("must be a duration such as 60s, or 0 for none")


_PARSERS: Final[Mapping[str, Callable[[object], Any]]] = {
    "name": _name,
    "command": _words,
    "description": _text,
    "for": lambda value: _one_of(value, SUBJECTS),
    "mode": lambda value: _one_of(value, MODES),
    "confirm": _boolean,
    "dangerous": _boolean,
    "timeout": _seconds,
}


_ABSENT: Final = {
    "NODE": "the node is not known yet",
    "ROOT_DIR": "a cluster has no root directory",
    "SOCKET": "a cluster has no socket",
    "CONTEXT": "this is not a kubeconfig context",
    "LINE": "no log line is selected; focus the log first",
    "IP": "{what} has no IP yet",
    "MANIFEST": "no manifest file found for {what}",
    "UID": "{what} has no UID",
    "CONTAINER_ID": "{what} has not started",
    "IMAGE": "{what} has no image",
}


class NotOffered(PodtuiError):
    """Raised if a command cannot run on the current selection; the text says why."""


@dataclass(frozen=True, slots=True)
class CommandTarget:
    """One target of a command. ``label`` is its display name. An empty value is absent."""

    label: str
    values: Mapping[str, str]
    pod: str = ""
    """The pod's name, for the journal."""
    likely: bool = False
    """True if this target is preselected when the user chooses."""

    def arguments(self, command: CustomCommand) -> list[str]:
        """Return the command line with all values expanded."""
        return [expand(word, self.values) for word in command.command]

    def environment(self) -> dict[str, str]:
        """Return the environment variables ``PODTUI_POD_NAME`` and so on."""
        return {f"PODTUI_{name}": value for name, value in self.values.items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentSelection:
    """The current selection.

    ``manifests`` are paths; ``manifest_of`` maps pod keys to paths. ``container`` is the container
    of the focused log; ``common`` has the values available on every screen.
    """

    pods: tuple[Pod, ...] = ()
    manifests: tuple[str, ...] = ()
    manifest_of: Mapping[str, str] = field(default_factory=dict[str, str])
    image: str = ""
    container: str = ""
    common: Mapping[str, str] = field(default_factory=dict[str, str])


def find_targets(
    command: CustomCommand, here: CurrentSelection
) -> tuple[tuple[CommandTarget, ...], ...]:
    """Return the possible targets for each selected object. An object has more than one if the user
    must choose a container; they are in the order of the manifest. Raises `NotOffered`.
    """
    if command.subject in ("always", "node"):
        label = here.common.get("NODE", "") if command.subject == "node" else ""
        targets = ((CommandTarget(clean(label), here.common),),)
    elif command.subject == "manifest":
        targets = _of_manifests(here)
    elif command.subject == "image" and here.image:
        targets = ((CommandTarget(clean(here.image), {**here.common, "IMAGE": here.image}),),)
    else:
        targets = tuple(_of_pod(command, pod, here) for pod in here.pods)
    if not targets:
        what = "image" if command.subject == "image" else "pod"
        raise NotOffered(f"no {what} is selected")
    if command.subject == "node" and not here.common.get("NODE"):
        raise NotOffered(_ABSENT["NODE"])
    return tuple(_complete(command, ways) for ways in targets)


def _complete(command: CustomCommand, ways: tuple[CommandTarget, ...]) -> tuple[CommandTarget, ...]:
    """Return the targets that have all required values. Raises `NotOffered` if there are none."""
    whole = tuple(way for way in ways if all(way.values.get(name) for name in command.needed))
    if whole:
        return whole
    missing = next(n for n in sorted(command.needed) if not ways[0].values.get(n))
    reason = _ABSENT.get(missing, "{what} has no " + missing)
    raise NotOffered(reason.format(what=ways[0].label or "it"))


def _of_manifests(here: CurrentSelection) -> tuple[tuple[CommandTarget, ...], ...]:
    if not here.manifests and here.pods:
        label = pod_label(here.pods[0])
        raise NotOffered(_ABSENT["MANIFEST"].format(what=label))
    if not here.manifests:
        raise NotOffered("no manifest is selected")
    return tuple(
        (CommandTarget(clean(path.rpartition("/")[2]), {**here.common, "MANIFEST": path}),)
        for path in here.manifests
    )


def _of_pod(command: CustomCommand, pod: Pod, here: CurrentSelection) -> tuple[CommandTarget, ...]:
    meta = pod.metadata
    values = {
        **here.common,
        "POD_NAME": meta.name,
        "NAMESPACE": meta.namespace,
        "UID": meta.uid,
        "IP": pod.status.podIP,
        "NODE": pod.spec.nodeName or here.common.get("NODE", ""),
        "MANIFEST": here.manifest_of.get(pod_key(pod), ""),
    }
    if command.subject == "pod":
        return (CommandTarget(pod_label(pod), values, meta.name),)
    names = container_names(pod)
    likely = here.container or default_container(pod)
    if here.container or len(here.pods) > 1:
        names = [name for name in names if name == likely] or names[:1]
    ways = [_of_container(pod, name, values, likely=name == likely) for name in names]
    if command.subject == "image":
        # List each image once, independent of the containers that use it.
        ways = list({way.values["IMAGE"]: way for way in reversed(ways)}.values())[::-1]
        ways = [replace(way, label=clean(way.values["IMAGE"])) for way in ways]
    if not ways:
        raise NotOffered(f"{pod_label(pod)} has no container")
    return tuple(ways)


def _of_container(pod: Pod, name: str, values: Mapping[str, str], *, likely: bool) -> CommandTarget:
    image = next(
        (container.image for _, container in all_containers(pod) if container.name == name), ""
    )
    status = next((status for status in container_statuses(pod) if status.name == name), None)
    identity = status.containerID if status is not None else ""
    more = {
        "CONTAINER": name,
        "CONTAINER_ID": (identity or "").rpartition("//")[2],
        "IMAGE": image,
    }
    label = f"{clean(name)} of {pod_label(pod)}"
    return CommandTarget(label, {**values, **more}, pod.metadata.name, likely)


@dataclass(frozen=True, slots=True)
class Hotkey:
    """A key for a command line: ``line`` is run as if typed after ``:``."""

    written: str
    keys: tuple[str, ...]
    line: str

    @property
    def id(self) -> str:
        return f"hotkey.{self.written}"
