"""``python -m soak.tls_client KUBECONFIG``: connect to the API that a kubeconfig names.

The certificate is checked by the clock of this process.
"""

from __future__ import annotations

import base64
import socket
import ssl
import sys
from pathlib import Path

import yaml
from yarl import URL

SECONDS = 10.0


def main() -> int:
    document = yaml.safe_load(Path(sys.argv[1]).read_text())
    cluster = document["clusters"][0]["cluster"]
    url = URL(cluster["server"])
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=authority)
    assert url.host is not None
    assert url.port is not None
    try:
        with (
            socket.create_connection((url.host, url.port), timeout=SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=url.host),
        ):
            return 0
    except OSError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
