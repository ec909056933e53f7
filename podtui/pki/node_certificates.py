"""The certificates that a cluster signs for a node: requests, answers, and times of renewal.

These are plain functions of what the kubelet does (``pkg/kubelet/certificate`` and client-go's
``util/certificate``). Keys are EC keys, so ``key encipherment``, which a kubelet adds for RSA keys,
is never among the usages.
"""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from podtui.api.lenient import lenient_convert
from podtui.api.times import rfc3339
from podtui.api.v1 import NodeAddress
from podtui.pki.certificates import alternative_name, is_address, is_dns_name, names_of, pem

API_VERSION: Final = "certificates.k8s.io/v1"
KIND: Final = "CertificateSigningRequest"
CLIENT_SIGNER: Final = "kubernetes.io/kube-apiserver-client-kubelet"
SERVING_SIGNER: Final = "kubernetes.io/kubelet-serving"
ORGANIZATION: Final = "system:nodes"
_EARLIEST, _SPREAD = 0.7, 0.2
"""A certificate is renewed between 70 and 90 percent of its life."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateProfile:
    """The contents of a certificate to request; ``names`` are DNS names and addresses."""

    signer: str
    common_name: str
    usages: tuple[str, ...]
    names: tuple[str, ...] = ()

    @property
    def subject(self) -> x509.Name:
        return x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANIZATION),
                x509.NameAttribute(NameOID.COMMON_NAME, self.common_name),
            ]
        )


def client_profile(node_name: str) -> CertificateProfile:
    """Return the profile of the certificate with which a node authenticates."""
    return CertificateProfile(
        signer=CLIENT_SIGNER,
        common_name=f"system:node:{node_name}",
        usages=("digital signature", "client auth"),
    )


def serving_profile(node_name: str, addresses: Iterable[NodeAddress]) -> CertificateProfile | None:
    """Return the profile of the certificate of a node's server; None while the node has no IP
    address, which the signer requires."""
    names: set[str] = set()
    numbers: set[str] = set()
    for item in addresses:
        if is_address(item.address) and item.type in ("Hostname", "InternalIP", "ExternalIP"):
            numbers.add(str(ipaddress.ip_address(item.address)))
        elif item.type in ("Hostname", "InternalDNS", "ExternalDNS") and is_dns_name(
            item.address.lower()
        ):
            names.add(item.address)
    if not numbers:
        return None
    return CertificateProfile(
        signer=SERVING_SIGNER,
        common_name=f"system:node:{node_name}",
        usages=("digital signature", "server auth"),
        names=(*sorted(names), *sorted(numbers)),
    )


# --- key and certificate


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate with its private key. ``pem`` has the certificate, those of intermediate
    authorities, and the key."""

    certificate: x509.Certificate
    pem: bytes = field(repr=False)


def read_pair(data: bytes) -> KeyPair:
    """Read the first certificate and the key of PEM data. Raises ValueError."""
    certificate = x509.load_pem_x509_certificates(data)[0]
    try:
        key = serialization.load_pem_private_key(data, password=None)
    except TypeError as error:
        raise ValueError(str(error)) from error
    if certificate.public_key() != key.public_key():
        raise ValueError("certificate and key do not match")
    return KeyPair(certificate, data)


def issued_pair(chain: bytes, key: bytes, profile: CertificateProfile, now: datetime) -> KeyPair:
    """Return an issued certificate with its key, both as PEM. Raises ValueError if the certificate
    cannot be used: the signer may have issued anything."""
    certificates = x509.load_pem_x509_certificates(chain)
    pair = read_pair(b"".join(map(pem, certificates)) + key)
    if not satisfies(pair.certificate, profile):
        raise ValueError("it has not the subject or the names that were requested")
    if is_expired(pair.certificate, now):
        end = rfc3339(pair.certificate.not_valid_after_utc)
        raise ValueError(f"it has been expired since {end}; check the clocks of both machines")
    return pair


