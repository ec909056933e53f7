"""Reviews of access (``authorization.k8s.io``, ``authentication.k8s.io``), and requests for tokens.

The objects of these resources are never stored: a request creates one, and the answer is the same
object with a status.
"""

from __future__ import annotations

import json
from typing import Any, Final, TypeVar

import msgspec
from aiohttp import web
from msgspec import Struct

from podtui.api.lenient import without_nulls
from podtui.api.times import rfc3339
from podtui.api.v1 import StatusCause, StatusDetails
from podtui.clock import Clock
from podtui.pki.tokens import InvalidToken
from podtui.server.auth.access import USER
from podtui.server.auth.attributes import Attributes
from podtui.server.auth.service_accounts import (
    DEFAULT_SECONDS,
    LEAST_SECONDS,
    MOST_SECONDS,
    BoundObject,
    TokenRegistry,
)
from podtui.server.auth.users import User, may, rules_of
from podtui.server.encoding.bodies import parse_body
from podtui.server.encoding.media_types import without_table
from podtui.server.status import StatusError, bad_request, json_response

AUTHORIZATION: Final = "authorization.k8s.io/v1"
AUTHENTICATION: Final = "authentication.k8s.io/v1"
S = TypeVar("S", bound=Struct)
Tree = dict[str, Any]
_PUBLIC: Final = {"Cache-Control": "public, max-age=3600"}


class ResourceAttributes(Struct, frozen=True, omit_defaults=True):
    namespace: str = ""
    verb: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""


class PathAttributes(Struct, frozen=True, omit_defaults=True):
    path: str = ""
    verb: str = ""


class AccessSpec(Struct, frozen=True, omit_defaults=True):
    resourceAttributes: ResourceAttributes | None = None
    nonResourceAttributes: PathAttributes | None = None
    user: str = ""
    groups: tuple[str, ...] = ()


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
    """``server`` is the URL of the API, for the OpenID configuration."""

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
        tree, spec = await _read(request, "SelfSubjectAccessReview", AUTHORIZATION, AccessSpec)
        return _access_answer(tree, request[USER], spec)

    async def access(self, request: web.Request) -> web.Response:
        tree, spec = await _read(request, "SubjectAccessReview", AUTHORIZATION, AccessSpec)
        return _access_answer(tree, _subject(spec), spec)

    async def local_access(self, request: web.Request) -> web.Response:
        tree, spec = await _read(request, "LocalSubjectAccessReview", AUTHORIZATION, AccessSpec)
        namespace = request.match_info["namespace"]
        wanted = spec.resourceAttributes
        if wanted is not None and wanted.namespace != namespace:
            raise _invalid_access(
                "spec.resourceAttributes.namespace",
                f'Invalid value: "{wanted.namespace}": must match metadata.namespace',
            )
        return _access_answer(tree, _subject(spec), spec)

    async def self_rules(self, request: web.Request) -> web.Response:
        tree, spec = await _read(request, "SelfSubjectRulesReview", AUTHORIZATION, RulesSpec)
        if not spec.namespace:
            raise bad_request("no namespace on request")
        resources, paths = rules_of(request[USER])
        status = {
            "resourceRules": [
                {"verbs": rule.verbs, "apiGroups": rule.groups, "resources": rule.resources}
                for rule in resources
            ],
            "nonResourceRules": [
                {"verbs": rule.verbs, "nonResourceURLs": rule.paths} for rule in paths
            ],
            "incomplete": False,
        }
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
        document = self._tokens.issuer.configuration(self._server)
        return json_response(msgspec.json.encode(document), headers=_PUBLIC)

    async def keys(self, request: web.Request) -> web.Response:
        headers = {**_PUBLIC, "Content-Type": "application/jwk-set+json"}
        return json_response(msgspec.json.encode(self._tokens.issuer.keys()), headers=headers)


def _access_answer(tree: Tree, user: User, spec: AccessSpec) -> web.Response:
    return _created({**tree, "status": {"allowed": may(user, _attributes(spec))}})


def _attributes(spec: AccessSpec) -> Attributes:
    """Raises `StatusError` 422."""
    resource, path = spec.resourceAttributes, spec.nonResourceAttributes
    if resource is not None and path is not None:
        value = f'{{"Path":{json.dumps(path.path)},"Verb":{json.dumps(path.verb)}}}'
        raise _invalid_access(
            "spec.nonResourceAttributes",
            f"Invalid value: {value}: cannot be specified in combination with resourceAttributes",
        )
    if path is not None:
        return Attributes(verb=path.verb, path=path.path)
    if resource is None:
        raise _invalid_access(
            "spec.resourceAttributes",
            "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must"
            " be specified",
        )
    return Attributes(
        verb=resource.verb,
        group=resource.group,
        version=resource.version,
        namespace=resource.namespace,
        resource=resource.resource or "*",
        subresource=resource.subresource,
        name=resource.name,
    )


def _subject(spec: AccessSpec) -> User:
    """Return the user that a review names. Raises `StatusError` 422."""
    if not spec.user and not spec.groups:
        raise _invalid_access(
            "spec.user", 'Invalid value: "": at least one of user or group must be specified'
        )
    return User(spec.user, spec.groups)


def _user_info(user: User) -> Tree:
    info: Tree = {"username": user.name, "uid": user.uid, "groups": user.groups}
    info["extra"] = user.extra
    return {key: value for key, value in info.items() if value}


def _invalid_access(field: str, problem: str) -> StatusError:
    # The API server has no kind in these messages, either.
    details = StatusDetails(group="authorization.k8s.io")
    return _invalid(".authorization.k8s.io", details, field, problem)


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
