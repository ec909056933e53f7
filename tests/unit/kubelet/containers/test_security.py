"""User and privileges of a container (kubelet.md §12)."""

from __future__ import annotations

import pytest
from pod_builders import ctr, make_pod

from podtui.kubelet.containers.security import security_context, wants_apparmor
from podtui.kubelet.types import ConfigError
from podtui.runtime.protocol import SecurityContext

WHERE = '(pod: "web-n1_default(u1)", container: c)'
APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
NOT_NUMERIC = (
    "container has runAsNonRoot and image has non-numeric user (nobody),"
    f" cannot verify user is non-root {WHERE}"
)
INVALID = (
    "container has runAsNonRoot and image has an invalid user id (2147483648)."
    " (Must be 1-(2147483647)): must be between 0 and 2147483647, inclusive"
)


def security(own=None, shared=None, *, image_user="", **options) -> SecurityContext:
    """``own`` is the container's context, ``shared`` the pod's."""
    notes = options.pop("annotations", {})
    pod = make_pod(
        ctr(securityContext=own or {}),
        securityContext=shared or {},
        metadata={"annotations": notes},
    )
    return security_context(pod, pod.spec.containers[0], image_user=image_user, **options)


# --- users


def test_without_a_security_context():
    assert security() == SecurityContext()
    assert security().seccomp == "unconfined"


@pytest.mark.parametrize(
    ("own", "shared", "image_user", "expected"),
    [
        ({}, {}, "nobody", ""),
        ({}, {}, "1000", ""),
        # The kubelet passes on only the user: the group in the image is ignored.
        ({}, {}, "1000:1000", "1000"),
        ({}, {}, "nobody:nogroup", "nobody"),
        ({"runAsUser": 5}, {}, "", "5"),
        ({}, {"runAsUser": 6}, "", "6"),
        ({"runAsUser": 5}, {"runAsUser": 6}, "", "5"),
        ({"runAsUser": 5, "runAsGroup": 7}, {}, "", "5:7"),
        ({"runAsUser": 5}, {"runAsGroup": 8}, "", "5:8"),
        ({"runAsGroup": 7}, {}, "", "0:7"),
        ({"runAsGroup": 7}, {}, "nobody", "nobody:7"),
        ({"runAsGroup": 7}, {}, "9:9", "9:7"),
        ({"runAsUser": 0}, {"runAsUser": 6}, "", "0"),
    ],
)
def test_users(own, shared, image_user, expected):
    assert security(own, shared, image_user=image_user).user == expected


def test_groups():
    found = security(shared={"fsGroup": 5, "supplementalGroups": [7, 5, 8]})
    assert found.groups == (5, 7, 8)


@pytest.mark.parametrize(
    ("own", "shared", "image_user", "message"),
    [
        (
            {"runAsNonRoot": True, "runAsUser": 0},
            {},
            "",
            f"container's runAsUser breaks non-root policy {WHERE}",
        ),
        (
            {"runAsNonRoot": True},
            {},
            "nobody",
            NOT_NUMERIC,
        ),
        (
            {},
            {"runAsNonRoot": True},
            "",
            f"container has runAsNonRoot and image will run as root {WHERE}",
        ),
        (
            {"runAsNonRoot": True},
            {},
            "0:5",
            f"container has runAsNonRoot and image will run as root {WHERE}",
        ),
        ({"runAsNonRoot": True}, {}, "2147483648", f"{INVALID} {WHERE}"),
    ],
)
def test_case_45_run_as_non_root(own, shared, image_user, message):
    with pytest.raises(ConfigError) as caught:
        security(own, shared, image_user=image_user)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("own", "shared", "image_user"),
    [
        ({"runAsNonRoot": True, "runAsUser": 5}, {}, ""),
        ({"runAsNonRoot": True}, {"runAsUser": 5}, ""),
        ({"runAsNonRoot": True}, {}, "1000"),
        ({"runAsNonRoot": False}, {"runAsNonRoot": True}, ""),
    ],
)
def test_a_satisfied_run_as_non_root(own, shared, image_user):
    plain = {key: value for key, value in own.items() if key != "runAsNonRoot"}
    required = security(own, shared, image_user=image_user)
    assert required == security(plain, {**shared, "runAsNonRoot": False}, image_user=image_user)


