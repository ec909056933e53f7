"""The certificates of this machine as a node of a cluster.

With the client certificate, the agent authenticates to the cluster's API server: it comes with the
node's kubeconfig, or is requested with a bootstrap kubeconfig. The serving certificate is that of
the kubelet's server: signed by the cluster, or self-signed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Final, NoReturn

from cryptography import x509

from podtui.agent.cluster_state import certificate_condition
from podtui.agent.signed_certificate import CHECK_SECONDS, SignedCertificate
from podtui.api.names import CLUSTER_UNAVAILABLE
from podtui.api.times import rfc3339
from podtui.api.v1 import NodeAddress, NodeCondition
from podtui.clock import Clock
from podtui.errors import PodtuiError
from podtui.kubeconfig import (
    AuthInfo,
    KubeconfigError,
    Target,
    choose,
    load,
    node_kubeconfig,
)
from podtui.pki.certificate_file import CertificateFile
from podtui.pki.certificates import (
    is_due,
    key_pem,
    make_authority,
    make_key,
    make_server_certificate,
    names_of,
    pem,
    server_names,
)
from podtui.pki.node_certificates import (
    CertificateProfile,
    KeyPair,
    client_profile,
    is_expired,
    read_pair,
    satisfies,
    serving_profile,
)
from podtui.pki.pki import read_parsed
from podtui.private_files import make_directory, write_private
from podtui.settings import Settings

log = logging.getLogger(__name__)

CLIENT_FILE: Final = "kubelet-client"
SERVING_FILE: Final = "kubelet-server"
Addresses = Callable[[], Sequence[NodeAddress]]
"""Returns the addresses of the node's status."""


class NodeCertificates:
    """``target`` is the API server with the credentials of the node. Its certificate may be missing
    until `authenticated` is set."""

    def __init__(
        self,
        settings: Settings,
        kubeconfig: Path,
        start: _Start,
        addresses: Addresses,
        clock: Clock,
    ) -> None:
        self.target = start.target
        self.authenticated = asyncio.Event()
        self._settings = settings
        self._kubeconfig = kubeconfig
        self._addresses = addresses
        self._clock = clock
        self._writes_kubeconfig = start.bootstraps
        self._client: SignedCertificate | None = None
        if start.is_own:
            self._client = SignedCertificate(
                start.file,
                "the client certificate of the node",
                profile=lambda: client_profile(settings.nodeName),
                source=self._credentials,
                clock=clock,
                rotates=settings.rotateCertificates,
                keeps_request=True,
                on_issued=self._on_issued,
            )
            self._client.use(start.pair)
        if not start.bootstraps:
            self.authenticated.set()
        signed = None
        if settings.serverTLSBootstrap and settings.tlsCertFile is None:
            signed = SignedCertificate(
                CertificateFile(settings.pki_path, SERVING_FILE),
                "the serving certificate of the node",
                profile=self._serving_profile,
                source=self._node_credentials,
                clock=clock,
            )
        self.serving = ServingCertificate(
            settings.pki_path, settings.nodeName, addresses, signed, clock
        )

    @classmethod
    async def open(
        cls, settings: Settings, kubeconfig: Path, addresses: Addresses, clock: Clock
    ) -> NodeCertificates:
        """``kubeconfig`` is that of the node; it need not exist if there is a bootstrap kubeconfig.
        Raises `PodtuiError` if the node has no credentials, with what to do."""
        start = await asyncio.to_thread(_start, settings, kubeconfig, clock.now())
        return cls(settings, kubeconfig, start, addresses, clock)

    async def prepare(self) -> None:
        """Make sure that the kubelet's server has a certificate. Raises `PodtuiError`."""
        if self._settings.tlsCertFile is None:
            await self.serving.prepare()

    def condition(self, presented: bytes) -> NodeCondition | None:
        """Return the condition of the client certificate that is presented, in PEM; None without
        one, for instance with a token."""
        rotation = self._rotation()
        if not self.authenticated.is_set():
            text = f"the node has no client certificate yet; {rotation}".removesuffix("; ")
            return NodeCondition(
                type=CLUSTER_UNAVAILABLE, status="True", reason="NoCertificate", message=text
            )
        if not presented:
            return None
        try:
            certificate = x509.load_pem_x509_certificate(presented)
        except ValueError:
            # TLS has its own error about it.
            return None
        return certificate_condition(certificate, self._clock.now(), rotation)

    def _rotation(self) -> str:
        """Return why the client certificate has no successor yet, if that is known."""
        if self._client is None:
            return "podtui does not rotate it"
        if not self._settings.rotateCertificates and self._client.is_valid:
            return "rotateCertificates is false"
        return self._client.problem

    def jobs(self) -> Mapping[str, Callable[[], Awaitable[object]]]:
        """Return the long-running calls, by name."""
        jobs: dict[str, Callable[[], Awaitable[object]]] = {}
        if self._client is not None:
            jobs["client certificate"] = self._client.run
        if self._settings.tlsCertFile is None:
            jobs["serving certificate"] = self.serving.run
        return jobs

    def _serving_profile(self) -> CertificateProfile | None:
        if not self.authenticated.is_set():
            return None
        return serving_profile(self._settings.nodeName, self._addresses())

    async def _node_credentials(self) -> Target:
        return self.target

    async def _credentials(self) -> Target | None:
        """Return the node's own credentials, or those for the bootstrap if they have expired."""
        assert self._client is not None
        if self._client.is_valid:
            return self.target
        path = self._settings.bootstrapKubeconfig
        return None if path is None else await asyncio.to_thread(_target, path)

    async def _on_issued(self) -> None:
        if self._writes_kubeconfig:
            try:
                await asyncio.to_thread(self._write_kubeconfig)
            except OSError as error:
                log.warning(
                    "cannot write %s, so that the next start needs the bootstrap kubeconfig: %s",
                    self._kubeconfig,
                    error,
                )
            else:
                log.info("wrote the kubeconfig of the node to %s", self._kubeconfig)
            self._writes_kubeconfig = False
        self.authenticated.set()

    def _write_kubeconfig(self) -> None:
        certificate = self.target.user.cert_file
        assert certificate is not None
        write_private(self._kubeconfig, node_kubeconfig(self.target.cluster, certificate))


