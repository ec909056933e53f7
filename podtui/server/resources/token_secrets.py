"""Fill Secrets of the type ``kubernetes.io/service-account-token``, as Kubernetes' token controller
does.

Such a Secret names its service account in an annotation. It gets a token that is valid as long as
the Secret exists, and is deleted if its account does not exist.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Callable
from typing import Final

from msgspec import structs

from podtui.api.v1 import Secret, ServiceAccount
from podtui.clock import Clock
from podtui.errors import NotFound
from podtui.manifest.strategies.config import SECRETS
from podtui.manifest.strategies.strategy import with_meta
from podtui.manifest.validation.objects import ACCOUNT_NAME
from podtui.pki.tokens import Reference, TokenIssuer
from podtui.server.resources.control_loop import run_control_loop
from podtui.server.resources.deletion import delete_record
from podtui.store.protocol import Change, Records, WatchType
from podtui.store.resources import Resource

TOKEN_TYPE: Final = "kubernetes.io/service-account-token"
_ACCOUNT_UID: Final = "kubernetes.io/service-account.uid"


class TokenSecrets:
    """``root_ca`` returns the CA certificate as PEM; empty if the API is served without TLS."""

    def __init__(
        self, records: Records, issuer: TokenIssuer, clock: Clock, root_ca: Callable[[], str]
    ) -> None:
        self._records = records
        self._issuer = issuer
        self._clock = clock
        self._root_ca = root_ca

    async def run(self) -> None:
        """Fill and delete Secrets whenever they or service accounts change. Runs forever."""
        await run_control_loop(
            "token secrets",
            self._records,
            ("secrets", "serviceaccounts"),
            matters=self._matters,
            sync=self.update,
        )

    async def _matters(self, resource: Resource, change: Change) -> bool:
        if resource == "serviceaccounts":
            return change.type is WatchType.DELETED
        return isinstance(change.object, Secret) and change.object.type == TOKEN_TYPE

    async def update(self) -> None:
        """Fill and delete Secrets once, for instance when there is a new CA certificate."""
        for secret in (await self._records.list("secrets")).items:
            if not isinstance(secret, Secret) or secret.type != TOKEN_TYPE:
                continue
            namespace = secret.metadata.namespace
            name = secret.metadata.annotations.get(ACCOUNT_NAME, "")
            account = await self._records.get("serviceaccounts", namespace, name)
            with contextlib.suppress(NotFound):
                if isinstance(account, ServiceAccount) and _belongs(secret, account):
                    await self._fill(secret, account)
                else:
                    now = self._clock.now()
                    await delete_record(
                        self._records, "secrets", SECRETS, secret, seconds=None, now=now
                    )

    async def _fill(self, secret: Secret, account: ServiceAccount) -> None:
        meta = secret.metadata

        def filled(current: Secret) -> Secret:
            return with_token(current, account, self._issuer, self._root_ca())

        if secret.metadata.deletionTimestamp is None and filled(secret) != secret:
            await self._records.update("secrets", meta.namespace, meta.name, filled)


def _belongs(secret: Secret, account: ServiceAccount) -> bool:
    return secret.metadata.annotations.get(_ACCOUNT_UID, "") in ("", account.metadata.uid)


def with_token(
    secret: Secret, account: ServiceAccount, issuer: TokenIssuer, root_ca: str
) -> Secret:
    """Return the Secret with what it lacks; a token that is there stays."""
    owner, meta = account.metadata, secret.metadata
    data = dict(secret.data)
    if root_ca:
        data["ca.crt"] = _encoded(root_ca)
    if not data.get("namespace"):
        data["namespace"] = _encoded(meta.namespace)
    if not data.get("token"):
        reference = Reference(owner.name, owner.uid)
        data["token"] = _encoded(issuer.issue_legacy(meta.namespace, reference, meta.name))
    if data == secret.data:
        return secret
    annotations = {**meta.annotations, ACCOUNT_NAME: owner.name, _ACCOUNT_UID: owner.uid}
    return with_meta(structs.replace(secret, data=data), annotations=annotations)


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
