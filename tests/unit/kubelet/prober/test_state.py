"""Thresholds, initial results and final results, without a clock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtui.api.v1 import ExecAction, Probe
from podtui.kubelet.prober.state import INITIAL, ProbeKind, ProbeState, Rules, rules_of
from podtui.kubelet.types import ProbeResult

S, F, U = ProbeResult.SUCCESS, ProbeResult.FAILURE, ProbeResult.UNKNOWN
STARTUP, LIVENESS, READINESS = ProbeKind.STARTUP, ProbeKind.LIVENESS, ProbeKind.READINESS
KINDS = st.sampled_from(list(ProbeKind))
RESULTS = st.lists(st.sampled_from([S, F]), max_size=40)
RULES = st.builds(Rules, successes=st.integers(1, 4), failures=st.integers(1, 4))


def met(kind: ProbeKind) -> ProbeState:
    return ProbeState(kind=kind).state_of("one")


@pytest.mark.parametrize(("kind", "result"), [(STARTUP, U), (LIVENESS, S), (READINESS, F)])
def test_initial_results_of_a_new_instance(kind: ProbeKind, result: ProbeResult) -> None:
    assert met(kind).result is result


def test_before_any_instance_there_is_no_result() -> None:
    state = ProbeState(kind=READINESS)
    assert state.result is None
    assert not state.is_due(Rules(), age=99.0, started=True)


def test_defaults_are_the_apis() -> None:
    assert rules_of(Probe(exec=ExecAction())) == Rules(
        initial_delay=0.0, period=10.0, timeout=1.0, successes=1, failures=3
    )


def test_liveness_fails_at_its_threshold_and_stays_failed() -> None:
    state = met(LIVENESS)
    for expected in (S, S, F):
        state = state.observe(F, Rules())
        assert state.result is expected
    assert state.held
    assert not state.is_due(Rules(), age=99.0, started=True)
    again = state.state_of("two")
    assert (again.result, again.held) == (S, False)
    assert again.observe(F, Rules()).result is S


def test_one_success_resets_failures() -> None:
    state = met(LIVENESS)
    for result in (F, F, S, F, F):
        state = state.observe(result, Rules())
    assert (state.result, state.held) == (S, False)


@pytest.mark.parametrize("result", [S, F])
def test_startup_is_decided_once(result: ProbeResult) -> None:
    state = met(STARTUP).observe(result, Rules(failures=1))
    assert (state.result, state.held) == (result, True)


def test_readiness_alternates() -> None:
    rules = Rules(successes=2, failures=2)
    state, seen = met(READINESS), []
    for result in (S, S, F, S, F, F, S, S):
        state = state.observe(result, rules)
        seen.append(state.result)
    assert seen == [F, S, S, S, S, F, F, S]
    assert not state.held


def test_a_restart_resets_the_counts() -> None:
    rules = Rules(successes=2)
    state = met(READINESS).observe(S, rules).observe(S, rules)
    assert state.result is S
    state = state.down("one")
    assert state.result is F
    state = state.state_of("two")
    assert state.result is F
    assert state.observe(S, rules).result is F
    assert state.observe(S, rules).observe(S, rules).result is S


def test_results_of_an_earlier_kubelet_are_kept() -> None:
    ready = ProbeState(kind=READINESS).state_of("one", known_good=True)
    assert (ready.result, ready.held) == (S, False)
    started = ProbeState(kind=STARTUP).state_of("one", known_good=True)
    assert (started.result, started.held) == (S, True)


def test_the_end_of_another_instance_is_ignored() -> None:
    state = met(LIVENESS)
    assert state.down("other") is state


@pytest.mark.parametrize(
    ("kind", "started", "due"),
    [
        (STARTUP, False, True),
        (STARTUP, True, False),
        (LIVENESS, False, False),
        (LIVENESS, True, True),
        (READINESS, False, False),
        (READINESS, True, True),
    ],
)
def test_startup_precedes_the_other_probes(kind: ProbeKind, started: bool, due: bool) -> None:
    assert met(kind).is_due(Rules(), age=0.0, started=started) is due


def test_the_delay_counts_from_the_start() -> None:
    rules = Rules(initial_delay=5.0)
    assert not met(LIVENESS).is_due(rules, age=4.9, started=True)
    assert met(LIVENESS).is_due(rules, age=5.0, started=True)


@given(kind=KINDS, rules=RULES, results=RESULTS)
def test_the_result_is_that_of_the_last_sufficient_streak(
    kind: ProbeKind, rules: Rules, results: list[ProbeResult]
) -> None:
    """Compared with a backward count over the whole history, which ends at a final result."""
    state, history = met(kind), list[ProbeResult]()
    for result in results:
        if state.held:
            break
        state = state.observe(result, rules)
        history.append(result)
    expected = INITIAL[kind]
    for end in range(len(history), 0, -1):
        last = history[end - 1]
        need = rules.successes if last is S else rules.failures
        if end >= need and all(one is last for one in history[end - need : end]):
            expected = last
            break
    assert state.result is expected
    final = kind is STARTUP or (kind is LIVENESS and expected is F)
    assert state.held == (final and expected is not INITIAL[kind])


@given(kind=KINDS, rules=RULES, results=RESULTS)
def test_a_new_instance_resets_everything(
    kind: ProbeKind, rules: Rules, results: list[ProbeResult]
) -> None:
    state = met(kind)
    for result in results:
        state = state.observe(result, rules)
    assert state.state_of("two") == ProbeState(kind=kind).state_of("two")
    assert state.state_of("one") is state