# --- the client certificate at the start


@dataclass(frozen=True, slots=True)
class _Start:
    """``is_own`` means that the certificate is in the root directory, where it is renewed.
    ``bootstraps`` means that it has yet to be requested."""

    target: Target
    file: CertificateFile
    pair: KeyPair | None = None
    is_own: bool = False
    bootstraps: bool = False


def _start(settings: Settings, path: Path, now: datetime) -> _Start:
    """Raises `PodtuiError`."""
    file = CertificateFile(settings.pki_path, CLIENT_FILE)
    profile = client_profile(settings.nodeName)
    problem, given = "", None
    try:
        given = _target(path)
        user = given.user
        if user.cert_file is None and not user.cert_data:
            return _Start(given, file)
        pair = _newest(_pair_of(user), file.read(), profile)
        end = rfc3339(pair.certificate.not_valid_after_utc)
        if not is_expired(pair.certificate, now):
            return _with_certificate(settings, given, file, pair, profile)
        problem = f"{path}: the client certificate expired at {end}"
    except KubeconfigError as error:
        problem = str(error)
    bootstrap = settings.bootstrapKubeconfig
    if bootstrap is None:
        raise PodtuiError(
            f"{problem}. Get a new kubeconfig of the node {settings.nodeName!r}, or pass the"
            " kubeconfig of a bootstrap token with --bootstrap-kubeconfig ('kubeadm token create'"
            " makes such a token)"
        )
    if path.exists():
        log.warning("%s; requesting another one with %s", problem, bootstrap)
    target = _with_file(_target(bootstrap), file.path)
    return _Start(target, file, is_own=True, bootstraps=True)


def _with_certificate(
    settings: Settings,
    given: Target,
    file: CertificateFile,
    pair: KeyPair,
    profile: CertificateProfile,
) -> _Start:
    """Return the start with a valid certificate. Only that of this node is rotated."""
    if not satisfies(pair.certificate, profile):
        log.warning(
            "the client certificate is not that of %s, but of %s: it is not rotated",
            profile.common_name,
            pair.certificate.subject.rfc4514_string(),
        )
        return _Start(given, file)
    is_own = given.user.cert_file == file.path
    if not is_own and not settings.rotateCertificates:
        return _Start(given, file)
    stored = file.read()
    if stored is None or stored.certificate != pair.certificate:
        file.write(pair)
    return _Start(_with_file(given, file.path), file, pair, is_own=True)


