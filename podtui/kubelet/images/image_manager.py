"""Pull container images onto the machine (kubelet.md §6.7)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from podtui.api.image_reference import InvalidImageName, with_default_tag
from podtui.api.insight import StepKind
from podtui.api.v1 import Container, Pod
from podtui.clock import Clock
from podtui.errors import EngineError, EngineUnavailable, ImagePullError
from podtui.events.token_bucket import TokenBucket
from podtui.kubelet.backoff import Backoff, image_key
from podtui.kubelet.config import KubeletConfig
from podtui.kubelet.events.recorder import NORMAL, WARNING, EventRecorder, field_path
from podtui.kubelet.events.timelines import Timelines
from podtui.kubelet.images.pull_secrets import (
    BadPullSecret,
    credentials,
    missing_secrets,
    missing_text,
)
from podtui.kubelet.images.pulled_images import PulledImages
from podtui.kubelet.kubelet_metrics import IMAGE_PULL_SECONDS
from podtui.kubelet.volumes.documents import Documents
from podtui.runtime.protocol import ImageRecord, PullProgress, RegistryAuth, Runtime
from podtui.text.go_format import aggregated, go_duration

_LOG = logging.getLogger(__name__)
PROGRESS_PERIOD: Final = 1.0
Progress = Callable[[str, str | None], None]
# Errors that start with one of these words get it as their reason; the values explain the word.
_NAMED_ERRORS: Final = {
    "RegistryUnavailable": "the registry is unavailable",
    "SignatureValidationFailed": "the signature validation failed",
}


@dataclass(frozen=True, slots=True)
class ImageFailure:
    """Why an image is not available: a waiting reason and its message."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ImageRequest:
    """A request for an image: its name and pull policy from the pod spec, the field path of its
    events (empty for the pod itself), and the label to show beside the pull progress."""

    image: str
    policy: str
    field_path: str
    label: str


