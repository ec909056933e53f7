"""TLS for an API server, as configured in a kubeconfig. All functions block."""

from __future__ import annotations

import os
import ssl

from podtui.client.credentials import Identity
from podtui.errors import PodtuiError
from podtui.kubeconfig.types import Cluster


def tls_context(cluster: Cluster, identity: Identity) -> ssl.SSLContext:
    """Return a TLS context that trusts only the cluster's CA if it is set, else the system's CAs.
    Raises `PodtuiError` for unreadable certificates and keys."""
    if cluster.insecure:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif cluster.ca_data or cluster.ca_file is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        _trust(context, cluster)
        # As in Go, trust the given certificates even if they are not roots.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    else:
        context = ssl.create_default_context()
        # Like kubectl, accept certificates without the extensions that RFC 5280 requires: Python
        # 3.13 and later reject them by default.
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
        # The text around the certificates may have any encoding.
        context.load_verify_locations(cadata=pem.decode("ascii", errors="ignore"))
    except ssl.SSLError:
        # A malformed certificate among others is ignored. If none is left, the check below fails.
        pass
    except OSError as error:
        raise PodtuiError(f"cluster {cluster.name!r}: {where}: {error.strerror}") from error
    if not context.cert_store_stats()["x509"]:
        raise PodtuiError(f"cluster {cluster.name!r}: {where}: holds no certificate")


def _present(context: ssl.SSLContext, identity: Identity) -> None:
    """Use memory files: the library only reads files, and the key must not be written to a disk."""
    opened: list[int] = []
    try:
        for name, pem in (("certificate", identity.certificate), ("key", identity.key)):
            opened.append(os.memfd_create(name, os.MFD_CLOEXEC))
            with open(opened[-1], "wb", closefd=False) as file:
                file.write(pem)
        certificate, key = (f"/proc/self/fd/{descriptor}" for descriptor in opened)
        # With an empty password, the library does not prompt for one on the terminal.
        context.load_cert_chain(certificate, key, password="")
    except (ssl.SSLError, ValueError) as error:
        reason = error.reason if isinstance(error, ssl.SSLError) else ""
        words = "do not belong together" if "MISMATCH" in (reason or "") else "cannot be read"
        raise PodtuiError(f"the client certificate and its key {words}") from None
    finally:
        for descriptor in opened:
            os.close(descriptor)
