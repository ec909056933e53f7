"""The API's defaults (kubelet.md §1.5), applied in place to a decoded tree.

Two of the API's steps are easy to miss: amounts in resource lists are rounded up to thousandths,
and a limit is the default of a missing request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from podtui.api.image_reference import parse_image_reference
from podtui.api.quantity import Quantity, parse_quantity

Tree = dict[str, Any]

_MODE: Final = 0o644
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS: Final = ("postStart", "preStop")


def _pull_policy(image: str) -> str:
    """Return the default policy. An invalid image reference has no tag, so it is not ``latest``."""
    reference = parse_image_reference(image)
    tag = "" if reference is None else reference.tag or ("" if reference.digest else "latest")
    return "Always" if tag == "latest" else "IfNotPresent"


def _fill(tree: Tree, **values: Any) -> None:
    """Set each field that is absent or empty (``""`` or 0, but not False or ``{}``)."""
    for name, value in values.items():
        if tree.get(name) in (None, "", 0) and tree.get(name) is not False:
            tree[name] = value


def _absent(tree: Tree, **values: Any) -> None:
    for name, value in values.items():
        tree.setdefault(name, value)


def round_up(amounts: Tree) -> None:
    """Round amounts up to thousandths in place, as the API does with every list of resources."""
    for name, text in amounts.items():
        amounts[name] = str(parse_quantity(text).round_up_milli())


def _http_get(tree: Tree) -> None:
    if (action := tree.get("httpGet")) is not None:
        _fill(action, path="/", scheme="HTTP")


def _resources(tree: Tree) -> None:
    for kind in ("limits", "requests"):
        round_up(tree.get(kind, {}))


def _env_source(source: Tree) -> None:
    if (field := source.get("fieldRef")) is not None:
        _fill(field, apiVersion="v1")
    if (resource := source.get("resourceFieldRef")) is not None:
        _fill(resource, divisor="0")


def container_defaults(tree: Tree) -> None:
    """Apply the defaults of one container of any kind."""
    _fill(
        tree,
        imagePullPolicy=_pull_policy(tree.get("image", "")),
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
    )
    for port in tree.get("ports", ()):
        _fill(port, protocol="TCP")
    for variable in tree.get("env", ()):
        _env_source(variable.get("valueFrom", {}))
    for name in _PROBES:
        if (probe := tree.get(name)) is not None:
            _fill(probe, timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3)
            _http_get(probe)
    for name in _HOOKS:
        _http_get(tree.get("lifecycle", {}).get(name, {}))
    _resources(tree.get("resources", {}))


def _requests_from_limits(tree: Tree) -> None:
    resources = tree.get("resources", {})
    if limits := resources.get("limits"):
        resources["requests"] = {**limits, **resources.get("requests", {})}


def _host_ports(tree: Tree) -> None:
    for port in tree.get("ports", ()):
        _fill(port, hostPort=port.get("containerPort", 0))


def _downward_api(tree: Tree) -> None:
    for item in tree.get("items", ()):
        _env_source(item)


def _projected(tree: Tree) -> None:
    _absent(tree, defaultMode=_MODE)
    for source in tree.get("sources", ()):
        _downward_api(source.get("downwardAPI", {}))
        if (token := source.get("serviceAccountToken")) is not None:
            _absent(token, expirationSeconds=3600)


def _downward_volume(tree: Tree) -> None:
    _absent(tree, defaultMode=_MODE)
    _downward_api(tree)


def _claim(tree: Tree) -> None:
    if (template := tree.get("volumeClaimTemplate")) is not None:
        _fill(template.get("spec", {}), volumeMode="Filesystem")


_SOURCES: Final[dict[str, Callable[[Tree], None]]] = {
    "secret": lambda tree: _absent(tree, defaultMode=_MODE),
    "configMap": lambda tree: _absent(tree, defaultMode=_MODE),
    "downwardAPI": _downward_volume,
    "projected": _projected,
    "ephemeral": _claim,
    "image": lambda tree: _fill(tree, pullPolicy=_pull_policy(tree.get("reference", ""))),
    "iscsi": lambda tree: _fill(tree, iscsiInterface="default"),
    "rbd": lambda tree: _fill(tree, pool="rbd", user="admin", keyring="/etc/ceph/keyring"),
    "azureDisk": lambda tree: _absent(
        tree, cachingMode="ReadWrite", kind="Shared", fsType="ext4", readOnly=False
    ),
    "scaleIO": lambda tree: _fill(tree, storageMode="ThinProvisioned", fsType="xfs"),
}


def _volume(tree: Tree) -> None:
    sources = tree.keys() - {"name"}
    if not sources:
        tree["emptyDir"] = {}
    for name in sources & _SOURCES.keys():
        _SOURCES[name](tree[name])


# Pod-level resources support only these and hugepages.
_OVERCOMMITTED: Final = frozenset({"cpu", "memory"})
_HUGE: Final = "hugepages-"


def _is_sidecar(tree: Tree) -> bool:
    return tree.get("restartPolicy") == "Always"


def _aggregate(spec: Tree, kind: str) -> dict[str, Quantity]:
    """Return the containers' total: the larger of the running set and each init step."""

    def amounts(container: Tree) -> Iterator[tuple[str, Quantity]]:
        for name, text in container.get("resources", {}).get(kind, {}).items():
            yield name, parse_quantity(text)

    total: dict[str, Quantity] = {}
    peak: dict[str, Quantity] = {}
    sidecars: dict[str, Quantity] = {}

    def add(into: dict[str, Quantity], name: str, amount: Quantity) -> None:
        into[name] = into[name] + amount if name in into else amount

    for container in spec["containers"]:
        for name, amount in amounts(container):
            add(total, name, amount)
    for container in spec.get("initContainers", ()):
        step = dict(amounts(container))
        if _is_sidecar(container):
            for name, amount in step.items():
                add(total, name, amount)
                add(sidecars, name, amount)
            step = dict(sidecars)
        else:
            for name, amount in sidecars.items():
                add(step, name, amount)
        for name, amount in step.items():
            peak[name] = max(peak.get(name, amount), amount)
    return {name: max(total.get(name, amount), amount) for name, amount in (total | peak).items()}


