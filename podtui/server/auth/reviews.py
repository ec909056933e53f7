"""Reviews of access (``authorization.k8s.io``, ``authentication.k8s.io``), and requests for tokens.

The objects of these resources are never stored: a request creates one, and the answer is the same
object with a status.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeVar

import msgspec
from aiohttp import web
from msgspec import Struct

from podtui.api.lenient import without_nulls
from podtui.api.times import rfc3339
from podtui.api.v1 import StatusCause, StatusDetails
from podtui.clock import Clock
from podtui.manifest.validation.errors import FieldError, invalid, required
from podtui.pki.certificates import CLUSTER_ADDRESS
from podtui.pki.tokens import InvalidToken
from podtui.server.auth.access import USER
from podtui.server.auth.attributes import Attributes
from podtui.server.auth.rbac import AUTHORIZER, not_found
from podtui.server.auth.service_accounts import (
    DEFAULT_SECONDS,
    LEAST_SECONDS,
    MOST_SECONDS,
    BoundObject,
    TokenRegistry,
)
from podtui.server.auth.users import User
from podtui.server.encoding.bodies import parse_body
from podtui.server.encoding.media_types import without_table
from podtui.server.status import StatusError, bad_request, invalid_fields, json_response
from podtui.server.transport.pod_server import SOURCE_POD

AUTHORIZATION: Final = "authorization.k8s.io/v1"
AUTHENTICATION: Final = "authentication.k8s.io/v1"
S = TypeVar("S", bound=Struct)
Tree = dict[str, Any]
_PUBLIC: Final = {"Cache-Control": "public, max-age=3600"}


class SelectorRequirement(Struct, frozen=True, omit_defaults=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class SelectorAttributes(Struct, frozen=True, omit_defaults=True):
    rawSelector: str = ""
    requirements: tuple[SelectorRequirement, ...] = ()


class ResourceAttributes(Struct, frozen=True, omit_defaults=True):
    namespace: str = ""
    verb: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    fieldSelector: SelectorAttributes | None = None
    """Selectors do not matter for RBAC."""
    labelSelector: SelectorAttributes | None = None


class PathAttributes(Struct, frozen=True, omit_defaults=True):
    path: str = ""
    verb: str = ""


class SelfAccessSpec(Struct, frozen=True, omit_defaults=True):
    resourceAttributes: ResourceAttributes | None = None
    nonResourceAttributes: PathAttributes | None = None


class AccessSpec(SelfAccessSpec, frozen=True, omit_defaults=True):
    user: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}
    uid: str = ""


class RulesSpec(Struct, frozen=True, omit_defaults=True):
    namespace: str = ""


class TokenReviewSpec(Struct, frozen=True, omit_defaults=True):
    token: str = ""
    audiences: tuple[str, ...] = ()


class BoundObjectRef(Struct, frozen=True, omit_defaults=True):
    kind: str = ""
    apiVersion: str = ""
    name: str = ""
    uid: str = ""


class TokenRequestSpec(Struct, frozen=True):
    audiences: tuple[str, ...] = ()
    expirationSeconds: int = DEFAULT_SECONDS
    boundObjectRef: BoundObjectRef | None = None


class ReviewRoutes:
    """``server`` is the URL of the API on this machine, for the OpenID configuration."""

    def __init__(self, tokens: TokenRegistry, clock: Clock, *, server: str = "") -> None:
        self._tokens = tokens
        self._clock = clock
        self._server = server

    def routes(self) -> list[web.RouteDef]:
        authorization, authentication = f"/apis/{AUTHORIZATION}", f"/apis/{AUTHENTICATION}"
        local = "namespaces/{namespace}/localsubjectaccessreviews"
        account = "/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        created = {
            f"{authorization}/selfsubjectaccessreviews": self.self_access,
            f"{authorization}/selfsubjectrulesreviews": self.self_rules,
            f"{authorization}/subjectaccessreviews": self.access,
            f"{authorization}/{local}": self.local_access,
            f"{authentication}/selfsubjectreviews": self.self_review,
            f"{authentication}/tokenreviews": self.token_review,
            account: self.token_request,
        }
        return [
            *(web.post(path, without_table(handler)) for path, handler in created.items()),
            web.get("/.well-known/openid-configuration", self.openid_configuration),
            web.get("/openid/v1/jwks", self.keys),
        ]

    # --- authorization

    async def self_access(self, request: web.Request) -> web.Response:
        tree, spec = await _read(request, "SelfSubjectAccessReview", AUTHORIZATION, SelfAccessSpec)
        _refuse([*_spec_errors(spec), *_metadata_errors(tree)])
        return await _access_answer(request, tree, request[USER], spec)

    async def access(self, request: web.Request) -> web.Response:
        tree, spec = await _read(request, "SubjectAccessReview", AUTHORIZATION, AccessSpec)
        _refuse([*_spec_errors(spec), *_metadata_errors(tree)])
        return await _access_answer(request, tree, _subject(spec), spec)

    async def local_access(self, request: web.Request) -> web.Response:
        tree, spec = await _read(request, "LocalSubjectAccessReview", AUTHORIZATION, AccessSpec)
        namespace = request.match_info["namespace"]
        if tree["metadata"].setdefault("namespace", namespace) != namespace:
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on the"
                " request"
            )
        _refuse([*_spec_errors(spec), *_local_errors(tree, spec, namespace)])
        return await _access_answer(request, tree, _subject(spec), spec)

    async def self_rules(self, request: web.Request) -> web.Response:
        tree, spec = await _read(request, "SelfSubjectRulesReview", AUTHORIZATION, RulesSpec)
        if not spec.namespace:
            raise bad_request("no namespace on request")
        policy = await request.app[AUTHORIZER].policy()
        rules, missing = policy.rules_of(request[USER], spec.namespace)
        resources = ("verbs", "apiGroups", "resources", "resourceNames")
        status: Tree = {
            "resourceRules": [_parts(rule, resources) for rule in rules if rule.resources],
            "nonResourceRules": [
                _parts(rule, ("verbs", "nonResourceURLs")) for rule in rules if rule.nonResourceURLs
            ],
            "incomplete": False,
        }
        if missing:
            status["evaluationError"] = not_found(missing)
        return _created({**tree, "spec": {}, "status": status})

    # --- authentication

    async def self_review(self, request: web.Request) -> web.Response:
        tree, _ = await _read(request, "SelfSubjectReview", AUTHENTICATION, RulesSpec)
        tree.pop("spec", None)
        tree["metadata"] = {"creationTimestamp": rfc3339(self._clock.now())}
        return _created({**tree, "status": {"userInfo": _user_info(request[USER])}})

    async def token_review(self, request: web.Request) -> web.Response:
        tree, spec = await _read(request, "TokenReview", AUTHENTICATION, TokenReviewSpec)
        if not spec.token:
            raise bad_request("token is required for TokenReview in authentication")
        audiences = spec.audiences or (self._tokens.issuer.audience,)
        status: Tree
        try:
            user, valid_for = await self._tokens.review(spec.token, audiences)
        except InvalidToken as error:
            status = {"user": {}, "error": str(error)}
        else:
            status = {"authenticated": True, "user": _user_info(user), "audiences": valid_for}
        return _created({**tree, "status": status})

    async def token_request(self, request: web.Request) -> web.Response:
        """The ``token`` subresource of service accounts, as used by ``kubectl create token``."""
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        tree, spec = await _read(request, "TokenRequest", AUTHENTICATION, TokenRequestSpec)
        limit = ""
        if spec.expirationSeconds < LEAST_SECONDS:
            limit = "may not specify a duration less than 10 minutes"
        elif spec.expirationSeconds > MOST_SECONDS:
            limit = "may not specify a duration larger than 2^32 seconds"
        if limit:
            raise _invalid(
                "TokenRequest.authentication.k8s.io",
                StatusDetails(group="authentication.k8s.io", kind="TokenRequest"),
                "spec.expirationSeconds",
                f"Invalid value: {spec.expirationSeconds}: {limit}",
            )
        reference = spec.boundObjectRef
        bound = None
        if reference is not None:
            bound = BoundObject(reference.apiVersion, reference.kind, reference.name, reference.uid)
        token, claims, account = await self._tokens.issue(
            namespace, name, spec.audiences, spec.expirationSeconds, bound
        )
        meta = {
            "name": name,
            "namespace": namespace,
            "uid": account.metadata.uid,
            "creationTimestamp": rfc3339(self._clock.now()),
        }
        wanted = {
            "audiences": claims.aud,
            "expirationSeconds": spec.expirationSeconds,
            "boundObjectRef": tree["spec"].get("boundObjectRef"),
        }
        status = {"token": token, "expirationTimestamp": rfc3339(claims.expires)}
        return _created({**tree, "metadata": meta, "spec": wanted, "status": status})

    # --- documents for programs that verify tokens

    async def openid_configuration(self, request: web.Request) -> web.Response:
        # Pods do not reach the API at its address on this machine.
        server = f"https://{CLUSTER_ADDRESS}" if SOURCE_POD in request else self._server
        document = self._tokens.issuer.configuration(server)
        return json_response(msgspec.json.encode(document), headers=_PUBLIC)

    async def keys(self, request: web.Request) -> web.Response:
        headers = {**_PUBLIC, "Content-Type": "application/jwk-set+json"}
        return json_response(msgspec.json.encode(self._tokens.issuer.keys()), headers=headers)


async def _access_answer(
    request: web.Request, tree: Tree, user: User, spec: SelfAccessSpec
) -> web.Response:
    policy = await request.app[AUTHORIZER].policy()
    decision = policy.decide(user, _attributes(spec))
    status: Tree = {"allowed": decision.allowed}
    if decision.reason:
        status["reason"] = decision.reason
    return _created({**tree, "status": status})


def _attributes(spec: SelfAccessSpec) -> Attributes:
    resource, path = spec.resourceAttributes, spec.nonResourceAttributes
    if resource is None:
        assert path is not None
        return Attributes(verb=path.verb, path=path.path)
    return Attributes(
        verb=resource.verb,
        group=resource.group,
        version=resource.version,
        namespace=resource.namespace,
        resource=resource.resource or "*",
        subresource=resource.subresource,
        name=resource.name,
    )


def _spec_errors(spec: SelfAccessSpec) -> Iterable[FieldError]:
    resource, path = spec.resourceAttributes, spec.nonResourceAttributes
    if resource is not None and path is not None:
        value = {"Path": path.path, "Verb": path.verb}
        why = "cannot be specified in combination with resourceAttributes"
        yield invalid("spec.nonResourceAttributes", value, why)
    if resource is None and path is None:
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        yield invalid("spec.resourceAttributes", None, why)
    if isinstance(spec, AccessSpec) and not spec.user and not spec.groups:
        yield invalid("spec.user", "", "at least one of user or group must be specified")
    if resource is None:
        return
    for name in ("fieldSelector", "labelSelector"):
        selector: SelectorAttributes | None = getattr(resource, name)
        here = f"spec.resourceAttributes.{name}"
        if selector is None:
            continue
        if selector.rawSelector and selector.requirements:
            why = "may not specified at the same time as requirements"
            yield invalid(f"{here}.rawSelector", selector.rawSelector, why)
        if not selector.rawSelector and not selector.requirements:
            why = f"when {here} is specified, requirements or rawSelector is required"
            yield required(f"{here}.requirements", why)


def _metadata_errors(tree: Tree) -> Iterable[FieldError]:
    if tree["metadata"]:
        yield invalid("metadata", tree["metadata"], "must be empty")


def _local_errors(tree: Tree, spec: AccessSpec, namespace: str) -> Iterable[FieldError]:
    if tree["metadata"].keys() != {"namespace"}:
        yield invalid("metadata", tree["metadata"], "must be empty except for namespace")
    resource, path = spec.resourceAttributes, spec.nonResourceAttributes
    if resource is not None and resource.namespace != namespace:
        why = "must match metadata.namespace"
        yield invalid("spec.resourceAttributes.namespace", resource.namespace, why)
    if path is not None:
        value = {"Path": path.path, "Verb": path.verb}
        yield invalid("spec.nonResourceAttributes", value, "disallowed on this kind of request")


def _refuse(errors: list[FieldError]) -> None:
    """Raises `StatusError` 422 if there is an error."""
    if errors:
        # The API server has no kind in these messages, either.
        raise invalid_fields("", "", errors, "authorization.k8s.io")


def _subject(spec: AccessSpec) -> User:
    return User(spec.user, spec.groups, spec.uid, spec.extra)


def _parts(rule: Struct, names: Iterable[str]) -> Tree:
    return {name: value for name in names if (value := getattr(rule, name))}


def _user_info(user: User) -> Tree:
    info: Tree = {"username": user.name, "uid": user.uid, "groups": user.groups}
    info["extra"] = user.extra
    return {key: value for key, value in info.items() if value}


def _invalid(kind: str, details: StatusDetails, field: str, problem: str) -> StatusError:
    cause = StatusCause(reason="FieldValueInvalid", message=problem, field=field)
    details = msgspec.structs.replace(details, causes=(cause,))
    return StatusError(422, f'{kind} "" is invalid: {field}: {problem}', details=details)


def _created(tree: Tree) -> web.Response:
    return json_response(msgspec.json.encode(tree), code=201)


class _Meta(Struct, frozen=True):
    name: str = ""
    namespace: str = ""


class _Review(Struct, frozen=True):
    kind: str = ""
    apiVersion: str = ""
    metadata: _Meta = _Meta()
    spec: Tree = {}


async def _read(request: web.Request, kind: str, api_version: str, spec: type[S]) -> tuple[Tree, S]:
    """Return the object of a request, with kind, apiVersion, metadata and the known fields of its
    spec, and the decoded spec. Raises `StatusError` 400 and 415."""
    tree = parse_body(request, await request.read(), kind)
    try:
        review = msgspec.convert(without_nulls(tree), _Review)
        if (review.kind or kind, review.apiVersion or api_version) != (kind, api_version):
            raise _cannot_handle(review.kind, review.apiVersion, kind, "unknown conversion")
        decoded = msgspec.convert(review.spec, spec)
    except (msgspec.ValidationError, RecursionError) as error:
        raise _cannot_handle(kind, api_version, kind, str(error)) from error
    meta = {key: value for key, value in msgspec.to_builtins(review.metadata).items() if value}
    head = {"kind": kind, "apiVersion": api_version, "metadata": meta}
    return {**head, "spec": msgspec.to_builtins(decoded)}, decoded


def _cannot_handle(kind: str, api_version: str, wanted: str, problem: str) -> StatusError:
    version = api_version.rpartition("/")[2]
    return bad_request(f'{kind} in version "{version}" cannot be handled as a {wanted}: {problem}')
