"""Service accounts and leases."""

from __future__ import annotations

from typing import Final

from msgspec import structs

from podtui.api.v1 import Lease, ServiceAccount
from podtui.manifest.strategies.strategy import Strategy
from podtui.manifest.validation.errors import Errors, invalid
from podtui.manifest.validation.metadata import object_meta

_POSITIVE: Final = "must be greater than 0"


def _account_errors(item: ServiceAccount) -> Errors:
    yield from object_meta(item.metadata, "metadata")


def _account_update_errors(new: ServiceAccount, old: ServiceAccount) -> Errors:
    yield from _account_errors(new)


def _without_election(new: Lease, old: Lease | None = None) -> Lease:
    """Drop the fields of coordinated leader election, which is off by default."""
    return structs.replace(new, spec=structs.replace(new.spec, strategy="", preferredHolder=""))


def _lease_errors(item: Lease) -> Errors:
    yield from object_meta(item.metadata, "metadata")
    yield from _lease_spec_errors(item)


def _lease_spec_errors(item: Lease) -> Errors:
    spec = item.spec
    if spec.leaseDurationSeconds is not None and spec.leaseDurationSeconds <= 0:
        yield invalid("spec.leaseDurationSeconds", spec.leaseDurationSeconds, _POSITIVE)
    if spec.leaseTransitions is not None and spec.leaseTransitions < 0:
        why = "must be greater than or equal to 0"
        yield invalid("spec.leaseTransitions", spec.leaseTransitions, why)


def _lease_update_errors(new: Lease, old: Lease) -> Errors:
    yield from _lease_spec_errors(new)


SERVICE_ACCOUNTS: Final = Strategy(
    struct=ServiceAccount,
    validate_create=_account_errors,
    validate_update=_account_update_errors,
    returns_deleted=True,
)
LEASES: Final = Strategy(
    struct=Lease,
    prepare_create=_without_election,
    prepare_update=_without_election,
    validate_create=_lease_errors,
    validate_update=_lease_update_errors,
    create_on_update=True,
    unconditional_update=False,
)
