"""Requests for a node's certificates, their answers, and times of renewal."""

from __future__ import annotations

import base64
import contextlib
import hashlib
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from cluster_server import Authority
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import NameOID
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from podtui.api.v1 import NodeAddress
from podtui.pki.certificates import key_pem, make_key
from podtui.pki.node_certificates import (
    CertificateProfile,
    Issued,
    Pending,
    Refused,
    answer_of,
    client_profile,
    conflict,
    is_expired,
    issued_pair,
    read_pair,
    renewal_time,
    request_name,
    satisfies,
    serving_profile,
    signing_request,
)

NOW = datetime(2026, 11, 28, 10, tzinfo=UTC)
AUTHORITY = Authority()
KEY = make_key()
CLIENT = client_profile("node-1")


def addresses(*pairs: tuple[str, str]) -> list[NodeAddress]:
    return [NodeAddress(type=kind, address=address) for kind, address in pairs]


def request_of(profile: CertificateProfile) -> bytes:
    return base64.b64decode(signing_request(profile, KEY)["spec"]["request"])


def issued(profile: CertificateProfile, begin: datetime = NOW, hours: float = 10) -> bytes:
    return AUTHORITY.sign(request_of(profile), begin, begin + timedelta(hours=hours))


def base64_text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_the_request_of_a_client_certificate() -> None:
    content = signing_request(CLIENT, KEY, "node-csr-1")
    assert content["apiVersion"] == "certificates.k8s.io/v1"
    assert content["metadata"] == {"name": "node-csr-1"}
    spec = content["spec"]
    assert spec["signerName"] == "kubernetes.io/kube-apiserver-client-kubelet"
    assert spec["usages"] == ["digital signature", "client auth"]
    request = x509.load_pem_x509_csr(base64.b64decode(spec["request"]))
    assert request.is_signature_valid
    assert request.public_key() == KEY.public_key()
    assert [(item.oid, item.value) for item in request.subject] == [
        (NameOID.ORGANIZATION_NAME, "system:nodes"),
        (NameOID.COMMON_NAME, "system:node:node-1"),
    ]
    # The signer of client certificates refuses requests with alternative names.
    assert not list(request.extensions)


def test_the_request_of_a_serving_certificate() -> None:
    profile = serving_profile(
        "node-1",
        addresses(
            ("InternalIP", "192.0.2.7"),
            ("InternalIP", "2001:DB8::7"),
            ("Hostname", "node-1"),
            ("ExternalDNS", "node-1.example.org"),
            ("InternalDNS", "not a name"),
        ),
    )
    assert profile is not None
    content = signing_request(profile, KEY)
    assert content["metadata"] == {"generateName": "csr-"}
    assert content["spec"]["signerName"] == "kubernetes.io/kubelet-serving"
    assert content["spec"]["usages"] == ["digital signature", "server auth"]
    request = x509.load_pem_x509_csr(base64.b64decode(content["spec"]["request"]))
    names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["node-1", "node-1.example.org"]
    ips = [str(address) for address in names.get_values_for_type(x509.IPAddress)]
    assert ips == ["192.0.2.7", "2001:db8::7"]


@pytest.mark.parametrize(
    "given_addresses",
    [[], [("Hostname", "node-1")], [("InternalIP", "0.0.0.0"), ("InternalIP", "")]],
)
def test_a_node_without_address_requests_no_serving_certificate(
    given_addresses: list[tuple[str, str]],
) -> None:
    assert serving_profile("node-1", addresses(*given_addresses)) is None


def test_an_address_as_host_name_is_an_address() -> None:
    profile = serving_profile("192.0.2.7", addresses(("Hostname", "192.0.2.7")))
    assert profile is not None
    assert profile.names == ("192.0.2.7",)


def test_the_name_of_a_request_is_the_digest_of_its_contents() -> None:
    der = KEY.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    parts = [der, b"system:node:node-1", b"system:nodes", b"digital signature", b"client auth"]
    encoded = [base64.urlsafe_b64encode(part).rstrip(b"=") for part in parts]
    digest = hashlib.new("sha512_256", b"".join(part + b"|" for part in encoded)).digest()
    expected = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    assert request_name(CLIENT, KEY) == f"node-csr-{expected}"
    assert request_name(CLIENT, make_key()) != request_name(CLIENT, KEY)
    assert request_name(client_profile("node-2"), KEY) != request_name(CLIENT, KEY)


APPROVED = {"type": "Approved", "status": "True", "reason": "AutoApproved", "message": "ok"}


def answered(*conditions: dict[str, str], certificate: bytes | None = None) -> dict[str, object]:
    status: dict[str, object] = {"conditions": list(conditions)}
    if certificate is not None:
        status["certificate"] = base64.b64encode(certificate).decode()
    return {"spec": {"request": ""}, "status": status}