class ImageManager:
    """Pulls missing images, with limited parallelism.

    ``on_progress`` is called with the pod UID and the progress of a pull (``LABEL: STATUS
    CURRENT/TOTAL`` in bytes; see `ImageRequest`), at most once a second, and with None at the end.
    """

    def __init__(
        self,
        runtime: Runtime,
        events: EventRecorder,
        clock: Clock,
        config: KubeletConfig,
        *,
        documents: Documents,
        pulled: PulledImages,
        timelines: Timelines,
        on_progress: Progress,
    ) -> None:
        self._runtime = runtime
        self._events = events
        self._clock = clock
        self._strict = config.strict
        self._documents = documents
        self._pulled = pulled
        self._timelines = timelines
        self._on_progress = on_progress
        self._bucket = TokenBucket(config.registry_pull_qps, config.registry_burst)
        self._backoff = Backoff()
        self._failures: dict[str, str] = {}
        self._slots = asyncio.Semaphore(config.pull_slots) if config.pull_slots else None

    async def ensure(
        self, pod: Pod, container: Container, stopping: asyncio.Event
    ) -> ImageRecord | ImageFailure:
        """Return the container's image. See `ensure_image`."""
        path = field_path(pod, container.name)
        request = ImageRequest(container.image, container.imagePullPolicy, path, container.name)
        return await self.ensure_image(pod, request, stopping)

    async def ensure_image(
        self, pod: Pod, request: ImageRequest, stopping: asyncio.Event
    ) -> ImageRecord | ImageFailure:
        """Return an image, pulled if necessary. If the pod is ``stopping``, a pull in progress
        continues, but waiting for a pull slot ends. Raises `EngineUnavailable`."""
        path = request.field_path
        try:
            name = with_default_tag(request.image)
        except InvalidImageName as error:
            text = f'Failed to apply default image tag "{request.image}": {error}'
            self._events.pod(pod, WARNING, "InspectFailed", text, path)
            return ImageFailure("InvalidImageName", text)
        if request.policy != "Always":
            inspected = await self._inspect(pod, request, name)
            if inspected is not None:
                return inspected
        key = image_key(pod, name)
        if self._backoff.remaining(key, self._clock.monotonic()) > 0:
            text = f'Back-off pulling image "{request.image}"'
            self._events.pod(pod, NORMAL, "BackOff", text, path)
            last = self._failures.get(key)
            return ImageFailure("ImagePullBackOff", f"{text}: {last}" if last else text)
        return await self._pull(pod, request, name, key, stopping)

    async def _inspect(
        self, pod: Pod, request: ImageRequest, name: str
    ) -> ImageRecord | ImageFailure | None:
        path = request.field_path
        try:
            record = await self._runtime.image_status(name)
        except EngineUnavailable:
            raise
        except EngineError as error:
            text = f'Failed to inspect image "{request.image}": {error}'
            self._events.pod(pod, WARNING, "InspectFailed", text, path)
            return ImageFailure("ImageInspectError", text)
        if record is not None:
            text = (
                f'Container image "{request.image}" already present on machine '
                "and can be accessed by the pod"
            )
            self._events.pod(pod, NORMAL, "Pulled", text, path)
            return record
        if request.policy == "Never":
            text = f'Container image "{request.image}" is not present with pull policy of Never'
            self._events.pod(pod, WARNING, "ErrImageNeverPull", text, path)
            return ImageFailure("ErrImageNeverPull", text)
        return None

    async def _pull(
        self,
        pod: Pod,
        request: ImageRequest,
        name: str,
        key: str,
        stopping: asyncio.Event,
    ) -> ImageRecord | ImageFailure:
        image, path = request.image, request.field_path
        queued = self._clock.monotonic()
        self._events.pod(pod, NORMAL, "Pulling", f'Pulling image "{image}"', path)
        reporter = _Reporter(pod.metadata.uid, request.label, self._clock, self._on_progress)
        self._timelines.began(pod, StepKind.PULL, image)
        reporter.report("Waiting")
        if not await self._take_slot(stopping):
            reporter.end()
            text = "the pod is being stopped"
            self._timelines.ended(pod, StepKind.PULL, image, failed=True, note=text)
            return ImageFailure("ErrImagePull", text)
        began = self._clock.monotonic()
        reporter.report("Pulling")
        try:
            record = await self._fetch(pod, name, reporter)
        except EngineUnavailable:
            raise
        except EngineError as error:
            text = str(error)
            self._events.pod(
                pod, WARNING, "Failed", f'Failed to pull image "{image}": {text}', path
            )
            self._backoff.next(key, self._clock.monotonic())
            failure = _pull_failure(image, text)
            self._timelines.ended(pod, StepKind.PULL, image, failed=True, note=failure.reason)
            self._failures[key] = f"{failure.reason}: {failure.message}"
            return failure
        finally:
            if self._slots is not None:
                self._slots.release()
            reporter.end()
        self._failures.pop(key, None)
        ended = self._clock.monotonic()
        self._timelines.ended(pod, StepKind.PULL, image, note=_queue_time(began - queued))
        self._events.pod(
            pod,
            NORMAL,
            "Pulled",
            f'Successfully pulled image "{image}" in {go_duration(ended - began)} '
            f"({go_duration(ended - queued)} including waiting). Image size: {record.size} bytes.",
            path,
        )
        return record

    async def _fetch(self, pod: Pod, name: str, reporter: _Reporter) -> ImageRecord:
        """Pull with each of the pod's credentials in turn. Raises `EngineError`."""
        if not self._bucket.take(self._clock.monotonic()):
            raise ImagePullError("pull QPS exceeded")
        try:
            logins = credentials(pod, name, (await self._documents.of(pod)).secrets)
        except BadPullSecret as error:
            raise ImagePullError(str(error)) from None
        before = frozenset[str]()
        if not self._strict:
            before = frozenset(image.id for image in await self._runtime.list_images())
        record = await self._pull_with(name, logins or (None,), reporter)
        if not self._strict:
            await self._pulled.note(record, before)
        return record

    async def _pull_with(
        self, name: str, logins: tuple[RegistryAuth | None, ...], reporter: _Reporter
    ) -> ImageRecord:
        errors: list[str] = []
        for auth in logins:
            try:
                with IMAGE_PULL_SECONDS.time():
                    return await self._runtime.pull_image(
                        name, auth=auth, on_progress=reporter.take
                    )
            except EngineUnavailable:
                raise
            except EngineError as error:
                errors.append(str(error))
        raise ImagePullError(aggregated(errors))

    async def report_missing_secrets(self, pod: Pod) -> None:
        """Record an event that lists the pod's missing pull secrets; the pull is tried without
        them."""
        if pod.spec.imagePullSecrets:
            names = missing_secrets(pod, (await self._documents.of(pod)).secrets)
            if names:
                text = missing_text(names)
                self._events.pod(pod, WARNING, "FailedToRetrieveImagePullSecret", text)

    async def _take_slot(self, stopping: asyncio.Event) -> bool:
        """Wait for a pull slot. Return False if the pod started to stop first."""
        if self._slots is None:
            return True
        if not self._slots.locked():
            return await self._slots.acquire()
        async with asyncio.TaskGroup() as group:
            turn = group.create_task(self._slots.acquire(), name="wait for a pull")
            stop = group.create_task(stopping.wait(), name="wait for the pod's end")
            await asyncio.wait((turn, stop), return_when=asyncio.FIRST_COMPLETED)
            turn.cancel()
            stop.cancel()
        return not turn.cancelled()

    def forget(self, uid: str) -> None:
        """Drop all state of a pod that is gone."""
        for key in [key for key in self._failures if key.startswith(f"{uid}_")]:
            del self._failures[key]
            self._backoff.forget(key)

    def collect(self) -> None:
        """Drop expired back-offs and their failure messages."""
        self._backoff.collect(self._clock.monotonic())
        for key in [key for key in self._failures if not self._backoff.delay(key)]:
            del self._failures[key]


def _queue_time(seconds: float) -> str:
    """Format the queueing time for the timeline: pulls of other pods came first."""
    return f"{seconds:.1f}s of it in the queue" if seconds >= 0.1 else ""


def _pull_failure(image: str, text: str) -> ImageFailure:
    for reason, cause in _NAMED_ERRORS.items():
        if text.startswith(reason):
            rest = text.removeprefix(reason)
            return ImageFailure(reason, f"image pull failed for {image} because {cause}{rest}")
    return ImageFailure("ErrImagePull", text)


class _Reporter:
    """Forwards one pull's progress from any thread to the event loop, at most once a second."""

    def __init__(self, uid: str, label: str, clock: Clock, report: Progress) -> None:
        self._uid = uid
        self._label = label
        self._clock = clock
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._next = 0.0
        self._over = False

    def report(self, status: str) -> None:
        self._report(self._uid, f"{self._label}: {status}")

    def take(self, progress: PullProgress) -> None:
        self._loop.call_soon_threadsafe(self._take, progress)

    def _take(self, progress: PullProgress) -> None:
        now = self._clock.monotonic()
        if self._over or now < self._next:
            return
        self._next = now + PROGRESS_PERIOD
        amount = f" {progress.current}/{progress.total}" if progress.total else ""
        self._report(self._uid, f"{self._label}: {progress.status}{amount}")

    def end(self) -> None:
        self._over = True
        self._report(self._uid, None)
