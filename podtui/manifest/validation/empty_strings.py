"""Rules for empty strings and lists that are written explicitly, where the API distinguishes them
from absent ones.

A Pod object has the same value for both, so that these rules check the decoded tree before it is
converted. Fields for which only the wording would differ, or that a static pod may not use, are
left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

from podtui.api import v1
from podtui.api.shape import Form, Shape, fields
from podtui.manifest.validation import formats, handlers, mounts, restarts, security, volumes
from podtui.manifest.validation.errors import (
    Errors,
    FieldError,
    forbidden,
    invalid,
    invalid_each,
    not_supported,
    required,
)

Tree = Mapping[str, Any]
Rule = Callable[[str, Tree, Tree], Errors]
"""Called with the path of the empty field, the object that contains it, and the pod's spec."""


def written_empties(tree: Tree) -> list[FieldError]:
    """Return the API's errors for the empty values in a decoded Pod (kubelet.md §1.4)."""
    spec = cast(Tree, tree.get("spec", {}))
    return [
        error
        for struct, path, tree in _objects(spec, v1.PodSpec, "spec")
        for field, value in tree.items()
        if value in ("", []) and (rule := _RULES.get((struct.__name__, field))) is not None
        for error in rule(f"{path}.{field}", tree, spec)
    ]


def _objects(
    tree: Tree, struct: type[v1.Struct], path: str
) -> Iterator[tuple[type[v1.Struct], str, Tree]]:
    """Yield an object and all objects inside it, each with its type and its path."""
    yield struct, path, tree
    members = fields(struct)
    for name, value in tree.items():
        shape = members[name].shape
        if isinstance(value, dict) and shape.struct is not None:
            yield from _objects(cast(Tree, value), shape.struct, f"{path}.{name}")
        elif isinstance(value, list) and shape.form is Form.LIST:
            yield from _items(cast("list[Any]", value), shape, f"{path}.{name}")


def _items(
    entries: list[Any], shape: Shape, path: str
) -> Iterator[tuple[type[v1.Struct], str, Tree]]:
    struct = shape.item.struct if shape.item is not None else None
    if struct is not None:
        for index, entry in enumerate(entries):
            yield from _objects(entry, struct, f"{path}[{index}]")


def _one_of(choices: tuple[str, ...]) -> Rule:
    def rule(path: str, holder: Tree, spec: Tree) -> Errors:
        yield not_supported(path, "", choices)

    return rule


def _mount_option(choices: tuple[str, ...]) -> Rule:
    def rule(path: str, holder: Tree, spec: Tree) -> Errors:
        # The API server omits the mount's index.
        parent, _, field = path.rpartition(".")
        yield not_supported(f"{parent[: parent.rindex('[')]}.{field}", "", choices, at=path)

    return rule


def _propagation(path: str, holder: Tree, spec: Tree) -> Errors:
    yield from _mount_option(mounts.PROPAGATIONS)(path, holder, spec)
    if holder.get("recursiveReadOnly") in ("Enabled", "IfPossible"):
        mount = path.rpartition(".")[0]
        shown_as = f"{mount[: mount.rindex('[')]}.recursiveReadOnly"
        yield forbidden(shown_as, mounts.NO_PROPAGATION, at=f"{mount}.recursiveReadOnly")


def _bad(why: str) -> Rule:
    def rule(path: str, holder: Tree, spec: Tree) -> Errors:
        yield invalid(path, "", why)

    return rule


def _name(path: str, holder: Tree, spec: Tree) -> Errors:
    yield from invalid_each(path, "", formats.dns_subdomain(""))


def _required(path: str, holder: Tree, spec: Tree) -> Errors:
    yield required(path)


def _hostname_override(path: str, holder: Tree, spec: Tree) -> Errors:
    if spec.get("setHostnameAsFQDN"):
        yield forbidden(path, "may not be specified when setHostnameAsFQDN is true")
    if spec.get("hostNetwork"):
        yield forbidden(path, "may not be specified when hostNetwork is true")
    yield from _name(path, holder, spec)


def _stop_signal(path: str, holder: Tree, spec: Tree) -> Errors:
    system = cast("Tree | None", spec.get("os"))
    yield from handlers.stop_signal("", path, None if system is None else system["name"])


def _apparmor_profile(path: str, holder: Tree, spec: Tree) -> Errors:
    if holder.get("type") in ("RuntimeDefault", "Unconfined"):
        yield invalid(path, "", "can only be set when AppArmor type is Localhost")


def _seccomp_profile(path: str, holder: Tree, spec: Tree) -> Errors:
    if holder.get("type") != "Localhost":
        profile = {"Type": holder.get("type", ""), "LocalhostProfile": ""}
        yield invalid(path, profile, "can only be set when seccomp type is Localhost")


def _initiator_name(path: str, holder: Tree, spec: Tree) -> Errors:
    shown_as = path.replace("initiatorName", "initiatorname")
    yield invalid(shown_as, "", "must be valid format starting with iqn, eui, or naa", at=path)


def _disk_kind(path: str, holder: Tree, spec: Tree) -> Errors:
    yield not_supported(path, "", volumes.DISK_KINDS)
    uri = holder.get("diskURI", "")
    if not uri.startswith("https://"):
        yield not_supported(f"{path.rpartition('.')[0]}.diskURI", uri, (volumes.BLOB_URI,))


def _claims(path: str, holder: Tree, spec: Tree) -> Errors:
    if holder is spec.get("resources"):
        yield forbidden(path, "claims may not be set for Resources at pod-level")


_RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("PodSpec", "hostnameOverride"): _hostname_override,
    ("PodSpec", "runtimeClassName"): _name,
    ("PodSpec", "preemptionPolicy"): _required,
    **{("PodSecurityContext", name): _one_of(choices) for name, choices in security.POLICIES},
    ("SecurityContext", "procMount"): _one_of(security.PROC_MOUNTS),
    ("WindowsSecurityContextOptions", "gmsaCredentialSpecName"): _name,
    ("WindowsSecurityContextOptions", "gmsaCredentialSpec"): _bad(
        "gmsaCredentialSpec cannot be an empty string"
    ),
    ("WindowsSecurityContextOptions", "runAsUserName"): _bad(
        "runAsUserName cannot be an empty string"
    ),
    ("ResourceRequirements", "claims"): _claims,
    ("AppArmorProfile", "localhostProfile"): _apparmor_profile,
    ("SeccompProfile", "localhostProfile"): _seccomp_profile,
    ("Container", "restartPolicy"): _one_of(restarts.CONTAINER_POLICIES),
    ("Lifecycle", "stopSignal"): _stop_signal,
    ("VolumeMount", "mountPropagation"): _propagation,
    ("VolumeMount", "recursiveReadOnly"): _mount_option(mounts.RECURSIVE_READ_ONLY),
    ("TopologySpreadConstraint", "nodeAffinityPolicy"): _one_of(("Honor", "Ignore")),
    ("TopologySpreadConstraint", "nodeTaintsPolicy"): _one_of(("Honor", "Ignore")),
    ("ISCSIVolumeSource", "initiatorName"): _initiator_name,
    ("AzureDiskVolumeSource", "kind"): _disk_kind,
    ("AzureDiskVolumeSource", "cachingMode"): _one_of(volumes.CACHING_MODES),
}
