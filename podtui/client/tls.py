"""TLS towards an API server, from what a kubeconfig says. Everything here blocks."""

from __future__ import annotations

import os
import ssl

from podtui.client.credentials import Identity
from podtui.errors import PodtuiError
from podtui.kubeconfig.types import Cluster


def tls_context(cluster: Cluster, identity: Identity) -> ssl.SSLContext:
    """Trusts the cluster's authority alone where it names one, else the machine's. Raises
    `PodtuiError` for certificates and keys that cannot be read."""
    if cluster.insecure:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif cluster.ca_data or cluster.ca_file is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        _trust(context, cluster)
        # As Go: what is named is trusted, though it be no root itself.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    else:
        context = ssl.create_default_context()
        # As kubectl does, accept certificates without the extensions that RFC 5280 wants: Python
        # 3.13 and later refuse them by default.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if identity.certificate:
        _present(context, identity)
    return context


def _trust(context: ssl.SSLContext, cluster: Cluster) -> None:
    where = cluster.ca_file or "certificate-authority-data"
    try:
        pem = cluster.ca_data or (cluster.ca_file.read_bytes() if cluster.ca_file else b"")
        # What stands around the certificates may be in any language.
        context.load_verify_locations(cadata=pem.decode("ascii", errors="ignore"))
    except ssl.SSLError:
        # Of several, one that is broken does not take the others away; of none it is said below.
        pass
    except OSError as error:
        raise PodtuiError(f"cluster {cluster.name!r}: {where}: {error.strerror}") from error
    if not context.cert_store_stats()["x509"]:
        raise PodtuiError(f"cluster {cluster.name!r}: {where}: holds no certificate")


def _present(context: ssl.SSLContext, identity: Identity) -> None:
    """The library reads files alone: these are in memory, so that no key is written to a disk."""
    opened: list[int] = []
    try:
        for name, pem in (("certificate", identity.certificate), ("key", identity.key)):
            opened.append(os.memfd_create(name, os.MFD_CLOEXEC))
            with open(opened[-1], "wb", closefd=False) as file:
                file.write(pem)
        certificate, key = (f"/proc/self/fd/{descriptor}" for descriptor in opened)
        # An empty password: with none it would ask for one on the terminal.
        context.load_cert_chain(certificate, key, password="")
    except (ssl.SSLError, ValueError) as error:
        reason = error.reason if isinstance(error, ssl.SSLError) else ""
        words = "do not belong together" if "MISMATCH" in (reason or "") else "cannot be read"
        raise PodtuiError(f"the client certificate and its key {words}") from None
    finally:
        for descriptor in opened:
            os.close(descriptor)