@pytest.mark.parametrize(
    ("own", "shared", "expected"),
    [
        ({}, {}, "unconfined"),
        ({"seccompProfile": {"type": "RuntimeDefault"}}, {}, "runtime/default"),
        ({}, {"seccompProfile": {"type": "RuntimeDefault"}}, "runtime/default"),
        (
            {"seccompProfile": {"type": "Unconfined"}},
            {"seccompProfile": {"type": "RuntimeDefault"}},
            "unconfined",
        ),
        (
            {"seccompProfile": {"type": "Localhost", "localhostProfile": "a/b.json"}},
            {},
            "localhost/a/b.json",
        ),
        (
            {"privileged": True, "seccompProfile": {"type": "RuntimeDefault"}},
            {},
            "unconfined",
        ),
    ],
)
def test_seccomp(own, shared, expected):
    assert security(own, shared).seccomp == expected


def test_the_default_profile_applies_without_a_profile():
    assert security(seccomp_default=True).seccomp == "runtime/default"
    unconfined = {"seccompProfile": {"type": "Unconfined"}}
    assert security(unconfined, seccomp_default=True).seccomp == "unconfined"
    assert security({}, unconfined, seccomp_default=True).seccomp == "unconfined"


def test_legacy_seccomp_annotations_are_ignored():
    notes = {"seccomp.security.alpha.kubernetes.io/pod": "runtime/default"}
    assert security(annotations=notes).seccomp == "unconfined"


def test_capabilities_and_privileges():
    found = security(
        {
            "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "procMount": "Unmasked",
        }
    )
    assert (found.add_capabilities, found.drop_capabilities) == (("NET_ADMIN",), ("ALL",))
    assert found.read_only_rootfs
    assert found.no_new_privileges
    assert found.unmasked_proc
    assert not security({"allowPrivilegeEscalation": True}).no_new_privileges
    assert security({"privileged": True}).privileged


# --- labels and profiles of the host


@pytest.mark.parametrize(
    ("own", "note", "shared", "expected"),
    [
        (None, None, None, ""),
        ({"type": "Localhost", "localhostProfile": "mine"}, None, None, "localhost/mine"),
        (None, None, {"type": "RuntimeDefault"}, "runtime/default"),
        ({"type": "Unconfined"}, None, {"type": "RuntimeDefault"}, "unconfined"),
        (None, "localhost/noted", {"type": "RuntimeDefault"}, "localhost/noted"),
        (None, "runtime/default", {"type": "Unconfined"}, "runtime/default"),
        ({"type": "Unconfined"}, "localhost/noted", None, "unconfined"),
        (None, "nonsense", {"type": "Unconfined"}, "unconfined"),
        (None, "", {"type": "Unconfined"}, "unconfined"),
    ],
)
def test_apparmor_precedence_container_annotation_pod(own, note, shared, expected):
    notes = {} if note is None else {APPARMOR + "c": note, APPARMOR + "other": "unconfined"}
    found = security(
        {"appArmorProfile": own} if own else {},
        {"appArmorProfile": shared} if shared else {},
        annotations=notes,
    )
    assert found.apparmor == expected


def test_a_privileged_container_has_no_apparmor_profile():
    profile = {"appArmorProfile": {"type": "RuntimeDefault"}}
    assert security({"privileged": True}, profile).apparmor == ""


@pytest.mark.parametrize(
    ("note", "wanted"), [("localhost/x", True), ("runtime/default", True), ("unconfined", False)]
)
def test_legacy_apparmor_annotations_are_supported(note, wanted):
    pod = make_pod(metadata={"annotations": {APPARMOR + "c": note}})
    assert wants_apparmor(pod) is wanted


@pytest.mark.parametrize(
    ("own", "shared", "expected"),
    [
        (None, None, ()),
        (None, {"type": "spc_t", "level": "s0:c1"}, ("type:spc_t", "level:s0:c1")),
        (
            {"user": "u", "role": "r"},
            {"type": "spc_t"},
            # The container's label replaces the pod's completely.
            ("user:u", "role:r"),
        ),
    ],
)
def test_selinux(own, shared, expected):
    found = security(
        {"seLinuxOptions": own} if own else {}, {"seLinuxOptions": shared} if shared else {}
    )
    assert found.selinux == expected
    assert security({"privileged": True}, {"seLinuxOptions": {"type": "t"}}).selinux == ()
