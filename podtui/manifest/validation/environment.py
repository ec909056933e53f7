"""Rules for env and envFrom, and for the selectors that a downward API volume shares."""

from __future__ import annotations

from typing import Final

from podtui.api.v1 import (
    ConfigMapKeySelector,
    EnvFromSource,
    EnvVar,
    EnvVarSource,
    FileKeySelector,
    ObjectFieldSelector,
    PodSpec,
    ResourceFieldSelector,
    SecretKeySelector,
)
from podtui.manifest.validation import formats
from podtui.manifest.validation.context import containers_with_paths
from podtui.manifest.validation.errors import (
    Errors,
    invalid,
    invalid_each,
    not_found,
    not_supported,
    required,
)
from podtui.manifest.validation.resources import quantity

ENV_FIELDS: Final = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
VOLUME_FIELDS: Final = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
# Fields that exist for other readers: known, but not supported in env or volumes.
_OTHER_FIELDS: Final = ("spec.restartPolicy", "spec.schedulerName", "status.phase")
_KNOWN_FIELDS: Final = frozenset({*ENV_FIELDS, *VOLUME_FIELDS, *_OTHER_FIELDS})
_SUBSCRIPTED: Final = ("metadata.annotations", "metadata.labels")
RESOURCE_FIELDS: Final = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_HUGE_PAGE_FIELDS: Final = ("limits.hugepages-", "requests.hugepages-")
_CPU_DIVISORS: Final = ("1m", "1")
_BYTE_DIVISORS: Final = ("1", *(f"1{s}" for s in "k M G T P E Ki Mi Gi Ti Pi Ei".split()))
_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def variables(env: tuple[EnvVar, ...], path: str) -> Errors:
    for index, variable in enumerate(env):
        here = f"{path}[{index}]"
        if variable.name:
            problems = formats.env_name(variable.name)
            yield from invalid_each(f"{here}.name", variable.name, problems)
        else:
            yield required(f"{here}.name")
        if variable.valueFrom is not None:
            yield from _value_from(variable, variable.valueFrom, f"{here}.valueFrom")


def _value_from(variable: EnvVar, source: EnvVarSource, path: str) -> Errors:
    if source.fieldRef is not None:
        yield from field_ref(source.fieldRef, ENV_FIELDS, f"{path}.fieldRef")
    if source.resourceFieldRef is not None:
        yield from resource_field_ref(source.resourceFieldRef, f"{path}.resourceFieldRef")
    if source.configMapKeyRef is not None:
        yield from _key_ref(source.configMapKeyRef, f"{path}.configMapKeyRef")
    if source.secretKeyRef is not None:
        yield from _key_ref(source.secretKeyRef, f"{path}.secretKeyRef")
    if source.fileKeyRef is not None:
        yield from _file_key_ref(source.fileKeyRef, f"{path}.fileKeyRef")
    given = sum(getattr(source, name) is not None for name in _SOURCES)
    if not given:
        names = ", ".join(f"`{name}`" for name in _SOURCES[:-1])
        yield invalid(path, "", f"must specify one of: {names} or `{_SOURCES[-1]}`")
    elif variable.value:
        yield invalid(path, "", "may not be specified when `value` is not empty")
    elif given > 1:
        yield invalid(path, "", "may not have more than one field specified at a time")


def split_subscript(field: str) -> tuple[str, str | None]:
    """Split ``metadata.labels['app']``; the subscript is None if there is none."""
    if field.endswith("']"):
        base, opening, subscript = field[:-2].partition("['")
        if opening and base:
            return base, subscript
    return field, None


def field_ref(ref: ObjectFieldSelector, supported: tuple[str, ...], path: str) -> Errors:
    """``supported`` are the fields that are allowed here."""
    if not ref.apiVersion:
        yield required(f"{path}.apiVersion")
        return
    if not ref.fieldPath:
        yield required(f"{path}.fieldPath")
        return
    field, subscript = split_subscript(ref.fieldPath)
    field = "spec.nodeName" if field == "spec.host" and subscript is None else field
    problem = ""
    if ref.apiVersion != "v1":
        problem = f"unsupported pod version: {ref.apiVersion}"
    elif subscript is not None and field not in _SUBSCRIPTED:
        problem = f"field label does not support subscript: {ref.fieldPath}"
    elif subscript is None and field not in _KNOWN_FIELDS:
        problem = f"field label not supported: {ref.fieldPath}"
    if problem:
        detail = f"error converting fieldPath: {problem}"
        yield invalid(f"{path}.fieldPath", ref.fieldPath, detail)
    elif subscript is not None:
        key = subscript.lower() if field == "metadata.annotations" else subscript
        at = f"{path}.fieldPath"
        yield from invalid_each(path, key, formats.qualified_name(key), at=at)
    elif field not in supported:
        yield not_supported(f"{path}.fieldPath", field, supported, plain=True)


