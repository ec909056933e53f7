"""A broken rule at one field, in the wording of the API server."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from podtui.api import batch, networking, policy, rbac, v1

REQUIRED: Final = "FieldValueRequired"
INVALID: Final = "FieldValueInvalid"
NOT_SUPPORTED: Final = "FieldValueNotSupported"
FORBIDDEN: Final = "FieldValueForbidden"
DUPLICATE: Final = "FieldValueDuplicate"
TOO_LONG: Final = "FieldValueTooLong"
TOO_MANY: Final = "FieldValueTooMany"
NOT_FOUND: Final = "FieldValueNotFound"

_TITLES: Final = {
    REQUIRED: "Required value",
    INVALID: "Invalid value",
    NOT_SUPPORTED: "Unsupported value",
    FORBIDDEN: "Forbidden",
    DUPLICATE: "Duplicate value",
    TOO_LONG: "Too long",
    TOO_MANY: "Too many",
    NOT_FOUND: "Not found",
}
_WITHOUT_VALUE: Final = frozenset({REQUIRED, FORBIDDEN, TOO_LONG})
_ESCAPES: Final = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}
# Go escapes these characters, although JSON does not require it.
_HTML: Final = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"})
_GO_FIELDS: Final[Mapping[type[v1.Struct], str]] = {
    v1.SecurityContext: "Capabilities* Privileged* SELinuxOptions* WindowsOptions* RunAsUser*"
    " RunAsGroup* RunAsNonRoot* ReadOnlyRootFilesystem* AllowPrivilegeEscalation* ProcMount*"
    " SeccompProfile* AppArmorProfile*",
    v1.Capabilities: "Add* Drop*",
    v1.SELinuxOptions: "User Role Type Level",
    v1.WindowsSecurityContextOptions: "GMSACredentialSpecName* GMSACredentialSpec* RunAsUserName*"
    " HostProcess*",
    v1.SeccompProfile: "Type LocalhostProfile*",
    v1.AppArmorProfile: "Type LocalhostProfile*",
    v1.PodResourceClaim: "Name ResourceClaimName* ResourceClaimTemplateName*",
    v1.ClusterTrustBundleProjection: "Name* SignerName* LabelSelector* Optional* Path",
    v1.Taint: "Key Value Effect TimeAdded*",
    v1.NodeAddress: "Type Address",
    v1.ServicePort: "Name Protocol AppProtocol* Port TargetPort NodePort",
    networking.ParentReference: "Group Resource Namespace Name",
    networking.ServiceCIDRSpec: "CIDRs*",
    policy.PodDisruptionBudgetSpec: "MinAvailable* Selector* MaxUnavailable*"
    " UnhealthyPodEvictionPolicy*",
    batch.SuccessPolicy: "Rules",
    batch.SuccessPolicyRule: "SucceededIndexes* SucceededCount*",
    batch.PodFailurePolicy: "Rules",
    batch.PodFailurePolicyRule: "Action OnExitCodes* OnPodConditions*",
    batch.PodFailurePolicyOnExitCodesRequirement: "ContainerName* Operator Values*",
    batch.PodFailurePolicyOnPodConditionsPattern: "Type Status",
    batch.UncountedTerminatedPods: "Succeeded* Failed*",
    v1.LabelSelector: "matchLabels matchExpressions",
    v1.LabelSelectorRequirement: "key! operator! values",
    rbac.RoleRef: "APIGroup Kind Name",
    v1.ScopeSelector: "MatchExpressions*",
    v1.ScopedResourceSelectorRequirement: "ScopeName Operator Values*",
    v1.OwnerReference: "apiVersion! kind! name! uid! controller blockOwnerDeletion",
}
"""The fields of objects as Go prints them, in order.

Go prints an object of the API server's internal types with all fields, under their Go names, and
null for an unset pointer or list (``*``). Of other objects it prints the fields that are set, and a
few always (``!``).
"""


class _Omitted:
    """The type of `OMITTED`."""

    __slots__ = ()


OMITTED: Final = _Omitted()
"""The value of an error whose message does not show the value."""


class GoText(str):
    """A string of a named Go type (an enum), which messages print as JSON."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class FieldError:
    """A rule that a pod breaks.

    ``path`` is the field in the API server's notation: ``spec.containers[0].image``, map entries as
    ``resources.limits[cpu]``. If the API server's path is vague or wrong, ``at`` is the exact path;
    see `location`. ``value`` is the offending value, or None.
    """

    path: str
    type: str
    detail: str
    value: object | None = None
    at: str = ""
    existing: tuple[str, ...] | None = None
    """For a reference that does not exist: the names that do."""

    @property
    def location(self) -> str:
        """The path in the manifest of the offending field, or of the object that lacks it."""
        return self.at or self.path

    def body(self) -> str:
        """Return the message without the path. Safe for a terminal, as `message`."""
        return self._body(shown(self.detail))

    def raw_body(self) -> str:
        """Return the message without the path, as the API server writes it: with line breaks."""
        return self._body(self.detail)

    def _body(self, detail: str) -> str:
        text = _TITLES.get(self.type, self.type)
        if self.type not in _WITHOUT_VALUE and self.value is not OMITTED:
            text += f": {printed(self.value)}"
        return f"{text}: {detail}" if detail else text

    def message(self) -> str:
        """Return the whole message, for instance ``spec.containers[0].image: Required value``.

        Safe for a terminal: non-printable characters are escaped.
        """
        return f"{shown(self.path)}: {self.body()}"


