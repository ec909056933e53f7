"""Asks Services from inside a pod: run in the network of the pod, answers lines of JSON.

Each line on standard input is ``[address, requests]``; the answer counts the pods that answered,
and the errors by their text.
"""

from __future__ import annotations

import json
import socket
import sys
from collections import Counter

PORT = 80
_SECONDS = 60.0
"""Pods without CPU requests get little of a busy CPU."""


def ask(address: str) -> str:
    """Return the name of the pod that answers, or the error."""
    try:
        with socket.create_connection((address, PORT), timeout=_SECONDS) as connection:
            connection.sendall(b"GET /index.html HTTP/1.0\r\n\r\n")
            answer = b""
            while data := connection.recv(4096):
                answer += data
    except OSError as error:
        return f"{type(error).__name__}: {error}"
    return answer.decode(errors="replace").rpartition("\n\r\n")[2].strip()


def main() -> None:
    for line in sys.stdin:
        address, requests = json.loads(line)
        print(json.dumps(Counter(ask(address) for _ in range(requests))), flush=True)


if __name__ == "__main__":
    main()
