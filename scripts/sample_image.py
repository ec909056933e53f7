"""Build the sample image from a static busybox: the same on every machine, without a registry.

``--ensure IMAGE`` does nothing if the engine has the image; otherwise it pulls it, or builds it if
that fails. ``--tag IMAGE`` builds it without a registry. Both print one line with the result. The
image contains busybox with a link for each applet, ``/etc/passwd`` with root and nobody, a ``PATH``
and the command ``sh``.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path

import docker
import docker.errors
import docker.utils

HERE = Path(__file__).resolve().parent
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PASSWD = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"
GROUP = "root:x:0:\nnogroup:x:65534:\n"
DIRECTORIES = {
    "bin": 0o755,
    "dev": 0o755,
    "etc": 0o755,
    "home": 0o755,
    "proc": 0o755,
    "root": 0o700,
    "sys": 0o755,
    "tmp": 0o1777,
    "usr": 0o755,
    "usr/bin": 0o755,
    "usr/sbin": 0o755,
    "sbin": 0o755,
    "var": 0o755,
}


def applets(busybox: Path) -> list[str]:
    """Return the names of the applets of this busybox."""
    listed = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True)
    return sorted(set(listed.stdout.split()) - {"busybox"})


def root_file_system(busybox: Path) -> bytes:
    """Return a tar of the image's files. The same input gives the same bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:

        def add(name: str, mode: int, kind: bytes, content: bytes = b"", target: str = "") -> None:
            entry = tarfile.TarInfo(name)
            entry.mode, entry.type, entry.linkname, entry.size = mode, kind, target, len(content)
            tar.addfile(entry, io.BytesIO(content))

        for name, mode in DIRECTORIES.items():
            add(name, mode, tarfile.DIRTYPE)
        add("bin/busybox", 0o755, tarfile.REGTYPE, busybox.read_bytes())
        add("etc/passwd", 0o644, tarfile.REGTYPE, PASSWD.encode())
        add("etc/group", 0o644, tarfile.REGTYPE, GROUP.encode())
        for name in applets(busybox):
            add(f"bin/{name}", 0o777, tarfile.SYMTYPE, target="busybox")
        add("usr/bin/env", 0o777, tarfile.SYMTYPE, target="../../bin/busybox")
    return buffer.getvalue()


def has(client: docker.APIClient, image: str) -> bool:
    try:
        client.inspect_image(image)
    except docker.errors.ImageNotFound:
        return False
    return True


def pulled(client: docker.APIClient, image: str) -> bool:
    """Return True if the registry provided the image."""
    repository, _, tag = image.rpartition(":")
    try:
        client.pull(repository, tag=tag)
    except (docker.errors.APIError, OSError):
        return False
    return has(client, image)


def find_busybox() -> Path | None:
    """Return a static busybox of this machine; `scripts/engine.py` may install one."""
    found = subprocess.run(
        [sys.executable, str(HERE / "engine.py"), "busybox"],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    return Path(found.stdout.strip()) if found.returncode == 0 else None


def make(
    client: docker.APIClient,
    image: str,
    busybox: Path,
    user: str = "",
    environment: Iterable[str] = (),
) -> None:
    """Build the image. ``environment`` has ``NAME=value`` pairs in addition to ``PATH``."""
    changes = [f"ENV {pair}" for pair in (f"PATH={SEARCH_PATH}", *environment)]
    changes += ['CMD ["sh"]', *([f"USER {user}"] if user else [])]
    client.import_image_from_data(root_file_system(busybox), repository=image, changes=changes)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--ensure", metavar="IMAGE", help="have IMAGE, from a registry or made here")
    which.add_argument("--tag", metavar="IMAGE", help="have IMAGE, made here")
    parser.add_argument("--busybox", type=Path, help="the static binary to use")
    parser.add_argument("--user", default="", help="the image's USER")
    parser.add_argument(
        "--env", action="append", default=[], metavar="NAME=VALUE", help="one of its variables"
    )
    options = parser.parse_args()
    image: str = options.ensure or options.tag
    if ":" not in image.rpartition("/")[2]:
        image += ":latest"
    client = docker.APIClient(**docker.utils.kwargs_from_env(), version="auto", timeout=60)
    try:
        if has(client, image):
            print(f"{image}: already there")
            return 0
        plain = not options.user and not options.env
        if options.ensure and plain and pulled(client, image):
            print(f"{image}: pulled")
            return 0
        busybox = options.busybox or find_busybox()
        if busybox is None:
            print("No static busybox: give one with --busybox.", file=sys.stderr)
            return 1
        make(client, image, busybox, options.user, options.env)
        print(f"{image}: made from {busybox}")
        return 0
    finally:
        client.close()


if __name__ == "__main__":
    sys.exit(main())