def _newest(given: KeyPair, stored: KeyPair | None, profile: CertificateProfile) -> KeyPair:
    """Return the certificate of the kubeconfig, or the one that has replaced it."""
    certificates = [given]
    if stored is not None and satisfies(given.certificate, profile):
        certificates += [stored] if satisfies(stored.certificate, profile) else []
    return max(certificates, key=lambda pair: pair.certificate.not_valid_after_utc)


def _target(path: Path) -> Target:
    return choose(load(path, {}))


def _with_file(target: Target, path: Path) -> Target:
    return replace(
        target, user=AuthInfo(name=target.user.name or "node", cert_file=path, key_file=path)
    )


def _pair_of(user: AuthInfo) -> KeyPair:
    """Raises `KubeconfigError`."""
    try:
        certificate = user.cert_data or (user.cert_file.read_bytes() if user.cert_file else b"")
        key = user.key_data or (user.key_file.read_bytes() if user.key_file else b"")
        return read_pair(certificate if certificate == key else certificate + b"\n" + key)
    except OSError as error:
        raise KubeconfigError(f"{user.position}: {error.filename}: {error.strerror}") from error
    except ValueError as error:
        raise KubeconfigError(
            f"{user.position}: client certificate and key cannot be read: {error}"
        ) from error


# --- the serving certificate


class ServingCertificate:
    """The certificate that the kubelet's server presents: the one that the cluster has signed, or a
    self-signed one while there is none."""

    def __init__(
        self,
        directory: Path,
        node_name: str,
        addresses: Addresses,
        signed: SignedCertificate | None,
        clock: Clock,
    ) -> None:
        self._node_name = node_name
        self._addresses = addresses
        self._signed = signed
        self._clock = clock
        self._self_signed_path = directory / "kubelet.pem"
        self._self_signed: KeyPair | None = None
        self._reported: Path | None = None

    @property
    def path(self) -> Path:
        """The file with the current certificate and its key. Both the path and the content of the
        file may change at any time."""
        if self._signed is not None and self._signed.is_valid:
            return self._signed.file.path
        return self._self_signed_path

    async def prepare(self) -> None:
        """Make sure that `path` can be used. Raises `PodtuiError`."""
        if self._signed is not None and self._self_signed is None:
            self._signed.use(await asyncio.to_thread(self._signed.file.read))
        names = server_names((self._node_name, *(item.address for item in self._addresses())))
        now = self._clock.now()
        if self._self_signed is None or _is_outdated(self._self_signed, names, now):
            self._self_signed = await asyncio.to_thread(self._make, names, now)
        self._report()

    async def run(self) -> NoReturn:
        await self.prepare()
        async with asyncio.TaskGroup() as group:
            if self._signed is not None:
                group.create_task(self._signed.run(), name="signed serving certificate")
            while True:
                await self._clock.sleep(CHECK_SECONDS)
                await self.prepare()

    def _make(self, names: Sequence[str], now: datetime) -> KeyPair:
        """Return the self-signed certificate in the file; another one if it is outdated."""
        path = self._self_signed_path
        try:
            make_directory(path.parent)
            stored = read_parsed(path, read_pair)
            if stored is not None and not _is_outdated(stored, names, now):
                return stored
            authority_key, key = make_key(), make_key()
            # Its authority is not kept: nothing else can be signed in its name.
            authority = make_authority(authority_key, now)
            certificate = make_server_certificate(
                authority, authority_key, key, names, now, self._node_name
            )
            pair = read_pair(pem(certificate) + pem(authority) + key_pem(key))
            write_private(path, pair.pem)
            return pair
        except OSError as error:
            raise PodtuiError(f"cannot store a certificate in {path}: {error}") from error

    def _report(self) -> None:
        """Log which certificate is presented, once for each."""
        path = self.path
        if path == self._reported:
            return
        self._reported = path
        if path != self._self_signed_path:
            log.info("the kubelet server presents the certificate that the cluster has signed")
            return
        log.warning(
            "the kubelet server presents a self-signed certificate, which no client trusts: %s",
            "serverTLSBootstrap is false"
            if self._signed is None
            else "the cluster has not signed another one",
        )


def _is_outdated(pair: KeyPair, names: Sequence[str], now: datetime) -> bool:
    return is_due(pair.certificate, now) or not names_of(pair.certificate) >= set(names)
