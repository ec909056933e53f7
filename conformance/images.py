"""The images of the cases, built from a static busybox if the engine lacks them."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final

import docker
import docker.errors
import docker.utils

from conformance.golden import ROOT

# With the build options of each; the manifests name them under docker.io/library.
IMAGES: Final = {
    "busybox:latest": (),
    "busybox:1.35": ("--env", "VER=1.35"),
}

REMOVAL_TRIES: Final = 20


class ImageInUse(Exception):
    """Raised for an image that cannot be removed; the text names it."""


def _absent(client: docker.APIClient, image: str) -> bool:
    try:
        client.inspect_image(image)
    except docker.errors.ImageNotFound:
        return True
    return False


def _remove(client: docker.APIClient, image: str) -> None:
    """Remove an image by its ID: by name it would stay while a container of it is being removed."""
    identity = client.inspect_image(image)["Id"]
    for _ in range(REMOVAL_TRIES):
        try:
            client.remove_image(identity, force=True)
        except docker.errors.APIError as error:
            if error.status_code != HTTPStatus.CONFLICT:
                raise
            time.sleep(0.5)
        else:
            return
    raise ImageInUse(f"{image} was made for the cases and is in use: remove it later")


@contextmanager
def images() -> Iterator[None]:
    """Provide the images during the block; remove those that did not exist before.

    Raises `ImageInUse`, `docker.errors.APIError`.
    """
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
                _remove(client, image)
        client.close()
