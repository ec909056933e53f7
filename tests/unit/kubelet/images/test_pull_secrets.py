"""Credentials of registries from Secrets."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubelet_world import container, pod

from podtui.api.v1 import LocalObjectReference, ObjectMeta, Pod, Secret
from podtui.kubelet.images.pull_secrets import (
    BadPullSecret,
    credentials,
    missing_secrets,
    missing_text,
)
from podtui.runtime.protocol import RegistryAuth

PRIVATE = "registry.example:5000"


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def secret(auths: dict[str, object], *, kind: str = "dockerconfigjson") -> Secret:
    whole = {"auths": auths} if kind == "dockerconfigjson" else auths
    return Secret(
        metadata=ObjectMeta(name="login", namespace="default"),
        type=f"kubernetes.io/{kind}",
        data={f".{kind}": encoded(json.dumps(whole))},
    )


def login(user: str) -> dict[str, str]:
    return {"auth": encoded(f"{user}:pass:word")}


def with_secrets(*names: str) -> Pod:
    references = tuple(LocalObjectReference(name=name) for name in names)
    return pod("web-n1", "", container(), imagePullSecrets=references)


def users(image: str, auths: dict[str, object], **kind: str) -> list[str]:
    found = credentials(with_secrets("login"), image, {("default", "login"): secret(auths, **kind)})
    return [one.username for one in found]


@pytest.mark.parametrize("kind", ["dockerconfigjson", "dockercfg"])
def test_both_kinds_of_secret(kind: str):
    assert users(f"{PRIVATE}/a:1", {PRIVATE: login("ann")}, kind=kind) == ["ann"]


def test_user_and_password_may_be_separate_or_combined():
    held = {("default", "login"): secret({PRIVATE: login("ann")})}
    together = credentials(with_secrets("login"), f"{PRIVATE}/a:1", held)
    assert together == (RegistryAuth(username="ann", password="pass:word"),)
    apart = {PRIVATE: {"username": "bob", "password": "x", "email": "b@example"}}
    assert users(f"{PRIVATE}/a:1", apart) == ["bob"]


@pytest.mark.parametrize(
    ("place", "image", "fits"),
    [
        (PRIVATE, f"{PRIVATE}/team/a:1", True),
        (f"https://{PRIVATE}", f"{PRIVATE}/a:1", True),
        (f"https://{PRIVATE}/v2/", f"{PRIVATE}/a:1", True),
        (f"{PRIVATE}/team", f"{PRIVATE}/team/a:1", True),
        (f"{PRIVATE}/team", f"{PRIVATE}/other/a:1", False),
        ("registry.example", f"{PRIVATE}/a:1", False),
        ("*.example", "registry.example/a@sha256:0", True),
        ("*.example", "a.registry.example/a", False),
        ("*", "registry.example/a", False),
        ("https://index.docker.io/v1/", "busybox:1", True),
        ("docker.io", "team/a", True),
        ("docker.io/library", "busybox", True),
        ("docker.io/team", "busybox", False),
        ("localhost", "localhost/a", True),
    ],
)
def test_registry_keys_match_images(place: str, image: str, fits: bool):
    assert users(image, {place: login("ann")}) == (["ann"] if fits else [])


def test_the_most_specific_key_is_tried_first():
    auths: dict[str, object] = {
        PRIVATE: login("all"),
        f"{PRIVATE}/team/a": login("one"),
        f"{PRIVATE}/team": login("team"),
    }
    assert users(f"{PRIVATE}/team/a:1", auths) == ["one", "team", "all"]


def test_a_secret_of_another_kind_or_namespace_gives_nothing():
    opaque = Secret(type="Opaque", data={".dockerconfigjson": encoded("{}")})
    assert credentials(with_secrets("login"), "a", {("default", "login"): opaque}) == ()
    elsewhere = {("other", "login"): secret({PRIVATE: login("ann")})}
    assert credentials(with_secrets("login"), f"{PRIVATE}/a", elsewhere) == ()
    assert missing_secrets(with_secrets("login", "", "more"), elsewhere) == ("login", "more")
    assert missing_secrets(with_secrets("login"), {("default", "login"): opaque}) == ()


def test_missing_secrets_are_reported():
    assert missing_text(["a", "b"]) == (
        "Unable to retrieve some image pull secrets (a, b); "
        "attempting to pull the image may not succeed."
    )


HOLDING = "hunter2"


@pytest.mark.parametrize(
    "text",
    [
        f"{HOLDING}{{",
        json.dumps({"auths": [HOLDING]}),
        json.dumps({"auths": {PRIVATE: HOLDING}}),
        json.dumps({"auths": {PRIVATE: {"auth": encoded(HOLDING)}}}),
        json.dumps({"auths": {PRIVATE: {"auth": HOLDING}}}),
        json.dumps(HOLDING),
    ],
)
def test_an_invalid_secret_is_never_quoted(text: str):
    broken = Secret(type="kubernetes.io/dockerconfigjson", stringData={".dockerconfigjson": text})
    with pytest.raises(BadPullSecret) as caught:
        credentials(with_secrets("login"), f"{PRIVATE}/a", {("default", "login"): broken})
    assert str(caught.value) == 'secret "login": .dockerconfigjson is not a registry configuration'
    assert HOLDING not in repr(caught.value)
    assert caught.value.__cause__ is None


def test_a_password_is_never_shown():
    assert HOLDING not in repr(RegistryAuth(username="ann", password=HOLDING))


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_key_and_image_can_be_matched(place: str, image: str):
    assert users(image, {place: login("ann")}) in ([], ["ann"])
