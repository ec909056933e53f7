from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from podtui.pki.certificates import make_key
from podtui.pki.tokens import ISSUER, InvalidToken, Reference, TokenBinding, TokenIssuer

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
KEY = make_key()
ISSUERS = TokenIssuer(KEY)
BINDING = TokenBinding(
    namespace="team",
    serviceaccount=Reference("robot", "u-1"),
    pod=Reference("web", "u-2"),
    node=Reference("n1", "u-3"),
)


def part(token: str, index: int) -> bytes:
    text = token.split(".")[index]
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def test_the_claims_match_kubernetes() -> None:
    token, claims = ISSUERS.issue(BINDING, (), 3600, NOW)
    at = int(NOW.timestamp())
    assert json.loads(part(token, 1)) == {
        "aud": [ISSUER],
        "exp": at + 3600,
        "iat": at,
        "iss": ISSUER,
        "jti": claims.jti,
        "kubernetes.io": {
            "namespace": "team",
            "serviceaccount": {"name": "robot", "uid": "u-1"},
            "pod": {"name": "web", "uid": "u-2"},
            "node": {"name": "n1", "uid": "u-3"},
        },
        "nbf": at,
        "sub": "system:serviceaccount:team:robot",
    }
    assert json.loads(part(token, 0)) == {"alg": "ES256", "kid": ISSUERS.keys()["keys"][0]["kid"]}
    assert ISSUERS.verify(token, (ISSUER,), NOW) == claims
    assert ISSUERS.issue(BINDING, (), 3600, NOW)[1].jti != claims.jti


def test_the_published_key_verifies_a_token() -> None:
    token, _ = ISSUERS.issue(BINDING, (), 3600, NOW)
    (key,) = ISSUERS.keys()["keys"]
    x, y = (int.from_bytes(part(f".{key[name]}", 1), "big") for name in "xy")
    public = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
    signature = part(token, 2)
    r, s = (int.from_bytes(half, "big") for half in (signature[:32], signature[32:]))
    signed = token.rpartition(".")[0].encode()
    public.verify(encode_dss_signature(r, s), signed, ec.ECDSA(hashes.SHA256()))
    configuration = ISSUERS.configuration("https://127.0.0.1:1")
    assert configuration["issuer"] == ISSUER
    assert configuration["jwks_uri"] == "https://127.0.0.1:1/openid/v1/jwks"


@pytest.mark.parametrize(
    ("seconds", "valid"), [(-1, False), (0, True), (3599, True), (3600, False), (10**9, False)]
)
def test_time(seconds: int, valid: bool) -> None:
    token, claims = ISSUERS.issue(BINDING, (), 3600, NOW)
    at = NOW + timedelta(seconds=seconds)
    if valid:
        assert ISSUERS.verify(token, (ISSUER,), at) == claims
    else:
        with pytest.raises(InvalidToken):
            ISSUERS.verify(token, (ISSUER,), at)


def test_audiences() -> None:
    token, _ = ISSUERS.issue(BINDING, ("a", "b"), 3600, NOW)
    ISSUERS.verify(token, ("x", "b"), NOW)
    with pytest.raises(InvalidToken) as caught:
        ISSUERS.verify(token, ("x",), NOW)
    assert str(caught.value) == (
        '[invalid bearer token, token audiences ["a" "b"] is invalid for the target audiences'
        ' ["x"]]'
    )


def test_another_issuer_or_key() -> None:
    token, _ = ISSUERS.issue(BINDING, (), 3600, NOW)
    for other in (TokenIssuer(make_key()), TokenIssuer(KEY, "https://other.example")):
        with pytest.raises(InvalidToken):
            other.verify(token, (ISSUER,), NOW)


@pytest.mark.parametrize(
    "header",
    [
        {"alg": "none"}, {"alg": "HS256"}, {"alg": "ES256"}, {"alg": "ES256", "kid": "other"}, [],
        {"alg": "ES256", "jwk": {}},
    ],
)  # fmt: skip
def test_no_other_algorithm(header: object) -> None:
    token, _ = ISSUERS.issue(BINDING, (), 3600, NOW)
    _, body, signature = token.split(".")
    head = encoded(json.dumps(header).encode())
    for forged in (f"{head}.{body}.{signature}", f"{head}.{body}."):
        with pytest.raises(InvalidToken):
            ISSUERS.verify(forged, (ISSUER,), NOW)


@examples(200)
@given(st.data())
def test_no_byte_can_be_changed(data: st.DataObject) -> None:
    token, _ = ISSUERS.issue(BINDING, (), 3600, NOW)
    at = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.characters().filter(lambda char: char != token[at]))
    with pytest.raises(InvalidToken):
        ISSUERS.verify(token[:at] + other + token[at + 1 :], (ISSUER,), NOW)


@examples(200)
@given(st.text())
def test_any_text_is_refused_and_not_quoted(text: str) -> None:
    for token in (
        text,
        f"{text}.{text}.{text}",
        f"{encoded(text.encode(errors='replace'))}.e30.e30",
    ):
        with pytest.raises(InvalidToken) as caught:
            ISSUERS.verify(token, (ISSUER,), NOW)
        assert str(caught.value) == "invalid bearer token"
