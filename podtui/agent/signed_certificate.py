"""A certificate that a cluster signs: requested, waited for, and renewed before it expires."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from datetime import datetime
from typing import Final, NoReturn, cast

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec

from podtui.api.times import rfc3339
from podtui.client.any_kind import AnyObject, ServedKind
from podtui.client.cluster import ClusterClient
from podtui.client.protocol import Lost, Removed, Synced
from podtui.clock import Clock
from podtui.errors import ApiError, PodtuiError, is_reported
from podtui.kubeconfig import Target
from podtui.pki.certificate_file import CertificateFile
from podtui.pki.certificates import key_pem, make_key
from podtui.pki.node_certificates import (
    API_VERSION,
    KIND,
    CertificateProfile,
    Issued,
    KeyPair,
    Refused,
    answer_of,
    conflict,
    is_expired,
    issued_pair,
    renewal_time,
    request_name,
    satisfies,
    signing_request,
)

log = logging.getLogger(__name__)

REQUESTS: Final = ServedKind(
    api_version=API_VERSION,
    kind=KIND,
    plural="certificatesigningrequests",
    singular="certificatesigningrequest",
    short_names=("csr",),
    namespaced=False,
    verbs=frozenset(("create", "get", "list", "watch")),
)
CHECK_SECONDS: Final = 10.0
"""The wall clock may jump, and the node's addresses may change."""
APPROVAL_SECONDS: Final = 900.0
FIRST_RETRY: Final = 2.0
LAST_RETRY: Final = 32.0
REFUSED_SECONDS: Final = 300.0
"""The pause after a refusal: each further request is one more object in the cluster."""
_JITTER: Final = 0.1


class RequestRefused(PodtuiError):
    """Raised for a request that will never be signed: only another one can succeed."""