def test_answers() -> None:
    assert answer_of({"spec": {"request": ""}, "status": {}}) == Pending(False)
    assert answer_of({"spec": {"request": ""}, "status": None}) == Pending(False)
    assert answer_of(answered(APPROVED)) == Pending(True)
    assert answer_of(answered(APPROVED, certificate=b"pem")) == Issued(b"pem")
    # A signer may be faster than the approval.
    assert answer_of(answered(certificate=b"pem")) == Pending(False)
    denied = {"type": "Denied", "status": "True", "reason": "Unknown", "message": "not this one"}
    assert answer_of(answered(denied)) == Refused(
        "certificate signing request is denied, reason: Unknown, message: not this one"
    )
    failed = {"type": "Failed", "status": "True", "reason": "SignerValidationFailure"}
    assert answer_of(answered(APPROVED, failed, certificate=b"pem")) == Refused(
        "certificate signing request failed, reason: SignerValidationFailure, message: "
    )
    for damaged in ({}, {"spec": {"request": ""}, "status": {"certificate": "%"}}):
        with pytest.raises(msgspec.ValidationError):
            answer_of(damaged)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.binary().map(base64_text),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                "spec status request signerName certificate conditions type reason message".split()
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@examples(500)
@given(spec=VALUES, status=VALUES)
def test_any_answer_is_read_or_refused(spec: object, status: object) -> None:
    content = {"spec": spec, "status": status}
    for read in (answer_of, lambda item: conflict(item, CLIENT, KEY, NOW)):
        with contextlib.suppress(msgspec.ValidationError):
            read(content)


def test_an_existing_request_is_used_only_if_it_is_ours() -> None:
    ours = signing_request(CLIENT, KEY, "n")
    assert conflict(ours, CLIENT, KEY, NOW) == ""
    assert "another subject" in conflict(ours, client_profile("node-2"), KEY, NOW)
    assert "another key" in conflict(ours, CLIENT, make_key(), NOW)
    other = ours | {"spec": ours["spec"] | {"signerName": "example.org/signer"}}
    assert conflict(other, CLIENT, KEY, NOW) == "its signer is 'example.org/signer'"
    damaged = ours | {"spec": ours["spec"] | {"request": "bm90IHBlbQ=="}}
    assert "cannot be read" in conflict(damaged, CLIENT, KEY, NOW)
    status = {"certificate": base64.b64encode(issued(CLIENT, hours=1)).decode()}
    signed = ours | {"status": status}
    assert conflict(signed, CLIENT, KEY, NOW) == ""
    assert conflict(signed, CLIENT, KEY, NOW + timedelta(hours=2)) == "its certificate has expired"


def test_an_issued_certificate_must_be_usable() -> None:
    chain = issued(CLIENT) + AUTHORITY.pem
    pair = issued_pair(chain, key_pem(KEY), CLIENT, NOW)
    assert read_pair(pair.pem) == pair
    assert pair.pem.count(b"BEGIN CERTIFICATE") == 2
    assert b"BEGIN" not in repr(pair).encode()
    with pytest.raises(ValueError, match="do not match"):
        issued_pair(chain, key_pem(make_key()), CLIENT, NOW)
    with pytest.raises(ValueError, match="not the subject"):
        issued_pair(issued(client_profile("node-2")), key_pem(KEY), CLIENT, NOW)
    with pytest.raises(ValueError, match="expired since 2026-11-28T11:00:00Z; check the clocks"):
        issued_pair(issued(CLIENT, hours=1), key_pem(KEY), CLIENT, NOW + timedelta(hours=2))
    with pytest.raises(ValueError, match="PEM"):
        issued_pair(b"not pem", key_pem(KEY), CLIENT, NOW)


def test_a_certificate_satisfies_a_profile_with_fewer_names() -> None:
    wide = serving_profile("n", addresses(("InternalIP", "192.0.2.7"), ("Hostname", "n")))
    narrow = serving_profile("n", addresses(("InternalIP", "192.0.2.7")))
    assert wide is not None
    assert narrow is not None
    certificate = x509.load_pem_x509_certificate(issued(wide))
    assert satisfies(certificate, wide)
    assert satisfies(certificate, narrow)
    assert not satisfies(x509.load_pem_x509_certificate(issued(narrow)), wide)
    assert not satisfies(x509.load_pem_x509_certificate(AUTHORITY.pem), narrow)


@examples(100)
@given(share=st.floats(0, 1), hours=st.integers(1, 100_000))
def test_a_certificate_is_renewed_between_70_and_90_percent_of_its_life(
    share: float, hours: int
) -> None:
    certificate = x509.load_pem_x509_certificate(issued(CLIENT, hours=hours))
    life = timedelta(hours=hours)
    moment, tolerance = renewal_time(certificate, share), timedelta(seconds=1)
    assert NOW + life * 0.7 - tolerance <= moment <= NOW + life * 0.9 + tolerance
    assert not is_expired(certificate, moment)
    assert not is_expired(certificate, NOW + life)
    assert is_expired(certificate, NOW + life + tolerance)


def test_the_share_spreads_renewals_over_the_whole_range() -> None:
    certificate = x509.load_pem_x509_certificate(issued(CLIENT, hours=100))
    assert renewal_time(certificate, 0) == NOW + timedelta(hours=70)
    assert renewal_time(certificate, 0.5) == NOW + timedelta(hours=80)
    assert renewal_time(certificate, 1) == NOW + timedelta(hours=90)
