"""Work in the network namespaces of pods, in a separate process: sockets, rules, tracked flows.

`podtui.runtime.docker.dialing` runs this file as a script, without podtui's other modules. Only a
single-threaded process can join the user namespace of a rootless engine, and it cannot leave it
again. Inside it, the engine's user may enter the network namespaces of pods.

Standard input is a socket pair (SOCK_SEQPACKET). A request is JSON: the name of an operation, the
id of a process in the pod (0 for this machine's own network), the pod's IPs, and arguments. The
response is JSON: an errno, 0 for success, and a text; a socket comes with it. The process exits at
the end of input. Its argument is the id of a process in the user namespace to join.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import select
import socket
import struct
import sys
from typing import Any

CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
REQUEST_LIMIT = 4096
BACKLOG = 128
ERROR_LIMIT = 1000
LIBNFTABLES = "libnftables.so.1"
IDLE_SECONDS = 0.05
MAX_USED = 100
CONNTRACK = ("/usr/sbin/conntrack", "/sbin/conntrack", "/usr/bin/conntrack")
KERNEL_SECONDS = 5.0
NETLINK_NETFILTER = 12
GET_TABLE = 10 << 8 | 1
"""The request for a table, of the subsystem nftables."""
TABLE_NAME = 1
NLMSG_ERROR = 2
REQUEST = 1
NO_FLOWS = " 0 flow entries have been deleted."


class Failed(Exception):
    """A program refused the request; its text says why."""

    number = errno.EINVAL


class Missing(Failed):
    """A program or a library is not installed."""

    number = errno.EOPNOTSUPP


def main() -> None:
    channel = socket.socket(fileno=0)
    try:
        serve(channel)
    except ConnectionError:
        # The agent was killed during a request.
        return


def serve(channel: socket.socket) -> None:
    # A process cannot return to the network that it started in without this.
    own_network = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    joined = False
    # Contexts of nftables to free. This waits for the kernel, 5 to 15 ms, if their rules removed
    # others: it is done while there are no requests.
    used: list[int] = []
    while True:
        while used and (len(used) > MAX_USED or is_idle(channel)):
            load_nftables().nft_ctx_free(used.pop(0))
        request, descriptors, _, _ = socket.recv_fds(channel, REQUEST_LIMIT, 1)
        if not request:
            return
        opened = None
        answer: list[object] = [0, ""]
        try:
            if not joined:
                join_user_namespace(int(sys.argv[1]))
                joined = True
            opened = perform(json.loads(request), descriptors, own_network, used)
        except OSError as error:
            answer = [error.errno or errno.EIO, os.strerror(error.errno or errno.EIO)]
        except Failed as error:
            answer = [error.number, str(error)[:ERROR_LIMIT]]
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        response = json.dumps(answer).encode()
        if opened is None:
            channel.send(response)
        else:
            with opened:
                socket.send_fds(channel, [response], [opened.fileno()])


def is_idle(channel: socket.socket) -> bool:
    """Wait for a request; return whether none comes."""
    return not select.select([channel], [], [], IDLE_SECONDS)[0]


def perform(
    request: list[Any], descriptors: list[int], own_network: int, used: list[int]
) -> socket.socket | None:
    """Contexts of nftables are appended to ``used``. Raises OSError: ENXIO if the namespace does
    not have these IPs, which means that the process does not belong to the pod. Raises `Failed`.
    """
    name, pid, ips, *arguments = request
    if pid:
        join(f"/proc/{pid}/ns/net", CLONE_NEWNET)
    else:
        set_namespace(own_network, CLONE_NEWNET)
    if not all(map(is_local, ips)):
        raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))
    if name == "rules":
        with open(os.dup(descriptors[0]), "rb") as rules:
            apply_rules(rules.read(), used)
        return None
    if name == "table":
        check_table(*arguments)
        return None
    if name == "flows":
        forget_flows(*arguments)
        return None
    return {"socket": open_socket, "listen": listen}[name](*arguments)


def join_user_namespace(pid: int) -> None:
    if not os.path.samestat(os.stat(f"/proc/{pid}/ns/user"), os.stat("/proc/self/ns/user")):
        join(f"/proc/{pid}/ns/user", CLONE_NEWUSER)
        # Root of the machine has no user ID here, so that a program would lose all capabilities.
        os.setresuid(0, 0, 0)


def join(path: str, kind: int) -> None:
    namespace = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        set_namespace(namespace, kind)
    finally:
        os.close(namespace)


def set_namespace(descriptor: int, kind: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, kind) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def is_local(ip: str) -> bool:
    """Return whether an interface of the current network namespace has the IP."""
    try:
        with socket.socket(family_of(ip), socket.SOCK_DGRAM) as sock:
            sock.bind((ip, 0))
    except OSError:
        return False
    return True


def family_of(ip: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in ip else socket.AF_INET


def open_socket(family: int) -> socket.socket:
    """Return a TCP socket."""
    return socket.socket(family, socket.SOCK_STREAM)


def listen(protocol: str, address: str) -> socket.socket:
    """Return a socket that is bound to a free port."""
    kind = socket.SOCK_DGRAM if protocol == "UDP" else socket.SOCK_STREAM
    sock = socket.socket(family_of(address), kind)
    try:
        sock.bind((address, 0))
        if kind == socket.SOCK_STREAM:
            sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


def apply_rules(rules: bytes, used: list[int]) -> None:
    """Apply a transaction of nftables."""
    nftables = load_nftables()
    # A context talks to the network namespace in which it was made.
    context = nftables.nft_ctx_new(0)
    if not context:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
    used.append(context)
    nftables.nft_ctx_buffer_error(context)
    if nftables.nft_run_cmd_from_buffer(context, rules) != 0:
        text = nftables.nft_ctx_get_error_buffer(context) or b"nft refused the rules"
        # The other lines repeat the rule and point into it.
        raise Failed(text.decode(errors="replace").partition("\n")[0])


def check_table(name: str) -> None:
    """Ask the kernel for a table. Raises `Failed` if there is none.

    A transaction of libnftables would read all chains before: of 200 Services, there are many.
    """
    text = name.encode() + b"\0"
    attribute = struct.pack("=HH", 4 + len(text), TABLE_NAME) + text + bytes(-len(text) % 4)
    body = struct.pack("=BBH", socket.AF_INET, 0, 0) + attribute
    header = struct.pack("=IHHII", 16 + len(body), GET_TABLE, REQUEST, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER) as kernel:
        kernel.settimeout(KERNEL_SECONDS)
        kernel.sendto(header + body, (0, 0))
        answer = kernel.recv(REQUEST_LIMIT)
    _, kind = struct.unpack_from("=IH", answer)
    if kind == NLMSG_ERROR:
        (number,) = struct.unpack_from("=i", answer, 16)
        if -number == errno.ENOENT:
            raise Failed(f"there is no table {name}")
        raise OSError(-number, os.strerror(-number))


def load_nftables() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(LIBNFTABLES)
    except OSError as error:
        raise Missing(
            f"{LIBNFTABLES} is not installed on this machine (package nftables)"
        ) from error
    library.nft_ctx_new.restype = ctypes.c_void_p
    library.nft_ctx_new.argtypes = [ctypes.c_uint32]
    library.nft_ctx_free.argtypes = [ctypes.c_void_p]
    library.nft_ctx_buffer_error.argtypes = [ctypes.c_void_p]
    library.nft_ctx_get_error_buffer.restype = ctypes.c_char_p
    library.nft_ctx_get_error_buffer.argtypes = [ctypes.c_void_p]
    library.nft_run_cmd_from_buffer.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    return library


def forget_flows(ip: str, port: int) -> None:
    """Delete the tracked UDP flows whose replies come from ``ip`` and ``port``."""
    program = next((path for path in CONNTRACK if os.access(path, os.X_OK)), None)
    if program is None:
        raise Missing("conntrack is not installed on this machine (package conntrack)")
    command = [program, "-D", "-p", "udp", "--reply-src", ip, "--reply-port-src", str(port)]
    with open(os.devnull, "r+b") as null, open(os.memfd_create("errors"), "w+b") as errors:
        files = (null, null, errors)
        actions = [(os.POSIX_SPAWN_DUP2, file.fileno(), n) for n, file in enumerate(files)]
        pid = os.posix_spawn(program, command, {}, file_actions=actions)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        errors.seek(0)
        text = errors.read(ERROR_LIMIT).decode(errors="replace").strip()
    # 1 is also the exit code if there was no such flow.
    if code != 0 and not (code == 1 and text.endswith(NO_FLOWS)):
        raise Failed(text or f"conntrack ended with {code}")


if __name__ == "__main__":
    main()