class SignedCertificate:
    """The certificate of a profile, in a file.

    ``profile`` returns None as long as no certificate can be requested. ``source`` returns the
    credentials for a request, or None if there are none. With ``keeps_request``, a restarted agent
    continues with its own request. ``rotates`` is whether the certificate is renewed before it
    expires. ``on_issued`` is called after the file has changed.
    """

    def __init__(
        self,
        file: CertificateFile,
        name: str,
        *,
        profile: Callable[[], CertificateProfile | None],
        source: Callable[[], Awaitable[Target | None]],
        clock: Clock,
        rotates: bool = True,
        keeps_request: bool = False,
        on_issued: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.file = file
        self.pair: KeyPair | None = None
        """The current certificate, which may have expired."""
        self.problem = ""
        """Why it has no successor yet: the last attempt failed, or waits; empty if neither."""
        self._name = name
        self._profile = profile
        self._source = source
        self._clock = clock
        self._rotates = rotates
        self._keeps_request = keeps_request
        self._on_issued = on_issued
        self._random = random.SystemRandom()
        self._renewal: datetime | None = None

    def use(self, pair: KeyPair | None) -> None:
        """Take over the current content of the file."""
        self.pair = pair
        self._renewal = (
            None if pair is None else renewal_time(pair.certificate, self._random.random())
        )

    @property
    def is_valid(self) -> bool:
        return self.pair is not None and not is_expired(self.pair.certificate, self._clock.now())

    def is_due(self, profile: CertificateProfile) -> bool:
        """Return whether a certificate is to be requested now."""
        if self.pair is None or not self.is_valid:
            return True
        if not satisfies(self.pair.certificate, profile):
            return True
        return self._rotates and self._renewal is not None and self._clock.now() >= self._renewal

    async def run(self) -> NoReturn:
        failures, problem = 0, ""
        reported = False
        while True:
            profile = self._profile()
            if profile is None or not self.is_due(profile):
                failures, problem, reported = 0, "", False
                self.problem = ""
                await self._clock.sleep(CHECK_SECONDS)
                continue
            try:
                target = await self._source()
                if target is None:
                    # The user may replace the file.
                    reported = await self._without_credentials(reported)
                    continue
                await self._renew(profile, target)
                failures = 0
            except PodtuiError as error:
                failures += 1
                if is_reported(failures) or str(error) != problem:
                    self._report(error, failures)
                problem = self.problem = str(error)
                await self._clock.sleep(self._pause(error, failures))

    async def _without_credentials(self, reported: bool) -> bool:
        """Wait for another file; report once that there are no credentials for a request."""
        if not reported:
            log.error(
                "%s has expired, and there is no bootstrap kubeconfig to request another one: the"
                " cluster refuses this node. Pass the kubeconfig of a bootstrap token with"
                " --bootstrap-kubeconfig, or a new kubeconfig of the node",
                self._name,
            )
        self.problem = "there is no bootstrap kubeconfig to request another one"
        await self._clock.sleep(CHECK_SECONDS)
        pair = await asyncio.to_thread(self.file.read)
        if pair is not None and not is_expired(pair.certificate, self._clock.now()):
            await self._take_over(pair)
        return True

    def _report(self, error: PodtuiError, failures: int) -> None:
        end = ""
        if self.pair is not None:
            verb = "expires" if self.is_valid else "expired"
            end = f", which {verb} at {rfc3339(self.pair.certificate.not_valid_after_utc)}"
        log.warning(
            "cannot get %s%s (attempt %d): %s",
            self._name if self.pair is None else f"a successor of {self._name}",
            end,
            failures,
            error,
        )

    def _pause(self, error: PodtuiError, failures: int) -> float:
        if isinstance(error, RequestRefused):
            return REFUSED_SECONDS
        delay = min(LAST_RETRY, FIRST_RETRY * 2.0 ** min(failures - 1, 10))
        return delay * (1 + _JITTER * self._random.random())

    async def _renew(self, profile: CertificateProfile, target: Target) -> None:
        """Get a new certificate, unless the profile changes meanwhile. Raises `PodtuiError`."""
        async with asyncio.TaskGroup() as group:
            request = group.create_task(self._request(profile, target), name=self._name)
            while not request.done():
                await asyncio.wait((request,), timeout=CHECK_SECONDS)
                if not request.done() and self._profile() != profile:
                    request.cancel()
        if request.cancelled():
            log.info("the addresses of the node have changed: the request is abandoned")
            return
        answer = request.result()
        if isinstance(answer, PodtuiError):
            raise answer
        await asyncio.to_thread(self.file.write, answer)
        await self._take_over(answer)
        log.info(
            "%s is signed by the cluster, and valid until %s",
            self._name,
            rfc3339(answer.certificate.not_valid_after_utc),
        )

    async def _take_over(self, pair: KeyPair) -> None:
        self.use(pair)
        if self._on_issued is not None:
            await self._on_issued()

    async def _request(self, profile: CertificateProfile, target: Target) -> KeyPair | PodtuiError:
        """Return the certificate, or why there is none."""
        # A request with a valid certificate is a rotation. Like a kubelet's, it has no fixed name.
        keeps = self._keeps_request and not self.is_valid
        name = ""
        client = ClusterClient(target, namespace="", clock=self._clock)
        try:
            key = await asyncio.to_thread(self.file.request_key) if keeps else make_key()
            name = request_name(profile, key) if keeps else ""
            async with asyncio.timeout(APPROVAL_SECONDS):
                request = await self._submit(client, profile, key, name)
                name = request.metadata.name
                chain = await self._answer(client, request)
            return issued_pair(chain, key_pem(key), profile, self._clock.now())
        except TimeoutError:
            return PodtuiError(
                f"CertificateSigningRequest {name} has not been signed for"
                f" {APPROVAL_SECONDS / 60:.0f} minutes; approve it with 'kubectl certificate"
                f" approve {name}'"
            )
        except msgspec.MsgspecError as error:
            return PodtuiError(f"CertificateSigningRequest {name} cannot be read: {error}")
        except ValueError as error:
            return await self._refused(f"the certificate of {name} cannot be used: {error}", keeps)
        except RequestRefused as error:
            return await self._refused(str(error), keeps)
        except ApiError as error:
            if error.code == 401 and keeps:
                return PodtuiError(
                    "the API server does not accept the bootstrap kubeconfig, whose token may have"
                    f" expired: {error}"
                )
            return error
        except PodtuiError as error:
            return error
        finally:
            await client.close()

    async def _refused(self, message: str, keeps: bool) -> PodtuiError:
        if keeps:
            # The name of the request is a digest of the key: another request needs another key.
            try:
                await asyncio.to_thread(self.file.discard_request_key)
            except PodtuiError as error:
                return error
        return RequestRefused(message)

    async def _submit(
        self,
        client: ClusterClient,
        profile: CertificateProfile,
        key: ec.EllipticCurvePrivateKey,
        name: str,
    ) -> AnyObject:
        """Return the request in the cluster, which may be that of an earlier agent."""
        try:
            request = await client.create_object(REQUESTS, "", signing_request(profile, key, name))
        except ApiError as error:
            if not name or error.code != 409:
                raise
            request = await client.get_object(REQUESTS, "", name)
            if problem := conflict(request.content, profile, key, self._clock.now()):
                raise RequestRefused(
                    f"CertificateSigningRequest {name} exists, but {problem}"
                ) from error
        self.problem = f"CertificateSigningRequest {request.metadata.name} is not signed yet"
        log.info(
            "waiting for %s: CertificateSigningRequest %s of the signer %s",
            self._name,
            request.metadata.name,
            profile.signer,
        )
        return request

    async def _answer(self, client: ClusterClient, request: AnyObject) -> bytes:
        """Return the issued chain. Raises `RequestRefused` and `PodtuiError`."""
        meta = request.metadata
        async with aclosing(client.follow_objects(REQUESTS, name=meta.name)) as deltas:
            async for delta in deltas:
                if isinstance(delta, Lost):
                    if delta.refused:
                        raise PodtuiError(
                            f"cannot follow CertificateSigningRequest {meta.name}: {delta.reason}"
                        )
                    log.warning("waiting for %s: %s", self._name, delta.reason)
                    continue
                if isinstance(delta, Removed) or (isinstance(delta, Synced) and not delta.items):
                    raise RequestRefused(f"CertificateSigningRequest {meta.name} was deleted")
                latest = cast("AnyObject", delta.items[-1])
                if latest.metadata.uid != meta.uid:
                    raise RequestRefused(f"CertificateSigningRequest {meta.name} was replaced")
                answer = answer_of(latest.content)
                if isinstance(answer, Refused):
                    raise RequestRefused(f"{meta.name}: {answer.message}")
                if isinstance(answer, Issued):
                    return answer.chain
        raise PodtuiError("the client is closed")