def _pod_resources(spec: Tree) -> None:
    resources: Tree | None = spec.get("resources")
    if resources is None:
        return
    limits: Tree = resources.get("limits", {})
    requests: Tree = resources.get("requests", {})
    if not limits and not requests:
        return
    for name, amount in _aggregate(spec, "limits").items():
        if name.startswith(_HUGE) and name not in requests:
            limits.setdefault(name, str(amount))
    if limits:
        for name, amount in _aggregate(spec, "requests").items():
            if name in _OVERCOMMITTED:
                requests.setdefault(name, str(amount))
        for name, text in limits.items():
            if name in _OVERCOMMITTED or name.startswith(_HUGE):
                requests.setdefault(name, text)
    for kind, amounts in (("limits", limits), ("requests", requests)):
        if amounts:
            resources[kind] = amounts


def _containers(spec: Tree) -> list[Tree]:
    """Return the regular and the init containers."""
    return [*spec["containers"], *spec.get("initContainers", ())]


def _spec(spec: Tree) -> None:
    """Apply the defaults that pods and pod templates have in common."""
    _fill(
        spec,
        dnsPolicy="ClusterFirst",
        restartPolicy="Always",
        schedulerName="default-scheduler",
    )
    _absent(spec, terminationGracePeriodSeconds=30, securityContext={})
    round_up(spec.get("overhead", {}))
    for container in (*_containers(spec), *spec.get("ephemeralContainers", ())):
        container_defaults(container)
    for volume in spec.get("volumes", ()):
        _volume(volume)
    _resources(spec.get("resources", {}))


def apply_defaults(pod: Tree) -> None:
    """Apply all defaults to a decoded Pod. Its quantities must be canonical already."""
    spec: Tree = pod["spec"]
    _spec(spec)
    _absent(spec, enableServiceLinks=True)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    for container in _containers(spec):
        _requests_from_limits(container)
        if spec.get("hostNetwork"):
            _host_ports(container)
    _pod_resources(spec)


def default_template(tree: Tree) -> None:
    """Apply the defaults to a pod template. Its pods get the others, such as requests from
    limits, when they are created."""
    spec: Tree = tree["spec"]
    _spec(spec)
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
