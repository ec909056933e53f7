"""Jobs: pure decisions on histories of pods, and the controller on a store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from controller_store import ControllerStore, RecordedEvents
from examples import examples
from fixed_clock import FixedClock
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from podtui.api.batch import (
    Job,
    JobSpec,
    JobStatus,
    PodFailurePolicy,
    PodFailurePolicyOnExitCodesRequirement,
    PodFailurePolicyOnPodConditionsPattern,
    PodFailurePolicyRule,
    SuccessPolicy,
    SuccessPolicyRule,
)
from podtui.api.times import rfc3339
from podtui.api.v1 import (
    Container,
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    EnvVar,
    LabelSelector,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    PodTemplateSpec,
)
from podtui.client.cache import Cache
from podtui.controllers.events import ControllerEvents
from podtui.controllers.job_failures import BackOff, finished_at, judge
from podtui.controllers.job_indexes import Indexes
from podtui.controllers.job_progress import (
    FINALIZER,
    INDEX,
    INDEX_FAILURES,
    has_finalizer,
    index_of,
    is_finished,
    matching_success_rule,
    new_pod,
)
from podtui.controllers.jobs import FinishedJobs, JobController, OrphanedJobPods
from podtui.errors import ApiError

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LABELS = {"job-name": "j"}
KEY = ("ns", "j")


def job(*, restart: str = "Never", **fields: Any) -> Job:
    spec = PodSpec(
        containers=(Container(name="c", image="i"),),
        initContainers=(Container(name="i", image="i"),),
        restartPolicy=restart,
    )
    template = PodTemplateSpec(metadata=ObjectMeta(labels=LABELS), spec=spec)
    defaults = {"parallelism": 1, "completions": 1, "backoffLimit": 6, "suspend": False}
    return Job(
        metadata=ObjectMeta(name="j", namespace="ns", uid="job"),
        spec=JobSpec(
            template=template,
            selector=LabelSelector(matchLabels=LABELS),
            **cast("Any", defaults | fields),
        ),
    )


def ended(code: int, at: datetime = NOW) -> PodStatus:
    terminated = ContainerStateTerminated(exitCode=code, finishedAt=rfc3339(at))
    status = ContainerStatus(
        name="c",
        image="i",
        imageID="",
        ready=False,
        restartCount=0,
        state=ContainerState(terminated=terminated),
    )
    return PodStatus(phase="Failed" if code else "Succeeded", containerStatuses=(status,))


class World:
    """A Job, its pods and the controllers, without a loop."""

    def __init__(self, item: Job) -> None:
        self.cache = Cache()
        self.clock = FixedClock(NOW)
        for kind in (Job, Pod):
            self.cache.add_kind(kind)
        self.store = ControllerStore(self.cache, self.clock)
        self.events = RecordedEvents()
        events = cast("ControllerEvents", self.events)
        self.controller = JobController(self.cache, self.store, events, self.clock)
        self.orphans = OrphanedJobPods(self.cache, self.store)
        self.again: float | None = None
        self.store.add(item)

    @property
    def job(self) -> Job:
        item = self.cache.get(Job, *KEY)
        assert item is not None
        return item

    @property
    def status(self) -> JobStatus:
        return self.job.status

    @property
    def pods(self) -> list[Pod]:
        return self.cache.list(Pod)

    @property
    def active(self) -> list[Pod]:
        return [
            pod
            for pod in self.pods
            if pod.status.phase not in ("Succeeded", "Failed")
            and pod.metadata.deletionTimestamp is None
        ]

    def sync(self, times: int = 2) -> None:
        for _ in range(times):
            self.again = asyncio.run(self.controller.sync(KEY))

    def run(self, pod: Pod) -> None:
        self.store.change(pod, status=PodStatus(phase="Running"))

    def end(self, pod: Pod, code: int) -> None:
        self.store.change(pod, status=ended(code, self.clock.now()))

    def change(self, **fields: Any) -> None:
        self.store.change(self.job, spec=structs.replace(self.job.spec, **fields))

    def end_all(self, code: Callable[[Pod], int] = lambda _: 0, rounds: int = 20) -> None:
        """End all active pods until nothing more is active."""
        for _ in range(rounds):
            self.sync()
            if self.again is not None and not self.active:
                self.clock.advance(self.again)
            for pod in self.active:
                self.end(pod, code(pod))
        self.sync()

    def conditions(self) -> list[tuple[str, str, str]]:
        return [(c.type, c.reason, c.message) for c in self.status.conditions]


REACHED = "Reached expected number of succeeded pods"
COMPLETE = [
    ("SuccessCriteriaMet", "CompletionsReached", REACHED),
    ("Complete", "CompletionsReached", REACHED),
]
EXCEEDED = "Job has reached the specified backoff limit"
FAILED = [
    ("FailureTarget", "BackoffLimitExceeded", EXCEEDED),
    ("Failed", "BackoffLimitExceeded", EXCEEDED),
]


def failed(reason: str, message: str) -> list[tuple[str, str, str]]:
    return [("FailureTarget", reason, message), ("Failed", reason, message)]


# --- completions and parallelism


def test_a_job_runs_as_many_pods_as_it_wants_and_completes() -> None:
    world = World(job(parallelism=2, completions=3))
    world.sync()
    assert (len(world.active), world.status.active, world.status.ready) == (2, 2, 0)
    assert all(has_finalizer(pod) for pod in world.pods)
    assert all(pod.metadata.name.startswith("j-") for pod in world.pods)
    world.end(world.active[0], 0)
    world.sync()
    assert (world.status.succeeded, world.status.active) == (1, 2)
    world.end_all()
    assert (world.status.succeeded, world.status.active, len(world.pods)) == (3, None, 3)
    assert world.conditions() == COMPLETE
    assert world.status.completionTime is not None
    assert not any(has_finalizer(pod) for pod in world.pods)
    assert world.events.texts[-1] == "Normal Completed: Job completed"
    assert sum("SuccessfulCreate: Created pod: j-" in text for text in world.events.texts) == 3


def test_without_completions_one_success_ends_a_job_when_all_pods_have_ended() -> None:
    world = World(job(parallelism=3, completions=None))
    world.sync()
    first, *others = world.active
    world.end(first, 0)
    world.sync()
    assert (len(world.active), is_finished(world.job)) == (2, False)
    for pod in others:
        world.end(pod, 1)
    world.sync()
    assert world.conditions() == COMPLETE
    assert (world.status.succeeded, world.status.failed) == (1, 2)


def test_less_parallelism_deletes_pods_that_do_not_count() -> None:
    world = World(job(parallelism=3, completions=9))
    world.sync()
    running, *_ = world.active
    world.run(running)
    world.change(parallelism=1)
    world.sync()
    assert [pod.metadata.name for pod in world.active] == [running.metadata.name]
    assert (world.status.failed, world.status.active) == (None, 1)


def test_zero_completions_complete_at_once() -> None:
    world = World(job(parallelism=0, completions=0))
    world.sync()
    assert world.conditions() == COMPLETE


def test_a_finished_or_foreign_job_is_left_alone() -> None:
    world = World(job(managedBy="example.com/other"))
    world.sync()
    assert world.pods == []
    world = World(job())
    world.end_all()
    version = world.job.metadata.resourceVersion
    world.sync()
    assert world.job.metadata.resourceVersion == version


# --- failures


def test_failed_pods_are_replaced_after_a_growing_back_off_up_to_the_limit() -> None:
    world = World(job(backoffLimit=3))
    world.sync()
    waits: list[float] = []
    while not is_finished(world.job):
        world.end(world.active[0], 1)
        world.sync()
        if world.again is not None:
            assert world.active == []
            waits.append(world.again)
            world.clock.advance(world.again)
            world.sync()
    assert waits == [10, 20, 40]
    assert world.conditions() == FAILED
    assert (world.status.failed, world.status.completionTime) == (4, None)
    assert world.events.texts[-1] == f"Warning BackoffLimitExceeded: {EXCEEDED}"


def test_a_success_ends_the_back_off() -> None:
    world = World(job(completions=3))
    world.sync()
    world.end(world.active[0], 1)
    world.sync()
    assert world.again == 10
    world.clock.advance(10)
    world.sync()
    world.end(world.active[0], 0)
    world.sync()
    assert (len(world.active), world.again) == (1, None)


def test_restarts_of_containers_count_with_on_failure() -> None:
    world = World(job(restart="OnFailure", backoffLimit=2))
    world.sync()
    status = ContainerStatus(name="c", image="i", imageID="", ready=True, restartCount=2)
    running = PodStatus(phase="Running", containerStatuses=(status,))
    pod = world.store.change(world.active[0], status=running)
    world.sync()
    assert world.conditions() == FAILED[:1]  # The pod is still terminating.
    assert world.status.terminating == 1
    world.store.change(pod, metadata=structs.replace(world.pods[0].metadata), status=ended(1))
    world.sync()
    assert world.conditions() == FAILED


def test_a_deadline_ends_a_job_and_counts_from_its_resumption() -> None:
    world = World(job(activeDeadlineSeconds=30))
    world.sync()
    assert world.again == 30
    world.clock.advance(20)
    world.change(suspend=True)
    world.sync()
    assert (world.active, world.again, world.status.startTime) == ([], None, None)
    world.clock.advance(1000)
    world.change(suspend=False)
    world.sync()
    assert world.again == 30
    world.clock.advance(30)
    world.sync()
    message = "Job was active longer than specified deadline"
    assert world.conditions()[1:] == failed("DeadlineExceeded", message)
    assert world.status.failed == 1


def test_a_suspended_job_has_no_pods_and_says_so() -> None:
    world = World(job(suspend=True))
    world.sync()
    assert (world.pods, world.status.startTime) == ([], None)
    assert world.conditions() == [("Suspended", "JobSuspended", "Job suspended")]
    world.change(suspend=False)
    world.sync()
    assert [(c.type, c.status, c.reason) for c in world.status.conditions] == [
        ("Suspended", "False", "JobResumed")
    ]
    world.change(suspend=True)
    world.sync()
    assert (world.pods, world.status.failed) == ([], None)
    texts = [text for text in world.events.texts if "Job " in text]
    assert texts == [
        "Normal Suspended: Job suspended",
        "Normal Resumed: Job resumed",
        "Normal Suspended: Job suspended",
    ]


@pytest.mark.parametrize(("policy", "replaced"), [("TerminatingOrFailed", True), ("Failed", False)])
def test_the_replacement_policy_decides_when_a_deleted_pod_is_replaced(
    policy: str, replaced: bool
) -> None:
    world = World(job(podReplacementPolicy=policy))
    world.sync()
    pod = world.active[0]
    world.run(pod)
    asyncio.run(world.store.delete(Pod, pod))
    world.sync()
    world.clock.advance(10)
    world.sync()
    assert bool(world.active) is replaced
    assert world.status.failed == (1 if replaced else None)


def test_a_failed_creation_is_an_event_and_an_error() -> None:
    world = World(job(parallelism=3, completions=3))
    world.store.failures = [ApiError(403, "Forbidden", "exceeded quota")]
    with pytest.raises(ApiError):
        world.sync()
    assert world.events.texts == ["Warning FailedCreate: Error creating: exceeded quota"]
    assert world.status.startTime is not None
    world.sync()
    assert len(world.active) == 3


def policy(action: str, **rule: Any) -> PodFailurePolicy:
    return PodFailurePolicy(rules=(PodFailurePolicyRule(action=action, **rule),))


def codes(operator: str, *values: int, name: str = "") -> PodFailurePolicyOnExitCodesRequirement:
    return PodFailurePolicyOnExitCodesRequirement(
        containerName=name, operator=operator, values=values
    )


@pytest.mark.parametrize(
    ("rule", "code", "matches"),
    [
        (codes("In", 42), 42, True),
        (codes("In", 42), 1, False),
        (codes("NotIn", 42), 1, True),
        (codes("NotIn", 42), 42, False),
        (codes("In", 42, name="c"), 42, True),
        (codes("In", 42, name="other"), 42, False),
    ],
)
def test_rules_on_exit_codes(
    rule: PodFailurePolicyOnExitCodesRequirement, code: int, matches: bool
) -> None:
    pod = Pod(
        metadata=ObjectMeta(name="p", namespace="ns"),
        spec=PodSpec(containers=()),
        status=ended(code),
    )
    verdict = judge(policy("FailJob", onExitCodes=rule), pod)
    message = (
        f"Container c for pod ns/p failed with exit code {code} matching FailJob rule at index 0"
    )
    assert verdict.message == (message if matches else "")
    assert judge(policy("Ignore", onExitCodes=rule), pod).counts is not matches


def test_a_rule_on_a_condition_fails_the_job() -> None:
    pattern = PodFailurePolicyOnPodConditionsPattern(type="DisruptionTarget", status="True")
    world = World(job(podFailurePolicy=policy("FailJob", onPodConditions=(pattern,))))
    world.sync()
    condition = PodCondition(type="DisruptionTarget", status="True")
    pod = world.store.change(
        world.active[0], status=PodStatus(phase="Failed", conditions=(condition,))
    )
    world.sync()
    name = pod.metadata.name
    message = f"Pod ns/{name} has condition DisruptionTarget matching FailJob rule at index 0"
    assert world.conditions() == failed("PodFailurePolicy", message)


def test_ignored_failures_do_not_count() -> None:
    ignore = policy("Ignore", onExitCodes=codes("In", 7))
    world = World(job(backoffLimit=0, podFailurePolicy=ignore))
    world.sync()
    world.end(world.active[0], 7)
    world.sync()
    world.clock.advance(10)
    world.sync()
    assert (world.status.failed, len(world.active)) == (None, 1)
    world.end(world.active[0], 8)
    world.sync()
    assert world.conditions() == FAILED


# --- indexes


def indexed(**fields: Any) -> Job:
    return job(completionMode="Indexed", **fields)


def test_pods_of_an_indexed_job_know_their_index() -> None:
    world = World(indexed(parallelism=2, completions=3))
    world.sync()
    assert sorted(index_of(pod) or 0 for pod in world.active) == [0, 1]
    pod = min(world.active, key=lambda pod: pod.metadata.name)
    assert pod.metadata.name.startswith("j-0-")
    assert (pod.metadata.labels[INDEX], pod.metadata.annotations[INDEX]) == ("0", "0")
    assert pod.spec.hostname == "j-0"
    for container in (*pod.spec.containers, *pod.spec.initContainers):
        source = container.env[0].valueFrom
        assert source is not None
        assert source.fieldRef is not None
        assert container.env[0].name == "JOB_COMPLETION_INDEX"
        assert source.fieldRef.fieldPath == f"metadata.labels['{INDEX}']"
    world.end_all()
    assert (world.status.completedIndexes, world.status.succeeded) == ("0-2", 3)
    assert world.conditions() == COMPLETE


def test_an_own_index_variable_and_long_names_are_kept_valid() -> None:
    item = indexed()
    spec = structs.replace(
        item.spec.template.spec,
        containers=(
            Container(
                name="c", image="i", env=(EnvVar(name="JOB_COMPLETION_INDEX", value="mine"),)
            ),
        ),
    )
    template = structs.replace(item.spec.template, spec=spec)
    item = structs.replace(
        item,
        metadata=structs.replace(item.metadata, name="n" * 63),
        spec=structs.replace(item.spec, template=template),
    )
    pod = new_pod(item, 12)
    assert pod.metadata.generateName == "n" * 54 + "-12-"
    assert [variable.value for variable in pod.spec.containers[0].env] == ["mine"]


def test_a_failed_index_is_run_again() -> None:
    world = World(indexed(parallelism=2, completions=2))
    world.sync()
    first = next(pod for pod in world.active if index_of(pod) == 0)
    world.end(first, 1)
    world.sync()
    world.clock.advance(10)
    world.sync()
    assert sorted(index_of(pod) or 0 for pod in world.active) == [0, 1]


def test_repeated_and_invalid_indexes_are_deleted() -> None:
    world = World(indexed(parallelism=2, completions=2))
    world.sync()
    twin, *_ = world.active
    meta = structs.replace(twin.metadata, name="twin", uid="twin")
    world.store.add(structs.replace(twin, metadata=meta))
    wrong = structs.replace(meta, name="wrong", uid="wrong", annotations={INDEX: "9"})
    world.store.add(structs.replace(twin, metadata=wrong))
    world.sync()
    assert sorted(index_of(pod) or 0 for pod in world.active) == [0, 1]
    assert world.status.failed is None


def test_the_limit_per_index_fails_only_that_index() -> None:
    world = World(
        indexed(parallelism=3, completions=3, backoffLimitPerIndex=1, backoffLimit=2**31 - 1)
    )
    world.end_all(lambda pod: int(index_of(pod) == 1))
    assert world.conditions() == failed("FailedIndexes", "Job has failed indexes")
    assert (world.status.failedIndexes, world.status.completedIndexes) == ("1", "0,2")
    assert (world.status.failed, world.status.succeeded) == (2, 2)
    counts = sorted(
        pod.metadata.annotations[INDEX_FAILURES] for pod in world.pods if index_of(pod) == 1
    )
    assert counts == ["0", "1"]


def test_the_replacement_of_a_failed_index_waits_and_its_pod_is_held() -> None:
    world = World(indexed(backoffLimitPerIndex=3))
    world.sync()
    world.end(world.active[0], 1)
    world.sync()
    (pod,) = world.pods
    assert (world.again, has_finalizer(pod), world.status.failed) == (10, True, None)
    world.clock.advance(10)
    world.sync(1)
    assert len(world.active) == 1
    world.sync()
    assert (world.status.failed, world.status.active) == (1, 1)


def test_too_many_failed_indexes_fail_the_job() -> None:
    world = World(indexed(parallelism=4, completions=4, backoffLimitPerIndex=0, maxFailedIndexes=1))
    world.sync()
    for pod in world.active[:2]:
        world.end(pod, 1)
    world.sync()
    message = "Job has exceeded the specified maximal number of failed indexes"
    assert world.conditions() == failed("MaxFailedIndexesExceeded", message)
    assert world.active == []


def test_a_rule_can_fail_an_index_at_once() -> None:
    fail_index = policy("FailIndex", onExitCodes=codes("In", 9))
    world = World(indexed(completions=1, backoffLimitPerIndex=5, podFailurePolicy=fail_index))
    world.sync()
    world.end(world.active[0], 9)
    world.sync()
    assert world.conditions() == failed("FailedIndexes", "Job has failed indexes")


@pytest.mark.parametrize(
    ("rules", "done", "position"),
    [
        ([("0-2", None)], (0, 1, 2), 0),
        ([("0-2", None)], (0, 1), None),
        ([("0-2", 2)], (0, 2), 0),
        ([("", 2)], (5,), None),
        ([("9", None), ("", 1)], (5,), 1),
        ([("", 1)], (), None),
    ],
)
def test_success_rules(
    rules: Sequence[tuple[str, int | None]], done: tuple[int, ...], position: int | None
) -> None:
    success = SuccessPolicy(
        rules=tuple(
            SuccessPolicyRule(succeededIndexes=text, succeededCount=count) for text, count in rules
        )
    )
    spec = indexed(completions=10, successPolicy=success).spec
    assert matching_success_rule(spec, Indexes.of(done)) == position


def test_a_success_policy_ends_the_other_pods() -> None:
    success = SuccessPolicy(rules=(SuccessPolicyRule(succeededIndexes="1"),))
    world = World(indexed(parallelism=3, completions=3, successPolicy=success))
    world.sync()
    world.end(next(pod for pod in world.active if index_of(pod) == 1), 0)
    world.sync()
    message = "Matched rules at index 0"
    assert world.conditions() == [
        ("SuccessCriteriaMet", "SuccessPolicy", message),
        ("Complete", "SuccessPolicy", message),
    ]
    assert (world.status.completedIndexes, world.status.failed, world.active) == ("1", None, [])


# --- pods that come and go


def test_an_orphan_is_adopted_with_a_finalizer() -> None:
    world = World(job())
    orphan = new_pod(world.job)
    meta = structs.replace(orphan.metadata, ownerReferences=(), finalizers=(), name="mine")
    world.store.add(structs.replace(orphan, metadata=meta))
    world.sync()
    (pod,) = world.pods
    assert (pod.metadata.name, pod.metadata.finalizers) == ("mine", (FINALIZER,))
    assert pod.metadata.ownerReferences[0].uid == "job"


@pytest.mark.parametrize("case", ["running", "finished", "gone", "other", "none"])
def test_pods_without_a_job_lose_the_finalizer(case: str) -> None:
    world = World(job())
    world.sync()
    pod = world.pods[0]
    if case == "gone":
        world.cache.remove(world.job)
    elif case == "finished":
        world.end_all()
        pod = world.pods[0]
        pod = world.store.change(
            pod, metadata=structs.replace(pod.metadata, finalizers=(FINALIZER,))
        )
    elif case in ("other", "none"):
        owner = OwnerReference(
            apiVersion="apps/v1", kind="ReplicaSet", name="j", uid="r", controller=True
        )
        owners = (owner,) if case == "other" else ()
        meta = structs.replace(pod.metadata, ownerReferences=owners)
        pod = world.store.change(pod, metadata=meta)
    asyncio.run(world.orphans.sync(("ns", pod.metadata.name)))
    current = world.cache.get(Pod, "ns", pod.metadata.name)
    assert current is not None
    assert has_finalizer(current) is (case in ("running", "other"))


def test_a_finished_job_is_deleted_after_its_time() -> None:
    world = World(job(ttlSecondsAfterFinished=100))
    finished = FinishedJobs(world.cache, world.store, world.clock)
    assert asyncio.run(finished.sync(KEY)) is None
    world.end_all()
    assert asyncio.run(finished.sync(KEY)) == 100
    world.clock.advance(100)
    assert asyncio.run(finished.sync(KEY)) is None
    assert world.cache.get(Job, *KEY) is None


# --- the back-off


def test_only_failures_after_the_last_success_count() -> None:
    def pod(code: int, second: int) -> Pod:
        return Pod(
            metadata=ObjectMeta(name="p"),
            spec=PodSpec(containers=()),
            status=ended(code, NOW + timedelta(seconds=second)),
        )

    back_off = BackOff().after([], [pod(1, 1), pod(1, 3)])
    assert back_off == BackOff(2, NOW + timedelta(seconds=3))
    assert back_off.seconds_left(NOW + timedelta(seconds=3)) == 20
    back_off = back_off.after([pod(0, 5)], [pod(1, 4), pod(1, 6)])
    assert back_off == BackOff(1, NOW + timedelta(seconds=6))
    assert BackOff(30, NOW).seconds_left(NOW) == 600


def test_the_end_of_a_pod_without_container_statuses() -> None:
    time = rfc3339(NOW + timedelta(seconds=9))
    meta = ObjectMeta(name="p", creationTimestamp=rfc3339(NOW))
    pod = Pod(metadata=meta, spec=PodSpec(containers=()))
    assert finished_at(pod) == NOW
    deleted = structs.replace(meta, deletionTimestamp=time, deletionGracePeriodSeconds=4)
    assert finished_at(structs.replace(pod, metadata=deleted)) == NOW + timedelta(seconds=5)
    unready = PodCondition(type="Ready", status="False", lastTransitionTime=time)
    status = PodStatus(conditions=(unready,))
    assert finished_at(structs.replace(pod, status=status)) == NOW + timedelta(seconds=9)


# --- random histories


SPECS = st.fixed_dictionaries(
    {
        "parallelism": st.integers(0, 4),
        "completions": st.integers(1, 5),
        "backoffLimit": st.integers(0, 4),
        "podReplacementPolicy": st.sampled_from(["TerminatingOrFailed", "Failed"]),
    }
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["run", "succeed", "fail", "delete", "gone", "suspend", "resume", "scale", "error"]
        ),
        st.integers(0, 9),
    ),
    max_size=25,
)


def act(world: World, step: str, number: int) -> None:
    pods = [
        pod
        for pod in world.pods
        if pod.status.phase not in ("Succeeded", "Failed")
        and (step != "gone" or pod.metadata.deletionTimestamp is not None)
    ]
    match step:
        case "suspend" | "resume":
            world.change(suspend=step == "suspend")
        case "scale":
            world.change(parallelism=number % 5)
        case "error":
            world.store.failures = [ApiError(500, "InternalError", "no")]
        case _ if pods:
            pod = pods[number % len(pods)]
            if step == "run":
                world.run(pod)
            elif step == "delete":
                world.store.failures = []
                asyncio.run(world.store.delete(Pod, pod))
            else:
                world.end(pod, int(step != "succeed"))
        case _:
            pass


@given(SPECS, st.booleans(), STEPS)
@examples(150)
def test_no_history_runs_too_many_pods_or_counts_them_wrong(
    fields: dict[str, Any], has_indexes: bool, steps: list[tuple[str, int]]
) -> None:
    world = World(indexed(**fields) if has_indexes else job(**fields))
    succeeded: set[str] = set()
    for step, number in steps:
        act(world, step, number)
        succeeded |= {pod.metadata.uid for pod in world.pods if pod.status.phase == "Succeeded"}
        try:
            world.sync(1)
        except ApiError:
            continue
        status, spec = world.status, world.job.spec
        assert len(world.active) <= (spec.parallelism or 0)
        assert (status.succeeded or 0) <= min(len(succeeded), spec.completions or 0)
        assert is_finished(world.job) or (status.active or 0) == len(world.active)
        indexes = [index_of(pod) for pod in world.active]
        assert not has_indexes or len(set(indexes)) == len(indexes)
        if is_finished(world.job):
            assert world.active == []
            assert not any(has_finalizer(pod) for pod in world.pods)
            break
    # Whatever happened, the Job ends if its pods succeed from now on.
    world.store.failures = []
    world.change(suspend=False, parallelism=3)
    for _ in range(15):
        for pod in world.pods:
            if pod.status.phase not in ("Succeeded", "Failed"):
                world.end(pod, 0)
        world.clock.advance(1000)
        if not is_finished(world.job):
            world.sync(1)
    assert is_finished(world.job)
