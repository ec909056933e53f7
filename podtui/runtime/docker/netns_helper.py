"""Open sockets in the network namespaces of pods, in a separate process.

`podtui.runtime.docker.dialing` runs this file as a script, without podtui's other modules. Only a
single-threaded process can join the user namespace of a rootless engine, and it cannot leave it
again. Inside it, the engine's user may enter the network namespaces of pods.

Standard input is a socket pair (SOCK_SEQPACKET). A request is JSON: process id, address family and
the pod's IPs. The response is ``0`` with the socket, or an errno. The process exits at the end of
input. Its argument is the id of a process in the user namespace to join.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import socket
import sys

CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
REQUEST_LIMIT = 4096


def main() -> None:
    channel = socket.socket(fileno=0)
    joined = False
    while request := channel.recv(REQUEST_LIMIT):
        try:
            if not joined:
                join_user_namespace(int(sys.argv[1]))
                joined = True
            opened = open_socket(*json.loads(request))
        except OSError as error:
            channel.send(str(error.errno or errno.EIO).encode())
        else:
            with opened:
                socket.send_fds(channel, [b"0"], [opened.fileno()])


def join_user_namespace(pid: int) -> None:
    if not os.path.samestat(os.stat(f"/proc/{pid}/ns/user"), os.stat("/proc/self/ns/user")):
        join(f"/proc/{pid}/ns/user", CLONE_NEWUSER)


def open_socket(pid: int, family: int, ips: list[str]) -> socket.socket:
    """Return a TCP socket in the network namespace of a process. Raises OSError: ENXIO if the
    namespace does not have these IPs, which means that the process does not belong to the pod."""
    join(f"/proc/{pid}/ns/net", CLONE_NEWNET)
    if not all(map(is_local, ips)):
        raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))
    return socket.socket(family, socket.SOCK_STREAM)


def join(path: str, kind: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    namespace = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(namespace, kind) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(namespace)


def is_local(ip: str) -> bool:
    """Return whether an interface of the current network namespace has the IP."""
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.bind((ip, 0))
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main()
