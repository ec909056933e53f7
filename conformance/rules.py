"""The permitted differences between both sides, each with its reason. Everything else must be
equal.

A rule applies to both sides. `Mask` replaces parts of a value; `Repeat` selects events whose number
depends on timing; `Unordered` selects events whose order does; `Leave` ignores lines; `Fleeting`
lists statuses that may be missed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

EVENT: Final = "event"
LOG: Final = "log"


@dataclass(frozen=True, slots=True)
class Mask:
    """In values whose path matches ``where`` (`EVENT` for a message, `LOG` for a line of output),
    replace ``pattern`` by ``text``. All three are regular expressions, searched."""

    where: str
    pattern: str
    text: str
    why: str


@dataclass(frozen=True, slots=True)
class Repeat:
    """Collapse repeated lines that match ``group`` one by one with the same texts.

    With ``mark``, a group that returned is distinguished from one that did not.
    """

    group: tuple[str, ...]
    mark: bool
    why: str


@dataclass(frozen=True, slots=True)
class Unordered:
    """Compare adjacent matching lines in alphabetical order."""

    pattern: str
    why: str


@dataclass(frozen=True, slots=True)
class Leave:
    """Ignore matching lines. ``only`` is ``after`` (events after the removal), ``default`` (without
    ``kubeletStrict``) or empty for always."""

    pattern: str
    only: str
    why: str


TIME: Final = r"^\"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z\"$"


@dataclass(frozen=True, slots=True)
class Fleeting:
    """In ``case``, a status whose line contains ``text`` may be missed."""

    case: str
    text: str
    why: str


MASKS: Final = (
    Mask(r"(startTime|startedAt|finishedAt|lastTransitionTime)$", TIME, "TIME", "a time"),
    Mask(r"(^|\.)(podIP|podIPs\[[0-9]+\]\.ip)$", r'^"[0-9a-f.:]+"$', "ADDRESS", "an address"),
    Mask(
        r"(^|\.)containerID$",
        r'^"(docker|podman|containerd)://[0-9a-f]{64}"$',
        "RUNTIME://ID",
        "runtimes use different IDs",
    ),
    Mask(
        r"(^|\.)imageID$",
        r'^"([a-z-]+://)?([^"]*@)?sha256:[0-9a-f]{64}"$',
        "IMAGE-ID",
        "the image was built on each machine, and each runtime formats IDs differently",
    ),
    Mask(
        r"^(init)?[cC]ontainerStatuses\[[^]]*\]\.image$",
        r'^"docker\.io/library/',
        '"',
        "the engine omits `docker.io/library/` from names",
    ),
    Mask(
        rf"^{EVENT}$",
        r"\n$",
        "",
        "events were recorded without the last line feed; the record of the API server has it",
    ),
    Mask(
        rf"^{EVENT}$|\.message$",
        r"\b[0-9a-f]{64}\b",
        "ID",
        "the id of a container or of its task",
    ),
    Mask(
        rf"^{EVENT}$|\.message$",
        r'(Failed to pull image "[^"]*": |ErrImagePull: ).*',
        r"\1ENGINE",
        "the engine's message for a registry that does not respond",
    ),
    Mask(
        rf"^{EVENT}$|^message$",
        r"\(res: cpu, q: [0-9]+\)",
        "(res: cpu, q: N)",
        "the missing amount depends on the number of CPUs of the machine",
    ),
    Mask(
        rf"^{LOG}$",
        r"^CPU_LIM=[0-9]+$",
        "CPU_LIM=N",
        "without a limit, the value is the capacity of the machine",
    ),
)

REPEATS: Final = (
    Repeat(
        (r"Warning BackOff .*Back-off restarting",),
        False,
        "reported at each sync during the back-off; a late relist may add one more",
    ),
    Repeat(
        (r"Normal BackOff .*Back-off pulling", r"Warning Failed .*ImagePullBackOff"),
        False,
        "one sync every 10 to 15 s during a back-off of 10, 20, 40 s",
    ),
    Repeat(
        (r"Warning ErrImageNeverPull ", r"Warning Failed .*ErrImageNeverPull"),
        True,
        "one sync every 10 to 15 s: the number depends on the end of the recording",
    ),
    Repeat(
        (r"Warning InspectFailed ", r"Warning Failed .*InvalidImageName"),
        True,
        "one sync every 10 to 15 s: the number depends on the end of the recording",
    ),
    Repeat(
        (r"Normal Pulled ", r"Warning Failed .*runAsNonRoot"),
        True,
        "one sync every 10 to 15 s: the number depends on the end of the recording",
    ),
    Repeat((r"Warning FailedMount ",), True, "retried forever: the number depends on the duration"),
    Repeat(
        (r"Warning Unhealthy .*Readiness probe failed",),
        True,
        "a failing readiness probe never ends: the number depends on the end of the recording",
    ),
)

UNORDERED: Final = (
    Unordered(
        r"^Normal Killing .*Stopping container", "the containers of a pod are stopped in parallel"
    ),
)

LEAVES: Final = (
    Leave(
        r"\.user\.linux\.",
        "",
        "containerd 1.6 does not report the user of a container's first process; Docker does",
    ),
    Leave(
        r"^Warning Unhealthy ",
        "after",
        "readiness probes continue until the container is removed: a failure depends on timing",
    ),
    Leave(
        r"^hostIPs?\b",
        "default",
        "departure 5: the recording was made by a kubelet without an API server, which omits it",
    ),
)

FLEETING: Final = (
    Fleeting("init-fail", "[running]", "the container exits immediately"),
    Fleeting("onfailure", "[running]", "the container exits immediately"),
    Fleeting("poststart-fail", "[running]", "the hook fails immediately"),
)

# Additional rules for the API objects. Paths are those of the whole object.
MIRROR_MASKS: Final = (
    Mask(
        r"(Timestamp|HeartbeatTime)$|config\.seen$",
        r'^"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z"$',
        "TIME",
        "a time",
    ),
    Mask(r"^metadata\.resourceVersion$", r'^"[0-9]+"$', "VERSION", "a count of all writes"),
    Mask(r"^metadata\.ownerReferences\[refnode\]\.uid$", r"^.+$", "NODE-UID", "a random id"),
    Mask(r"^metadata\.name$", r"\.[0-9a-f]{16}\"$", '.NANOS"', "a time in an event's name"),
    Mask(r"\.hostIPs?(\[0\]\.ip)?$", r'^"[0-9a-f.:]+"$', "ADDRESS", "an address"),
    Mask(r"^status\.addresses\[InternalIP\]\.address$", r"^.+$", "ADDRESS", "an address"),
    Mask(
        r"^status\.(capacity|allocatable)\.(cpu|memory|ephemeral-storage)$",
        r'^"[0-9]+(Ki|m)?"$',
        "AMOUNT",
        "another machine, or other reserved resources",
    ),
    Mask(r"^status\.nodeInfo\.[a-zA-Z]+$", r'^".+"$', "TEXT", "another machine and runtime"),
)
MIRROR_LEAVES: Final = (
    Leave(
        r"^metadata\.managedFields(\[|\.| = )",
        "",
        "the recordings were made by kubectl get, which leaves out who manages the fields",
    ),
    Leave(
        r"^metadata\.uid = ",
        "",
        "an API server assigns a UID to a mirror pod; podtui keeps the UID of the static pod",
    ),
    Leave(
        r"^metadata\.generation = 1$|^spec\.(priority = 0|preemptionPolicy = \"PreemptLower.*)$",
        "",
        "added by the admission of an API server; podtui serves the pod as in the manifest",
    ),
    Leave(
        r"^metadata\.annotations\.podtui\.dev/",
        "",
        "podtui's annotation with the manifest of the pod",
    ),
    Leave(
        r"^status\.(hostIPs\[[1-9]\]|addresses\[InternalIP#2\])\.",
        "",
        "a machine with an IPv6 address reports it as well",
    ),
    Leave(r"^spec\.taints\[", "", "the admission of an API server taints a new node"),
    Leave(r"^spec = \{\}$", "", "without taints, the node's spec is empty"),
    Leave(
        r"^status\.daemonEndpoints\.",
        "",
        "the port of podtui's API, which serves the kubelet's endpoints, is not 10250",
    ),
    Leave(r"^status\.runtimeHandlers\[", "", "containerd 1.6 does not report its handlers"),
    Leave(
        r"^status\.declaredFeatures\[",
        "",
        "a list of features for schedulers, which depends on podtui's own features",
    ),
    Leave(r"^status\.images\[", "", "each machine has its own images"),
)