Errors = Iterator[FieldError]


def shown(text: str) -> str:
    """Escape all non-printable characters."""
    return text if text.isprintable() else "".join(map(_printing, text))


def quoted(text: str) -> str:
    """Put a text in double quotes, with quotes and non-printable characters escaped."""
    return '"' + shown(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def _printing(char: str) -> str:
    code = ord(char)
    if char.isprintable():
        return char
    if char in _ESCAPES:
        return _ESCAPES[char]
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def printed(value: object) -> str:
    """Format a value for a message: strings quoted, all else as Go's JSON."""
    if isinstance(value, str) and not isinstance(value, GoText):
        return quoted(value)
    return shown(_json(value))


def _json(value: object) -> str:
    if isinstance(value, v1.Struct):
        pairs = _go_pairs(value)
        return "{" + ",".join(f"{_json(name)}:{_json(item)}" for name, item in pairs) + "}"
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value).items()
        return "{" + ",".join(f"{_json(key)}:{_json(item)}" for key, item in entries) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(_json(item) for item in cast("list[Any]", value)) + "]"
    return json.dumps(value, ensure_ascii=False).translate(_HTML)


def _go_pairs(value: v1.Struct) -> Iterator[tuple[str, object]]:
    by_name = {name.lower(): name for name in value.__struct_fields__}
    for field in _GO_FIELDS.get(type(value), " ".join(value.__struct_fields__)).split():
        name = field.rstrip("*!")
        field_value: object = getattr(value, by_name[name.lower()])
        if isinstance(field_value, dict):
            field_value = dict(sorted(cast("dict[str, Any]", field_value).items()))
        unset = field_value is None or field_value in ("", (), {})
        if field.endswith("*"):
            yield name, None if unset else field_value
        elif name[0].isupper() or field.endswith("!") or not unset:
            yield name, field_value


def required(path: str, detail: str = "", *, at: str = "") -> FieldError:
    return FieldError(path, REQUIRED, detail, None, at)


def invalid(path: str, value: object, detail: str, *, at: str = "") -> FieldError:
    return FieldError(path, INVALID, detail, value, at)


def not_supported(
    path: str, value: object, supported: Sequence[str], *, at: str = "", plain: bool = False
) -> FieldError:
    """``supported`` is listed in the given order. ``plain``: the field is not an enum in Go."""
    if isinstance(value, str) and not plain:
        value = GoText(value)
    detail = "supported values: " + ", ".join(quoted(text) for text in supported)
    return FieldError(path, NOT_SUPPORTED, detail, value, at)


def forbidden(path: str, detail: str, *, at: str = "") -> FieldError:
    return FieldError(path, FORBIDDEN, detail, None, at)


def duplicate(path: str, value: object, *, at: str = "") -> FieldError:
    return FieldError(path, DUPLICATE, "", value, at)


def not_found(
    path: str, value: object, names: Iterable[str], detail: str = "", *, at: str = ""
) -> FieldError:
    """``names`` are the valid names."""
    return FieldError(path, NOT_FOUND, detail, value, at, tuple(names))


def too_long(path: str, limit: int, *, at: str = "") -> FieldError:
    """``limit`` is in bytes."""
    return FieldError(path, TOO_LONG, f"may not be more than {limit} bytes", None, at)


def too_many(path: str, count: int, limit: int, *, at: str = "") -> FieldError:
    return FieldError(path, TOO_MANY, f"must have at most {limit} items", count, at)


def invalid_each(path: str, value: object, problems: Iterable[str], *, at: str = "") -> Errors:
    """Yield one error for each problem of the value."""
    for problem in problems:
        yield invalid(path, value, problem, at=at)


def reported_at(errors: Iterable[FieldError], real: str, shown_as: str) -> Errors:
    """Report the errors under ``real`` with the path ``shown_as``, as the API server does."""
    for error in errors:
        if real != shown_as and error.path.startswith(real):
            path = shown_as + error.path[len(real) :]
            yield replace(error, path=path, at=error.location)
        else:
            yield error
