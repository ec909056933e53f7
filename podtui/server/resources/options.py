"""The options of requests that write: dry run, field manager, field validation, deletion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
from aiohttp import web

from podtui.api.v1 import DeleteOptions, Preconditions
from podtui.manifest.validation.errors import (
    Errors,
    FieldError,
    GoText,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from podtui.server.encoding.bodies import parse_body
from podtui.server.encoding.decoding import DecodeError, decode_object
from podtui.server.status import bad_request, flag_value, invalid_fields

META_GROUP: Final = "meta.k8s.io"
_MAX_MANAGER_BYTES: Final = 128
_VALIDATIONS: Final = ("", "Ignore", "Strict", "Warn")
_PROPAGATIONS: Final = ("Foreground", "Background", "Orphan")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Options of a create, update or patch. ``manager`` is the manager recorded in
    managedFields."""

    manager: str
    dry_run: bool
    validation: str
    force: bool = False


def write_options(request: web.Request, kind: str, *, apply: bool = False) -> WriteOptions:
    """Read the query. ``kind`` is that of the options: ``CreateOptions`` and so on. Raises
    `StatusError` 400 or 422."""
    query = request.query
    force = flag_value(query["force"]) if "force" in query else None
    errors = list(_write_errors(request, kind, force, apply=apply))
    if errors:
        raise invalid_fields(kind, "", errors, META_GROUP)
    manager = query.get("fieldManager", "")
    return WriteOptions(
        manager=manager or _from_user_agent(request.headers.get("User-Agent", "")),
        dry_run="dryRun" in query and query["dryRun"] != "",
        validation=query.get("fieldValidation", "") or "Warn",
        force=bool(force),
    )


def _write_errors(
    request: web.Request, kind: str, force: bool | None, *, apply: bool
) -> Iterable[FieldError]:
    query, manager = request.query, request.query.get("fieldManager", "")
    if kind == "PatchOptions":
        if not apply and force is not None:
            yield forbidden("force", "may not be specified for non-apply patch")
        if apply and not manager:
            yield required("fieldManager", "is required for apply patch")
    yield from _manager_errors(manager)
    yield from _dry_run_errors([item for item in query.getall("dryRun", []) if item])
    validation = query.get("fieldValidation", "")
    if validation not in _VALIDATIONS:
        yield not_supported("fieldValidation", validation, _VALIDATIONS, plain=True)


def _manager_errors(manager: str) -> Errors:
    if len(manager.encode()) > _MAX_MANAGER_BYTES:
        yield too_long("fieldManager", _MAX_MANAGER_BYTES)
    for position, char in enumerate(manager):
        if not char.isprintable():
            yield invalid(
                "fieldManager",
                manager,
                f"invalid character U+{ord(char):04X} (at position {position})",
            )


def _dry_run_errors(values: list[str]) -> Errors:
    if set(values) - {"All"}:
        yield not_supported("dryRun", values, ("All",))


def _from_user_agent(agent: str) -> str:
    first = "".join(char for char in agent.partition("/")[0] if char.isprintable())
    return first.encode()[:_MAX_MANAGER_BYTES].decode("utf-8", "ignore")


def delete_options(request: web.Request, body: bytes) -> DeleteOptions:
    """Read the options from the body, or from the query if there is none. Raises `StatusError`."""
    options = _from_body(request, body) if body else _from_query(request.query)
    errors: list[FieldError] = []
    if options.propagationPolicy and options.orphanDependents is not None:
        errors.append(
            invalid(
                "propagationPolicy",
                GoText(options.propagationPolicy),
                "orphanDependents and deletionPropagation cannot be both set",
            )
        )
    if options.propagationPolicy not in ("", *_PROPAGATIONS):
        policies = (*_PROPAGATIONS, "nil")
        errors.append(not_supported("propagationPolicy", options.propagationPolicy, policies))
    errors += _dry_run_errors(list(options.dryRun))
    if errors:
        raise invalid_fields("DeleteOptions", "", errors, META_GROUP)
    return options


def _from_body(request: web.Request, body: bytes) -> DeleteOptions:
    tree = parse_body(request, body, "DeleteOptions")
    kind = tree.get("kind") or "DeleteOptions"
    if kind != "DeleteOptions":
        version = tree.get("apiVersion")
        raise bad_request(f'no kind "{kind}" is registered for version "{version}"')
    try:
        clean, _ = decode_object(tree, DeleteOptions)
    except DecodeError as error:
        raise bad_request(str(error)) from error
    return msgspec.convert(clean, DeleteOptions)


def _from_query(query: Mapping[str, str]) -> DeleteOptions:
    seconds = query.get("gracePeriodSeconds", "")
    try:
        grace = int(seconds) if seconds else None
    except ValueError as error:
        raise bad_request(f'strconv.ParseInt: parsing "{seconds}": invalid syntax') from error
    orphan = query.get("orphanDependents")
    return DeleteOptions(
        dryRun=(query["dryRun"],) if query.get("dryRun") else (),
        gracePeriodSeconds=grace,
        orphanDependents=flag_value(orphan) if orphan else None,
        propagationPolicy=query.get("propagationPolicy", ""),
    )


def precondition_failure(wanted: Preconditions | None, uid: str, version: str) -> str:
    """Return why a deletion's preconditions do not hold; empty if they do."""
    if wanted is None:
        return ""
    if wanted.uid and wanted.uid != uid:
        return (
            f"the UID in the precondition ({wanted.uid}) does not match the UID in record ({uid})."
            " The object might have been deleted and then recreated"
        )
    if wanted.resourceVersion and wanted.resourceVersion != version:
        return (
            f"the ResourceVersion in the precondition ({wanted.resourceVersion}) does not match"
            f" the ResourceVersion in record ({version}). The object might have been modified"
        )
    return ""
