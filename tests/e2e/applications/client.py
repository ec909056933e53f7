"""A client in a pod: prints what its account sees, and what it is refused."""

# ruff: noqa: T201 - the test reads the output

from __future__ import annotations

import json
import time

import kubernetes
from kubernetes.client import ApiException
from urllib3.exceptions import HTTPError


def failure(error: Exception) -> str:
    if isinstance(error, ApiException) and error.body:
        return f"{error.status} {json.loads(error.body)['message']}"
    return type(error).__name__


def main() -> None:
    kubernetes.config.load_incluster_config()
    api = kubernetes.client.CoreV1Api()
    pods = api.list_namespaced_pod("default")
    print("pods", *sorted(pod.metadata.name for pod in pods.items), flush=True)
    for refused in (lambda: api.list_namespaced_secret("default"), api.list_node):
        try:
            print("allowed", refused())
        except ApiException as error:
            print(failure(error), flush=True)
    while True:
        try:
            listing = api.list_namespaced_config_map("default")
            print("listed", flush=True)
            version = listing.metadata.resource_version
            changes = kubernetes.watch.Watch().stream(
                api.list_namespaced_config_map,
                "default",
                resource_version=version,
                timeout_seconds=10,
            )
            for change in changes:
                print(change["type"], change["object"].metadata.name, flush=True)
        except (ApiException, HTTPError, OSError) as error:
            print(failure(error), flush=True)
            time.sleep(1)


main()
