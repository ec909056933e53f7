"""Diagnoses of claims and volumes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from podtui.api.claims import (
    NO_PROVISIONER,
    STORAGE_PROVISIONER,
    is_provisioned_here,
    is_replaced,
)
from podtui.api.health import Health
from podtui.api.selectors import labels_match
from podtui.api.storage import CSIDriver, StorageClass
from podtui.api.v1 import PersistentVolume, PersistentVolumeClaim, Pod, Volume
from podtui.why.amounts import plain, quantity
from podtui.why.inventory import Inventory, object_name
from podtui.why.types import Diagnosis, Evidence, Kind, Part

_DOCS: Final = "https://kubernetes.io/docs/concepts/storage/"
_DEFAULT_CLASS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_DIRECTORIES: Final = "podtui.dev/directory"
_LATE: Final = "WaitForFirstConsumer"
MAX_VOLUMES: Final = 5
_BRIEFS: Final = {
    "ClassMissing": "storage class does not exist",
    "NoDefaultClass": "no default storage class",
    "NoVolumeFits": "no volume fits",
    "ProvisionerSilent": "waits for its provisioner",
    "ProvisioningFailed": "volume could not be created",
    "VolumeMismatch": "its volume does not fit",
    "VolumeMissing": "its volume does not exist",
    "WaitForFirstConsumer": "no pod uses it",
    "WaitForPodScheduled": "its pod is not scheduled",
}


def with_claims(inventory: Inventory, pod: Pod, diagnosis: Diagnosis) -> Diagnosis:
    """Add the diagnoses of the claims that keep a pod from being scheduled, or from its start."""
    unscheduled = diagnosis.cause == "Unschedulable" and "PersistentVolumeClaim" in diagnosis.title
    if not (unscheduled or diagnosis.cause == "ClaimUnbound"):
        return diagnosis
    names = {name for volume in pod.spec.volumes if (name := _claim_name(pod, volume))}
    claims = [
        claim
        for claim in inventory.list(PersistentVolumeClaim, pod.metadata.namespace)
        if claim.metadata.name in names and claim.status.phase != "Bound"
    ]
    if not claims:
        return diagnosis
    parts = tuple(Part(object_name(claim), diagnose_claim(inventory, claim)) for claim in claims)
    return replace(diagnosis, brief=f"waits for {parts[0].name}", advice="", parts=parts)


def _claim_name(pod: Pod, volume: Volume) -> str:
    """Return the name of the claim that a volume uses; empty if it uses none."""
    if volume.persistentVolumeClaim is not None:
        return volume.persistentVolumeClaim.claimName
    return f"{pod.metadata.name}-{volume.name}" if volume.ephemeral is not None else ""


def diagnose_claim(inventory: Inventory, item: PersistentVolumeClaim) -> Diagnosis:
    users = sorted(pod.metadata.name for pod in claim_users(inventory, item))
    used = f"Used by: {', '.join(users)}." if users else "No pod uses it."
    if item.metadata.deletionTimestamp:
        protected = "kubernetes.io/pvc-protection" in item.metadata.finalizers and users
        why = f"It is kept while pods use it: {', '.join(users)}." if protected else ""
        return Diagnosis(
            cause="Deleting",
            kind=Kind.TERMINATION,
            health=Health.TERMINATING,
            state="terminating",
            title="It is being deleted.",
            sentences=(why,) if why else (),
            advice="Delete the pods that use it, or their owner." if protected else "",
            docs=_DOCS + "persistent-volumes/#storage-object-in-use-protection",
        )
    if item.status.phase == "Bound":
        return _bound(inventory, item, used)
    if item.status.phase == "Lost":
        return Diagnosis(
            cause="ClaimLost",
            kind=Kind.FAILURE,
            health=Health.FAILING,
            state="lost",
            title=f"Its volume {item.spec.volumeName or ''} is gone, with its data.".replace(
                "  ", " "
            ),
            brief="volume is gone",
            sentences=(used,),
            evidence=inventory.evidence(item),
            advice="Delete the claim, and create it again for a new, empty volume.",
        )
    return _pending(inventory, item, users)


def claim_users(inventory: Inventory, item: PersistentVolumeClaim) -> Iterator[Pod]:
    """Yield the pods that use a claim."""
    for pod in inventory.list(Pod, item.metadata.namespace):
        if item.metadata.name in {_claim_name(pod, volume) for volume in pod.spec.volumes}:
            yield pod


def _bound(inventory: Inventory, item: PersistentVolumeClaim, used: str) -> Diagnosis:
    size = item.status.capacity.get("storage", "?")
    provisioner = item.metadata.annotations.get(STORAGE_PROVISIONER, "")
    instead = ""
    volume = inventory.get(PersistentVolume, "", item.spec.volumeName)
    if is_replaced(provisioner) and volume is not None and is_provisioned_here(volume):
        instead = f"It is a directory of this machine: {provisioner} does not work here."
    resize = next((c for c in item.status.conditions if c.status == "True"), None)
    more = f"{resize.type}: {resize.message or resize.reason}" if resize is not None else ""
    of_class = f", class {_class_of(item)}" if _class_of(item) else ""
    return Diagnosis(
        cause="Bound",
        kind=Kind.NONE,
        health=Health.RUNNING,
        state="bound",
        title=f"It is bound to the volume {item.spec.volumeName} ({size}{of_class}).",
        sentences=tuple(filter(None, (used, instead, more))),
    )


def _class_of(item: PersistentVolumeClaim) -> str | None:
    return item.metadata.annotations.get(_BETA_CLASS, item.spec.storageClassName)


def _pending(inventory: Inventory, item: PersistentVolumeClaim, users: list[str]) -> Diagnosis:
    name = _class_of(item)
    classes = {c.metadata.name: c for c in inventory.list(StorageClass)}
    is_read = inventory.is_read(StorageClass)
    if item.spec.volumeName:
        return _named(inventory, item)
    misfits = _misfits(inventory, item)
    if name is None:
        defaults = [c for c in classes.values() if _is_default(c)]
        if not defaults and is_read:
            return _waits(
                inventory, item, "NoDefaultClass",
                "It names no storage class, and there is no default class.",
                misfits,
                advice=_make_class(classes) + " Or create a PersistentVolume that fits.",
            )  # fmt: skip
        return _waits(inventory, item, "ClaimPending", "It waits for its default class.", misfits)
    if not name:
        return _waits(
            inventory, item, "NoVolumeFits",
            'Its storageClassName is "": only an existing volume without a class can be bound, and'
            " none fits.",
            misfits,
            advice="Create a PersistentVolume that fits, or remove storageClassName from the claim"
            " to use the default class.",
        )  # fmt: skip
    storage_class = classes.get(name)
    if storage_class is None:
        if not is_read:
            text = f"It waits for a volume of class {name}."
            return _waits(inventory, item, "ClaimPending", text, misfits)
        return _waits(
            inventory, item, "ClassMissing",
            f"Its storage class {name} does not exist, and no volume fits.",
            (*misfits, f"Classes: {', '.join(sorted(classes)) or 'none'}."),
            advice=f"Create the class {name}, or create the claim again with another one: the class"
            " of a claim cannot be changed.",
        )  # fmt: skip
    return _of_class(inventory, item, storage_class, users, misfits)


def _of_class(
    inventory: Inventory,
    item: PersistentVolumeClaim,
    storage_class: StorageClass,
    users: list[str],
    misfits: tuple[str, ...],
) -> Diagnosis:
    name, provisioner = storage_class.metadata.name, storage_class.provisioner
    pods = {pod.metadata.name: pod for pod in inventory.list(Pod, item.metadata.namespace)}
    placed = [user for user in users if pods[user].spec.nodeName]
    if storage_class.volumeBindingMode == _LATE and not placed:
        if users:
            return _waits(
                inventory, item, "WaitForPodScheduled",
                f"It is bound when a pod that uses it is scheduled: {', '.join(users)}.",
                (),
                advice=f"podtui why {users[0]}",
            )  # fmt: skip
        return _waits(
            inventory, item, "WaitForFirstConsumer",
            f"It is bound when the first pod uses it: the class {name} binds late"
            " (WaitForFirstConsumer). No pod uses it.",
            (),
            advice="Nothing is wrong with the claim: create a pod that uses it.",
        )  # fmt: skip
    failed = inventory.events(item, "ProvisioningFailed")
    if failed:
        return _waits(
            inventory, item, "ProvisioningFailed",
            f"Its volume could not be created: {failed[-1].message.strip()}",
            misfits, fails=True,
        )  # fmt: skip
    if provisioner == NO_PROVISIONER:
        return _waits(
            inventory, item, "NoVolumeFits",
            f"Volumes of the class {name} are not created on demand, and no existing one fits.",
            misfits,
            advice="Create a PersistentVolume that fits.",
        )  # fmt: skip
    drivers = {driver.metadata.name for driver in inventory.list(CSIDriver)}
    is_ours = provisioner == _DIRECTORIES or is_replaced(provisioner, drivers)
    if inventory.in_cluster or not is_ours:
        here = "" if inventory.in_cluster else " podtui provides podtui.dev/directory only."
        return _waits(
            inventory, item, "ProvisionerSilent",
            f"It waits for the provisioner {provisioner} of the class {name}.",
            (f"The provisioner probably does not run (a guess: it has not answered).{here}",
             *misfits),
            advice="Run the provisioner, or use the class standard."
            if not inventory.in_cluster
            else "Check that the provisioner runs.",
        )  # fmt: skip
    return _waits(inventory, item, "Provisioning", "Its volume is being created.", ())


def _waits(
    inventory: Inventory,
    item: PersistentVolumeClaim,
    cause: str,
    title: str,
    sentences: tuple[str, ...],
    *,
    advice: str = "",
    fails: bool = False,
) -> Diagnosis:
    waits = not fails and cause in (
        "ClaimPending", "WaitForFirstConsumer", "WaitForPodScheduled", "Provisioning"
    )  # fmt: skip
    return Diagnosis(
        cause=cause,
        kind=Kind.WAIT if waits else Kind.FAILURE,
        health=Health.PENDING if waits else Health.FAILING,
        state="pending",
        title=title,
        brief=_BRIEFS.get(cause, ""),
        sentences=sentences,
        evidence=inventory.evidence(item),
        advice=advice,
        docs=_DOCS + "persistent-volumes/#binding",
    )


def _named(inventory: Inventory, item: PersistentVolumeClaim) -> Diagnosis:
    name = item.spec.volumeName
    volume = inventory.get(PersistentVolume, "", name)
    if volume is None:
        return _waits(
            inventory, item, "VolumeMissing",
            f"It names the volume {name}, which does not exist.", (),
            advice="Create the volume, or create the claim again without volumeName.",
        )  # fmt: skip
    reasons = volume_misfit(volume, item)
    if not reasons:
        return _waits(inventory, item, "ClaimPending", f"It is being bound to {name}.", ())
    of_volume = volume.metadata.annotations.get(_BETA_CLASS, volume.spec.storageClassName)
    stated = (
        "" if of_volume == (_class_of(item) or "") else f' with storageClassName: "{of_volume}"'
    )
    return _waits(
        inventory, item, "VolumeMismatch",
        f"It names the volume {name}, which does not fit: {'; '.join(reasons)}.", (),
        advice=f"Change the volume, or create the claim again{stated}.",
    )  # fmt: skip


def _is_default(storage_class: StorageClass) -> bool:
    return any(storage_class.metadata.annotations.get(key) == "true" for key in _DEFAULT_CLASS)


def _make_class(classes: dict[str, StorageClass]) -> str:
    if not classes:
        return "Create a StorageClass."
    name = sorted(classes)[0]
    return (
        f"Make a class the default one: kubectl annotate storageclass {name}"
        f" {_DEFAULT_CLASS[0]}=true."
    )


def _misfits(inventory: Inventory, item: PersistentVolumeClaim) -> tuple[str, ...]:
    """Return a sentence for each volume that cannot be bound, those that almost fit first."""
    if not inventory.is_read(PersistentVolume):
        return ()
    volumes = [(volume, volume_misfit(volume, item)) for volume in inventory.list(PersistentVolume)]
    volumes.sort(key=lambda pair: len(pair[1]))
    texts = [f"Volume {volume.metadata.name}: {'; '.join(why)}."
             for volume, why in volumes if why]  # fmt: skip
    if not volumes:
        return ("There is no volume.",)
    rest = len(texts) - MAX_VOLUMES
    more = (f"{rest:,} more volumes do not fit.",) if rest > 0 else ()
    return (*texts[:MAX_VOLUMES], *more)


def volume_misfit(volume: PersistentVolume, claim: PersistentVolumeClaim) -> tuple[str, ...]:
    """Return the reasons why a claim cannot have a volume; empty if it fits."""
    return tuple(_misfit(volume, claim))


def _misfit(volume: PersistentVolume, claim: PersistentVolumeClaim) -> Iterator[str]:
    if volume.metadata.deletionTimestamp:
        yield "it is being deleted"
    ref = volume.spec.claimRef
    meta = claim.metadata
    if ref is not None and (ref.namespace, ref.name) != (meta.namespace, meta.name):
        yield f"in use by {ref.namespace}/{ref.name}"
    elif ref is not None and ref.uid not in ("", meta.uid):
        yield f"released by an earlier claim {ref.name}, its data is kept ({volume.status.phase})"
    resources = claim.spec.resources
    wanted = quantity(resources.requests.get("storage", "0") if resources is not None else "0")
    size = quantity(volume.spec.capacity.get("storage", "0"))
    if size < wanted:
        yield f"too small: {plain(size)}, {plain(wanted)} requested"
    lacking = [mode for mode in claim.spec.accessModes if mode not in volume.spec.accessModes]
    if lacking:
        yield f"no access mode {', '.join(lacking)} (it has {', '.join(volume.spec.accessModes)})"
    of_volume = volume.metadata.annotations.get(_BETA_CLASS, volume.spec.storageClassName)
    of_claim = _class_of(claim) or ""
    if of_volume != of_claim:
        yield f'class "{of_volume}", not "{of_claim}"'
    mode = "Filesystem"
    if (volume.spec.volumeMode or mode) != (claim.spec.volumeMode or mode):
        yield f"volumeMode {volume.spec.volumeMode or mode}"
    selector = claim.spec.selector
    if selector is not None and not labels_match(selector, volume.metadata.labels):
        yield "its labels do not match the selector"


def diagnose_volume(inventory: Inventory, item: PersistentVolume) -> Diagnosis:
    ref, phase = item.spec.claimRef, item.status.phase
    claim = f"{ref.namespace}/{ref.name}" if ref is not None else ""
    if item.metadata.deletionTimestamp:
        why = f"It is kept while the claim {claim} is bound to it." if phase == "Bound" else ""
        return Diagnosis(
            cause="Deleting", kind=Kind.TERMINATION, health=Health.TERMINATING,
            state="terminating", title="It is being deleted.", sentences=(why,) if why else (),
        )  # fmt: skip
    if phase == "Failed":
        return Diagnosis(
            cause="VolumeFailed",
            kind=Kind.FAILURE,
            health=Health.FAILING,
            state="failed",
            title=f"It could not be reclaimed: {item.status.message or 'no reason is reported'}",
            evidence=inventory.evidence(item),
            advice="Delete its data by hand, then delete the volume.",
        )
    if phase == "Released":
        return Diagnosis(
            cause="Released",
            kind=Kind.WAIT,
            health=Health.PENDING,
            state="released",
            title=f"Its claim {claim} is gone; its data is kept"
            f" ({item.spec.persistentVolumeReclaimPolicy}).",
            advice="To use it for a new claim, remove its claimRef: kubectl patch pv"
            f""" {item.metadata.name} -p '{{"spec":{{"claimRef":null}}}}'. Its data is kept.""",
            evidence=tuple(
                Evidence("state", text) for text in filter(None, (item.status.message,))
            ),
            docs=_DOCS + "persistent-volumes/#reclaiming",
        )
    title = f"It is bound to the claim {claim}." if phase == "Bound" else "No claim uses it yet."
    return Diagnosis(
        cause="Volume", kind=Kind.NONE, health=Health.RUNNING,
        state=(phase or "pending").lower(), title=title,
    )  # fmt: skip
