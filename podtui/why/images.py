"""Causes of a failed image pull (kubelet.md §6.7)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator

from podtui.api.image_reference import parse_image_reference
from podtui.api.v1 import Node
from podtui.editing.source import Source
from podtui.why.cases import Case, newest
from podtui.why.types import Fix, Kind, Match, Rule, with_events

_DOCS = "https://kubernetes.io/docs/concepts/containers/images/"
_PULLING = ("ErrImagePull", "ImagePullBackOff")
_EVENTS = ("Pulling", "Failed", "BackOff", "ErrImageNeverPull", "InspectFailed")
_HOST = re.compile(r"(?:lookup|https?://|registry )\"?([A-Za-z0-9.:-]+)")
_ABSENT = ("manifest unknown", "not found", "does not exist", "name unknown", "name invalid")
_DENIED = ("unauthorized", "denied", "authentication required", "no basic auth", "403 Forbidden")
_UNREACHABLE = (
    "no such host", "dial tcp", "i/o timeout", "context deadline exceeded", "connection refused",
    "network is unreachable", "no route to host", "Client.Timeout", "server misbehaving", "EOF",
    "TLS handshake timeout", "registry is unavailable", "Temporary failure in name resolution",
)  # fmt: skip
_TLS = ("x509", "certificate", "HTTP response to HTTPS client")
_LIMIT = ("toomanyrequests", "rate limit", "429")
_PLATFORM = ("no matching manifest for", "does not match the specified platform")


def _problem(case: Case) -> str:
    """Return the engine's message about the last pull; empty if no pull failed."""
    if case.waiting.reason not in _PULLING:
        return ""
    _, parted, text = case.waiting.message.partition("ErrImagePull: ")
    if parted or case.waiting.reason == "ErrImagePull":
        return text if parted else case.waiting.message
    event = newest(case.events_with("Failed", "Failed to pull image"))
    return event.message if event is not None else case.waiting.message


def local_images(node: Node | None) -> tuple[str, ...]:
    """Return the names of the machine's images with their tags, in the short form that people
    write."""
    if node is None:
        return ()
    names = (name for image in node.status.images for name in image.names if "@" not in name)
    return tuple(dict.fromkeys(_short(name) for name in names if "<none>" not in name))


def _short(name: str) -> str:
    return name.removeprefix("docker.io/").removeprefix("library/")


def similar_image(image: str, node: Node | None) -> str:
    """Return the local image that was probably meant; empty if none is similar."""
    wanted, local = _short(image), local_images(node)
    parts = parse_image_reference(wanted)
    name = parts.name if parts is not None else wanted.lower()
    same = [other for other in local if other.rpartition(":")[0] == name and other != wanted]
    if same:
        return max(same, key=lambda other: difflib.SequenceMatcher(None, other, wanted).ratio())
    names = difflib.get_close_matches(wanted.lower(), local, n=1, cutoff=0.75)
    return names[0] if names and names[0] != wanted else ""


def is_local(image: str, node: Node | None) -> bool:
    """Return whether the machine has an image of exactly this name."""
    wanted = _short(image)
    parts = parse_image_reference(wanted)
    if parts is not None and not parts.tag and not parts.digest:
        wanted += ":latest"
    return wanted in local_images(node)


def _use_similar_image(case: Case, match: Match, source: Source) -> Iterator[Fix | None]:
    image = case.container.image
    if is_local(image, case.facts.node) and case.container.imagePullPolicy == "Always":
        edits = source.set((*case.path, "imagePullPolicy"), "IfNotPresent", after="image")
        yield Fix("Use the image that is on this machine: imagePullPolicy IfNotPresent", edits)
    near = similar_image(image, case.facts.node)
    if near:
        path = (*case.path, "image")
        yield Fix(f"Use {near}, which is on this machine", source.set(path, near))


def _lower_case(case: Case, match: Match, source: Source) -> Iterator[Fix | None]:
    wanted = re.sub(r"\s+", "-", case.container.image.strip())
    head, slash, tail = wanted.rpartition("/")
    name, colon, tag = tail.partition(":")
    corrected = f"{head.lower()}{slash}{name.lower()}{colon}{tag}"
    if corrected != case.container.image and parse_image_reference(corrected) is not None:
        yield Fix(f"Change it to {corrected}", source.set((*case.path, "image"), corrected))
    yield from _use_similar_image(case, match, source)


def _may_pull(case: Case, match: Match, source: Source) -> Iterator[Fix | None]:
    yield from _use_similar_image(case, match, source)
    edits = source.set((*case.path, "imagePullPolicy"), "IfNotPresent", after="image")
    yield Fix("Allow pulling it: imagePullPolicy IfNotPresent", edits)


def _match(case: Case, text: str) -> Match:
    near, image = similar_image(case.container.image, case.facts.node), case.container.image
    parts = parse_image_reference(image)
    host = _HOST.search(text)
    hint = f"This machine has a similar image, {near}." if near else ""
    if is_local(image, case.facts.node) and case.container.imagePullPolicy == "Always":
        hint = "This machine has it, but with imagePullPolicy Always each start asks the registry."
    tag = parts.tag or "latest" if parts is not None else ""
    values = {"tag": tag, "host": host[1] if host else "its registry", "hint": hint}
    return Match({**values, "text": text.strip()})


def _pull(*hints: str) -> Callable[[Case], Match | None]:
    def match(case: Case) -> Match | None:
        text = _problem(case)
        return _match(case, text) if text and any(hint in text for hint in hints) else None

    return match


