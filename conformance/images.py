"""The images of the cases: made here from a static busybox where the engine has none."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import docker
import docker.errors
import docker.utils

from conformance.golden import ROOT

# Each with the options that make it; the manifests name them under docker.io/library.
IMAGES: Final = {
    "busybox:latest": (),
    "busybox:1.35": ("--env", "VER=1.35"),
}


def _absent(client: docker.APIClient, image: str) -> bool:
    try:
        client.inspect_image(image)
    except docker.errors.ImageNotFound:
        return True
    return False


@contextmanager
def images() -> Iterator[None]:
    """Have the images while the body runs; those that were not there before go afterwards."""
    client = docker.APIClient(**docker.utils.kwargs_from_env(), version="auto", timeout=60)
    made = [image for image in IMAGES if _absent(client, image)]
    try:
        for image in made:
            subprocess.run(
                [sys.executable, "scripts/sample_image.py", "--tag", image, *IMAGES[image]],
                cwd=ROOT,
                stdout=subprocess.DEVNULL,
                check=True,
            )
        yield
    finally:
        for image in made:
            if not _absent(client, image):
                client.remove_image(image, force=True)
        client.close()
