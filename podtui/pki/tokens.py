"""Tokens of service accounts: signed JSON Web Tokens, bound to the objects that they are for.

The claims are those of Kubernetes. A token is valid until it expires; whether its service account
and its pod still exist is for the server to check.
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, cast

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature,
    encode_dss_signature,
)
from msgspec import Struct

from podtui.errors import PodtuiError

ISSUER: Final = "https://kubernetes.default.svc.cluster.local"
"""The issuer of a cluster that was set up by kubeadm."""
ALGORITHM: Final = "ES256"
LEGACY_ISSUER: Final = "kubernetes/serviceaccount"
_LEGACY: Final = "kubernetes.io/serviceaccount/"
_INTEGER: Final = 32
_LONGEST: Final = 16 * 1024


class InvalidToken(PodtuiError):
    """Raised for a token that is not valid; the text never quotes it."""


class Reference(Struct, frozen=True):
    name: str
    uid: str = ""


class TokenBinding(Struct, frozen=True, kw_only=True):
    """The claim ``kubernetes.io``: what a token is for."""

    namespace: str
    serviceaccount: Reference
    pod: Reference | None = None
    secret: Reference | None = None
    node: Reference | None = None


class Claims(Struct, frozen=True, kw_only=True):
    """The claims of a token; times are seconds since 1970."""

    aud: tuple[str, ...]
    exp: int
    iat: int
    iss: str
    jti: str
    binding: TokenBinding = msgspec.field(name="kubernetes.io")
    nbf: int
    sub: str

    @property
    def expires(self) -> datetime:
        return datetime.fromtimestamp(self.exp, UTC)


class LegacyClaims(Struct, frozen=True, kw_only=True):
    """The claims of a token in a Secret, which is valid as long as the Secret exists."""

    iss: str
    sub: str
    namespace: str = msgspec.field(name=f"{_LEGACY}namespace")
    secret: str = msgspec.field(name=f"{_LEGACY}secret.name")
    account: str = msgspec.field(name=f"{_LEGACY}service-account.name")
    uid: str = msgspec.field(name=f"{_LEGACY}service-account.uid")


class _Issued(Struct, frozen=True):
    iss: str


class TokenIssuer:
    """Signs and verifies tokens with one key. ``audience`` is that of the API server."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, issuer: str = ISSUER) -> None:
        self._key = key
        self._public = key.public_key()
        self.issuer = issuer
        encoded = self._public.public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        self._key_id = _base64(hashlib.sha256(encoded).digest())

    @property
    def audience(self) -> str:
        return self.issuer

    def issue(
        self, binding: TokenBinding, audiences: Sequence[str], seconds: int, now: datetime
    ) -> tuple[str, Claims]:
        """Return a new token and its claims. Without audiences it is for the API server."""
        at = int(now.timestamp())
        claims = Claims(
            aud=tuple(audiences) or (self.audience,),
            exp=at + seconds,
            iat=at,
            iss=self.issuer,
            jti=str(uuid.uuid4()),
            binding=binding,
            nbf=at,
            sub=_user(binding.namespace, binding.serviceaccount.name),
        )
        return self._signed(_without_empty(msgspec.to_builtins(claims))), claims

    def issue_legacy(self, namespace: str, account: Reference, secret: str) -> str:
        """Return the token of a Secret."""
        claims = LegacyClaims(
            iss=LEGACY_ISSUER,
            sub=_user(namespace, account.name),
            namespace=namespace,
            secret=secret,
            account=account.name,
            uid=account.uid,
        )
        return self._signed(msgspec.to_builtins(claims))

    def _signed(self, claims: dict[str, Any]) -> str:
        head = {"alg": ALGORITHM, "kid": self._key_id}
        signed = f"{_base64(_json(head))}.{_base64(_json(claims))}".encode()
        r, s = decode_dss_signature(self._key.sign(signed, ec.ECDSA(hashes.SHA256())))
        signature = r.to_bytes(_INTEGER, "big") + s.to_bytes(_INTEGER, "big")
        return f"{signed.decode()}.{_base64(signature)}"

    def verify(self, token: str, audiences: Sequence[str], now: datetime) -> Claims | LegacyClaims:
        """Return the claims of a token for one of ``audiences``; one of a Secret is for the API
        server. Raises `InvalidToken`."""
        if len(token) > _LONGEST or token.count(".") != 2:
            raise InvalidToken("invalid bearer token")
        signed, _, signature = token.rpartition(".")
        head, _, body = signed.partition(".")
        try:
            header = json.loads(_bytes(head))
            if header != {"alg": ALGORITHM, "kid": self._key_id}:
                raise InvalidToken("invalid bearer token")
            self._check(signed.encode("ascii"), _bytes(signature))
            decoded = _bytes(body)
            is_legacy = msgspec.json.decode(decoded, type=_Issued).iss == LEGACY_ISSUER
            claims = msgspec.json.decode(decoded, type=LegacyClaims if is_legacy else Claims)
        except (ValueError, RecursionError, InvalidSignature) as error:
            raise InvalidToken("invalid bearer token") from error
        if isinstance(claims, LegacyClaims):
            self._check_audience((self.audience,), audiences)
            return claims
        at = now.timestamp()
        if claims.iss != self.issuer:
            raise InvalidToken("invalid bearer token")
        if at < claims.nbf:
            raise InvalidToken("invalid bearer token, token is not valid yet")
        if at >= claims.exp:
            raise InvalidToken("invalid bearer token, service account token has expired")
        self._check_audience(claims.aud, audiences)
        return claims

    def _check_audience(self, granted: Sequence[str], wanted: Sequence[str]) -> None:
        if not set(granted) & set(wanted):
            raise InvalidToken(
                f"[invalid bearer token, token audiences {_listed(granted)} is invalid for the"
                f" target audiences {_listed(wanted)}]"
            )

    def _check(self, signed: bytes, signature: bytes) -> None:
        """Raises InvalidSignature."""
        if len(signature) != 2 * _INTEGER:
            raise InvalidSignature
        r, s = (
            int.from_bytes(part, "big") for part in (signature[:_INTEGER], signature[_INTEGER:])
        )
        self._public.verify(encode_dss_signature(r, s), signed, ec.ECDSA(hashes.SHA256()))

    def keys(self) -> dict[str, Any]:
        """Return the JSON Web Key Set, with which others verify tokens."""
        numbers = self._public.public_numbers()
        key = {
            "use": "sig",
            "kty": "EC",
            "kid": self._key_id,
            "crv": "P-256",
            "alg": ALGORITHM,
            "x": _base64(numbers.x.to_bytes(_INTEGER, "big")),
            "y": _base64(numbers.y.to_bytes(_INTEGER, "big")),
        }
        return {"keys": [key]}

    def configuration(self, server: str) -> dict[str, Any]:
        """Return the OpenID configuration; ``server`` is the URL of the API server."""
        return {
            "issuer": self.issuer,
            "jwks_uri": f"{server}/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [ALGORITHM],
        }


def _user(namespace: str, account: str) -> str:
    return f"system:serviceaccount:{namespace}:{account}"


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _without_empty(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    items = cast("dict[str, Any]", tree).items()
    return {key: _without_empty(value) for key, value in items if value is not None}


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    """Raises ValueError, also for other encodings of the same bytes."""
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if _base64(data) != text:
        raise ValueError("not base64url")
    return data


def _listed(values: Sequence[str]) -> str:
    return f"[{' '.join(json.dumps(value) for value in values)}]"