def _any_pull(case: Case) -> Match | None:
    if case.waiting.reason in (*_PULLING, "ImageInspectError", "SignatureValidationFailed"):
        return _match(case, _problem(case) or case.waiting.message)
    return None


def _unreachable(case: Case) -> Match | None:
    if case.waiting.reason == "RegistryUnavailable":
        return _match(case, case.waiting.message)
    return _pull(*_UNREACHABLE)(case)


def _denied(case: Case) -> Match | None:
    """Match a denied pull. A registry also denies images that do not exist, so the message is
    ambiguous."""
    return _pull(*_DENIED)(case)


def _absent(case: Case) -> Match | None:
    text = _problem(case)
    if "may require" in text or any(hint in text for hint in (*_DENIED, *_UNREACHABLE, *_TLS)):
        return None
    return _pull(*_ABSENT)(case)


def _named(reason: str) -> Callable[[Case], Match | None]:
    def match(case: Case) -> Match | None:
        waiting = case.waiting
        return _match(case, waiting.message) if waiting.reason == reason else None

    return match


def _is_pulling(case: Case) -> Match | None:
    pulling = newest(case.events_with("Pulling"))
    done = newest(e for r in ("Pulled", "Failed") for e in case.events_with(r))
    if case.waiting.reason not in ("ContainerCreating", "PodInitializing") or pulling is None:
        return None
    return Match() if done is None else None


IMAGES: tuple[Rule[Case], ...] = with_events(
    _EVENTS,
    Rule(
        id="InvalidImageName",
        match=_named("InvalidImageName"),
        title="{image} is not a valid image name.",
        brief="invalid image name: {image}",
        sentences=(
            "Image names are lower-case, without spaces: name:tag, or host/path/name:tag.",
            "{hint}",
        ),
        field=("image",),
        events=("InspectFailed", "Failed"),
        fixes=_lower_case,
        docs=_DOCS + "#image-names",
    ),
    Rule(
        id="ImageNeverPulled",
        match=_named("ErrImageNeverPull"),
        title="The image {image} is not on this machine, and imagePullPolicy is Never.",
        brief="image absent, never pulled: {image}",
        sentences=("{hint}",),
        advice="Build or load the image here, or allow pulling it.",
        field=("imagePullPolicy",),
        events=("ErrImageNeverPull", "Failed"),
        fixes=_may_pull,
        docs=_DOCS + "#image-pull-policy",
    ),
    Rule(
        id="ImagePlatform",
        match=_pull(*_PLATFORM),
        title="The image {image} was not built for this machine's processor.",
        brief="image for another processor",
        sentences=("{text}",),
        advice="Use a tag that was built for it, or build one.",
        field=("image",),
        docs=_DOCS + "#multi-architecture-images-with-image-indexes",
    ),
    Rule(
        id="RegistryLimit",
        match=_pull(*_LIMIT),
        title="The registry's rate limit for this address is reached.",
        brief="registry rate limit reached",
        sentences=(
            "The pull is retried with back-off, up to 5 minutes.",
            "{hint}",
        ),
        advice="Wait, or log in with an imagePullSecret, which has a higher limit.",
        field=("image",),
        fixes=_use_similar_image,
        docs=_DOCS,
    ),
    Rule(
        id="RegistryCertificate",
        match=_pull(*_TLS),
        title="The engine does not trust the registry of {image}.",
        brief="registry not trusted: {image}",
        sentences=("{text}", "This depends on the engine's settings, not on the pod.", "{hint}"),
        advice="Configure the registry's certificate in the engine, or allow it as insecure there.",
        field=("image",),
        fixes=_use_similar_image,
    ),
    Rule(
        id="ImageDenied",
        match=_denied,
        title="The registry denies access to {image}: it does not exist, or requires a login.",
        brief="image denied or absent: {image}",
        sentences=(
            "Registries return the same error for both.",
            "{hint}",
        ),
        advice="Check the name; for a private image, add its Secret to imagePullSecrets.",
        field=("image",),
        fixes=_use_similar_image,
        docs=_DOCS + "#specifying-imagepullsecrets-on-a-pod",
    ),
    Rule(
        id="RegistryUnreachable",
        match=_unreachable,
        title="The registry of {image} cannot be reached from this machine.",
        brief="registry unreachable: {image}",
        sentences=("{host} did not answer: {text}", "{hint}"),
        advice="Check the host in the image's name, the network and the engine's proxy.",
        field=("image",),
        fixes=_use_similar_image,
        docs=_DOCS,
    ),
    Rule(
        id="ImageNotFound",
        match=_absent,
        title="There is no image {image}: the registry does not have that name and tag.",
        brief="no such image: {image}",
        sentences=("{hint}",),
        advice="Check name and tag ({tag}) for a typo.",
        field=("image",),
        fixes=_use_similar_image,
        docs=_DOCS + "#image-names",
    ),
    Rule(
        id="ImagePull",
        match=_any_pull,
        title="The image {image} cannot be pulled.",
        brief="pull fails: {image}",
        sentences=("{text}", "{hint}"),
        field=("image",),
        fixes=_use_similar_image,
        docs=_DOCS,
    ),
    Rule(
        id="Pulling",
        match=_is_pulling,
        title="The image {image} is being pulled.",
        field=("image",),
        events=("Pulling",),
        kind=Kind.WAIT,
    ),
)