def resource_field_ref(ref: ResourceFieldSelector, path: str, *, in_volume: bool = False) -> Errors:
    if in_volume and not ref.containerName:
        yield required(f"{path}.containerName")
    elif not ref.resource:
        yield required(f"{path}.resource")
    elif ref.resource not in RESOURCE_FIELDS and not ref.resource.startswith(_HUGE_PAGE_FIELDS):
        yield not_supported(f"{path}.resource", ref.resource, RESOURCE_FIELDS, plain=True)
    if ref.divisor:
        yield from _divisor(ref, f"{path}.divisor")


def _divisor(ref: ResourceFieldSelector, path: str) -> Errors:
    divisor = quantity(ref.divisor)
    if divisor is None:
        yield invalid(path, ref.divisor, "must be a valid resource quantity")
        return
    kind = ref.resource.partition(".")[2]
    is_measured = ref.resource in RESOURCE_FIELDS or ref.resource.startswith(_HUGE_PAGE_FIELDS)
    if not divisor or not is_measured:
        return
    if kind == "cpu":
        allowed, rule = _CPU_DIVISORS, "1m and 1 are supported with the cpu"
    else:
        what = {"memory": "memory", "ephemeral-storage": "local ephemeral storage"}
        allowed = _BYTE_DIVISORS
        rule = f"{', '.join(allowed)} are supported with the {what.get(kind, 'hugepages')}"
    if str(divisor) not in allowed:
        yield invalid(path, ref.resource, f"only divisor's values {rule} resource")


def _key_ref(ref: ConfigMapKeySelector | SecretKeySelector, path: str) -> Errors:
    yield from invalid_each(f"{path}.name", ref.name, formats.dns_subdomain(ref.name))
    if ref.key:
        yield from invalid_each(f"{path}.key", ref.key, formats.config_key(ref.key))
    else:
        yield required(f"{path}.key")


def _file_key_ref(ref: FileKeySelector, path: str) -> Errors:
    if ref.key:
        yield from invalid_each(f"{path}.key", ref.key, formats.env_name(ref.key))
    else:
        yield required(f"{path}.key")
    if ref.volumeName:
        problems = formats.dns_label(ref.volumeName)
        yield from invalid_each(f"{path}.volumeName", ref.volumeName, problems)
    else:
        yield required(f"{path}.volumeName")
    if ref.path:
        yield from formats.no_backsteps(ref.path, f"{path}.path")
    else:
        yield required(f"{path}.path")


def sources(env_from: tuple[EnvFromSource, ...], path: str) -> Errors:
    for index, source in enumerate(env_from):
        here = f"{path}[{index}]"
        if source.prefix:
            problems = formats.env_name(source.prefix)
            yield from invalid_each(f"{here}.prefix", source.prefix, problems)
        given = [
            (kind, ref.name)
            for kind, ref in (
                ("configMapRef", source.configMapRef),
                ("secretRef", source.secretRef),
            )
            if ref is not None
        ]
        for kind, name in given:
            if name:
                problems = formats.name_prefix(name)
                yield from invalid_each(f"{here}.{kind}.name", name, problems)
            else:
                yield required(f"{here}.{kind}.name")
        if not given:
            yield invalid(path, "", "must specify one of: `configMapRef` or `secretRef`", at=here)
        elif len(given) > 1:
            yield invalid(path, "", "may not have more than one field specified at a time", at=here)


def file_key_volumes(spec: PodSpec) -> Errors:
    """Check that a file with variables comes from an emptyDir of the same pod."""
    volumes = {volume.name: volume for volume in spec.volumes}
    for path, container in containers_with_paths(spec):
        for index, variable in enumerate(container.env):
            if variable.valueFrom is None or variable.valueFrom.fileKeyRef is None:
                continue
            name = variable.valueFrom.fileKeyRef.volumeName
            here = f"{path}.env[{index}].valueFrom.fileKeyRef.volumeName"
            volume = volumes.get(name)
            if volume is None:
                yield not_found(here, name, volumes)
            elif volume.emptyDir is None:
                yield invalid(here, name, "referenced volume must be of type emptyDir")
