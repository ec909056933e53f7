from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtui.tui.views.pods.rows import POD_COLUMNS
from podtui.tui.widgets.cells import Cell, Row
from podtui.tui.widgets.filters import ALL, FilterError, parse_filter, split_words

NOW = 1_000_000.0
KEYS = [column.key for column in POD_COLUMNS]


def row(name: str, labels: dict[str, str] | None = None, **values: str | float | None) -> Row:
    found = dict.fromkeys(KEYS) | {"name": name} | {k.replace("_", "-"): v
                                                    for k, v in values.items()}  # fmt: skip
    return Row(
        name,
        tuple(Cell() for _ in KEYS),
        tuple(0 for _ in KEYS),
        tuple(found[key] for key in KEYS),
        search=f"{name} {found['status'] or ''} {found['ip'] or ''}",
        labels=labels or {},
    )


ROWS = (
    row("web", {"app": "web", "tier": "front"}, status="Running", ready=1.0, restarts=0.0,
        cpu=500.0, memory=64.0 * 2**20, memory_limits=71.0, ip="10.0.0.1", age=NOW - 60),
    row("Worker", {"app": "jobs"}, status="CrashLoopBackOff", ready=0.5, restarts=7.0, cpu=20.0,
        memory=2.0 * 2**30, ip="10.0.0.2", age=NOW - 7200),
    row("db", status="Pending", ready=0.0, restarts=1.0, age=NOW - 90000),
)  # fmt: skip


def names(text: str) -> list[str]:
    wanted = parse_filter(text, POD_COLUMNS)
    return [r.key for r in ROWS if wanted.matches(r, NOW)]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", ["web", "Worker", "db"]),
        ("w", ["web", "Worker"]),
        ("W", ["Worker"]),
        ("!w", ["db"]),
        ("^d", ["db"]),
        ("web|db", ["web", "db"]),
        ("w !worker", ["web"]),
        ('"web Running"', ["web"]),
        ('!"web Running"', ["Worker", "db"]),
        ("web Running", ["web"]),
        ("-l app", ["web", "Worker"]),
        ("-lapp=web", ["web"]),
        ("-l app=web", ["web"]),
        ("-l app!=web", ["Worker", "db"]),
        ("-l app=web,tier=back", []),
        ("-l app=web, tier=front", ["web"]),
        ("-l app = web", ["web"]),
        ("-l !app", ["db"]),
        ("-l app restarts>3", ["Worker"]),
        ("-l status=Running", []),
        ("-f wkr", ["Worker"]),
        ("-f w k r", ["Worker"]),
        ("app=web", ["web"]),
        ("app!=web", ["Worker", "db"]),
        ("status=Running", ["web"]),
        ("STATUS=running", ["web"]),
        ("status=Run", []),
        ("status=RUNNING", []),
        ("status!=running", ["Worker", "db"]),
        ("status~^crash", ["Worker"]),
        (r"status~^crash\S+$", ["Worker"]),
        (r"^worker\W", ["Worker"]),
        ("status!~^crash", ["web", "db"]),
        ('status="CrashLoopBackOff"', ["Worker"]),
        ("restarts>3", ["Worker"]),
        ("restarts>=1", ["Worker", "db"]),
        ("restarts==0", ["web"]),
        ("restarts!=0", ["Worker", "db"]),
        ("cpu>100m", ["web"]),
        ("cpu<=0.5", ["web", "Worker"]),
        ("cpu!=1", ["web", "Worker", "db"]),
        ("mem>=1Gi", ["Worker"]),
        ("memory<65Mi", ["web"]),
        ("%mem/l>70", ["web"]),
        ("%MEM/L>70%", ["web"]),
        ("memory-limits<=71", ["web"]),
        ("ready<1", ["Worker", "db"]),
        ("ready=1/1", ["web"]),
        ("ready<=50%", ["Worker", "db"]),
        ("age<2h", ["web"]),
        ("age<=2h", ["web", "Worker"]),
        ("age>1d", ["db"]),
        ("age>1h30m age<1d", ["Worker"]),
        ("age<90", ["web"]),
        ("ip~^10", ["web", "Worker"]),
        ("status=CrashLoopBackOff restarts>3 age<1d -l app", ["Worker"]),
    ],
)
def test_filters(text: str, wanted: list[str]) -> None:
    assert names(text) == wanted


@pytest.mark.parametrize("text", ["!", "-l", "-f", "status=", "age<", "  ", "app=", '"', '!"'])
def test_an_incomplete_filter_hides_nothing(text: str) -> None:
    assert parse_filter(text, POD_COLUMNS) is ALL


@pytest.mark.parametrize(
    ("text", "message", "fault"),
    [
        ("(", "not a regular expression", "("),
        ("web (", "not a regular expression", "("),
        ("web[a", "not a regular expression", "[a"),
        ("restarts>many", "'many' is not a number", "many"),
        ("web cpu>fast", "'fast' is not cpu, like 500m or 2", "fast"),
        ("mem>1Zi x", "'1Zi' is not memory, like 64Mi or 1Gi", "1Zi"),
        ("age<2x", "'2x' is not a duration, like 90s, 2h or 1d12h", "2x"),
        ("ready=1/0", "'1/0' is not a share", "1/0"),
        ("restarts>nan", "not a number", "nan"),
        ("status>3", "status is text: = != ~ !~", ">3"),
        ("age~2h", "age is a number: = != < <= > >=", "~2h"),
        ("status~(", "not a regular expression", "("),
        ("restart>3", "no column restart; did you mean restarts?", "restart"),
        ("stauts=x", "no column stauts; did you mean status?", "stauts"),
        ("colour>3", "no column colour", "colour"),
    ],
)
def test_an_error_has_its_position(text: str, message: str, fault: str) -> None:
    with pytest.raises(FilterError) as found:
        parse_filter(text, POD_COLUMNS)
    assert message in str(found.value)
    assert text[found.value.start : found.value.end] == fault


def test_filters_about_ages_change_with_the_time() -> None:
    assert parse_filter("age<2h", POD_COLUMNS).timed
    assert not parse_filter("restarts>2", POD_COLUMNS).timed


@given(st.text(st.sampled_from('ab"! -lf=<>~!status(age*2h'), max_size=30))
def test_any_text_is_a_filter_or_an_error_within_it(text: str) -> None:
    fault: FilterError | None = None
    try:
        wanted = parse_filter(text, POD_COLUMNS)
    except FilterError as error:
        fault = error
    else:
        assert all(isinstance(wanted.matches(r, NOW), bool) for r in ROWS)
    assert fault is None or 0 <= fault.start <= fault.end <= len(text)


@given(st.text('ab "', max_size=20))
def test_words_have_their_positions(text: str) -> None:
    for word in split_words(text):
        assert text[word.start : word.end].replace('"', "") == word.text
