"""X.509 certificates of the API server: its own authority, and the server's certificate.

Both have the extensions that RFC 5280 requires, which Python's strict verification checks: critical
basic constraints and key usage of the authority, and key identifiers on both.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_LIFE: Final = timedelta(days=3650)
SERVER_LIFE: Final = timedelta(days=90)
_SKEW: Final = timedelta(hours=1)
"""Certificates are valid earlier, for clients whose clock is behind."""
_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
OWN_NAMES: Final = ("localhost", "127.0.0.1", "::1")
"""The names and addresses of every API server here."""
CLUSTER_ADDRESS: Final = "10.96.0.1"
"""The address of the API for pods: that of the Service ``default/kubernetes``."""


def make_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def make_authority(key: ec.EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
    """Return a self-signed certificate of an authority. A later one with the same key replaces it:
    clients that trust one of them accept what the other signed."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "podtui-ca")])
    public = key.public_key()
    identifier = x509.SubjectKeyIdentifier.from_public_key(public)
    return (
        _builder(name, name, public, now, AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(identifier, critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )


def make_server_certificate(
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    key: ec.EllipticCurvePrivateKey,
    names: Sequence[str],
    now: datetime,
    common_name: str = "podtui-apiserver",
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    public = key.public_key()
    issuer = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return (
        _builder(subject, authority.subject, public, now, SERVER_LIFE)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(map(alternative_name, names)), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer), critical=False
        )
        .sign(authority_key, hashes.SHA256())
    )


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime,
    life: timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + life)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def server_names(extra: Iterable[str]) -> tuple[str, ...]:
    """Return `OWN_NAMES` and those of ``extra`` that are DNS names or addresses."""
    names: list[str] = list(OWN_NAMES)
    for name in extra:
        name = name.lower()
        if name not in names and (is_address(name) or is_dns_name(name)):
            names.append(name)
    return tuple(names)


def cluster_names(domain: str) -> tuple[str, ...]:
    """Return the names and the address of the API for pods. ``domain`` is that of the cluster."""
    service = "kubernetes.default.svc"
    names = ("kubernetes", "kubernetes.default", service)
    return (*names, *([f"{service}.{domain}"] if domain else []), CLUSTER_ADDRESS)


def is_address(name: str) -> bool:
    try:
        return not ipaddress.ip_address(name).is_unspecified
    except ValueError:
        return False


def is_dns_name(name: str) -> bool:
    labels = name.split(".")
    # The last label of a host name is not numeric: it would be read as an IPv4 address.
    well_formed = len(name) <= 253 and all(map(_LABEL.fullmatch, labels))
    return well_formed and not labels[-1].isdigit()


def alternative_name(name: str) -> x509.GeneralName:
    if is_address(name):
        return x509.IPAddress(ipaddress.ip_address(name))
    return x509.DNSName(name)


def names_of(certificate: x509.Certificate) -> frozenset[str]:
    """Return the alternative names of a certificate; empty if it has none."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    return frozenset(
        [
            *names.get_values_for_type(x509.DNSName),
            *map(str, names.get_values_for_type(x509.IPAddress)),
        ]
    )


def is_due(certificate: x509.Certificate, now: datetime) -> bool:
    """Return whether two thirds of the certificate's life have passed, or it is not valid yet."""
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return not begin <= now < begin + (end - begin) * 2 / 3


def is_signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def read_key(data: bytes) -> ec.EllipticCurvePrivateKey:
    """Raises ValueError."""
    try:
        key = serialization.load_pem_private_key(data, password=None)
    except TypeError as error:
        raise ValueError(str(error)) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("not an EC key")
    return key