def satisfies(certificate: x509.Certificate, profile: CertificateProfile) -> bool:
    """Return whether a certificate has the subject and the names of a profile, and perhaps more."""
    subject = certificate.subject
    names = [item.value for item in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    groups = [item.value for item in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    return (
        names == [profile.common_name]
        and ORGANIZATION in groups
        and frozenset(profile.names) <= names_of(certificate)
    )


def is_expired(certificate: x509.Certificate, now: datetime) -> bool:
    return now > certificate.not_valid_after_utc


def renewal_time(certificate: x509.Certificate, share: float) -> datetime:
    """Return when to renew a certificate. ``share`` is a random number from 0 to 1, so that the
    nodes of a cluster do not renew all at once."""
    begin = certificate.not_valid_before_utc
    life = certificate.not_valid_after_utc - begin
    return begin + life * (_EARLIEST + _SPREAD * share)


# --- requests


def signing_request(
    profile: CertificateProfile, key: ec.EllipticCurvePrivateKey, name: str = ""
) -> dict[str, Any]:
    """Return the CertificateSigningRequest. Without a name, the API server chooses one."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(profile.subject)
    if profile.names:
        names = x509.SubjectAlternativeName(map(alternative_name, profile.names))
        builder = builder.add_extension(names, critical=False)
    request = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name} if name else {"generateName": "csr-"},
        "spec": {
            "request": base64.b64encode(request).decode(),
            "signerName": profile.signer,
            "usages": list(profile.usages),
        },
    }


def request_name(profile: CertificateProfile, key: ec.EllipticCurvePrivateKey) -> str:
    """Return the name of a bootstrap request: a digest of its contents, so that a node finds its
    own request after a restart. The alternative names are not part of it."""
    digest = hashes.Hash(hashes.SHA512_256())
    public = key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    texts = (profile.common_name, ORGANIZATION, *profile.usages)
    for part in (public, *(text.encode() for text in texts)):
        digest.update(_base64(part) + b"|")
    return f"node-csr-{_base64(digest.finalize()).decode()}"


def _base64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


# --- answers


class _Condition(msgspec.Struct, frozen=True):
    type: str
    reason: str = ""
    message: str = ""


class _Status(msgspec.Struct, frozen=True):
    certificate: bytes = b""
    conditions: tuple[_Condition, ...] = ()


class _Spec(msgspec.Struct, frozen=True):
    request: bytes
    signerName: str = ""


class _Request(msgspec.Struct, frozen=True):
    spec: _Spec
    status: _Status = _Status()


@dataclass(frozen=True, slots=True)
class Pending:
    """``approved`` means that only the signer has not acted yet."""

    approved: bool


@dataclass(frozen=True, slots=True)
class Issued:
    """``chain`` is PEM."""

    chain: bytes


@dataclass(frozen=True, slots=True)
class Refused:
    """The request will never be signed."""

    message: str


def answer_of(content: Mapping[str, Any]) -> Pending | Issued | Refused:
    """Return what became of a CertificateSigningRequest. Raises `msgspec.ValidationError` if it
    cannot be read."""
    status = lenient_convert(content, _Request).status
    for condition in status.conditions:
        verb = {"Denied": "is denied", "Failed": "failed"}.get(condition.type)
        if verb is not None:
            return Refused(
                f"certificate signing request {verb}, reason: {condition.reason},"
                f" message: {condition.message}"
            )
    approved = any(condition.type == "Approved" for condition in status.conditions)
    if approved and status.certificate:
        return Issued(status.certificate)
    return Pending(approved)


def conflict(
    content: Mapping[str, Any],
    profile: CertificateProfile,
    key: ec.EllipticCurvePrivateKey,
    now: datetime,
) -> str:
    """Return why an existing CertificateSigningRequest with the name of ours cannot be used; empty
    if it can. Raises `msgspec.ValidationError` if it cannot be read."""
    request = lenient_convert(content, _Request)
    try:
        existing = x509.load_pem_x509_csr(request.spec.request)
        expired = [
            certificate
            for certificate in _certificates(request.status.certificate)
            if is_expired(certificate, now)
        ]
    except ValueError as error:
        return f"it cannot be read: {error}"
    if existing.subject != profile.subject:
        return "it has another subject"
    if request.spec.signerName != profile.signer:
        return f"its signer is {request.spec.signerName!r}"
    if existing.public_key() != key.public_key() or not existing.is_signature_valid:
        return "it is signed with another key"
    if expired:
        return "its certificate has expired"
    return ""


def _certificates(data: bytes) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(data) if data else []
