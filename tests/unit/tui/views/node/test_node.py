from __future__ import annotations

from itertools import accumulate

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tui_records import line_text
from tui_scene import gallery, node, pod, status

from podtui.api.v1 import Container, ResourceRequirements
from podtui.tui.model.usage import Usage, requested
from podtui.tui.views.node.allocation import Gauge, Share, gauges, rejections, requests_of
from podtui.tui.views.node.overview import bar, node_lines
from podtui.tui.widgets.cells import line_width

ASKS = [requests_of(p) for p in gallery()]
USE = {("default", "web-n1"): Usage(85, 96 << 20)}
FOUND = gauges(node(), ASKS, USE, Usage(410, 2300 << 20))


def test_gauges_sum_the_requests_of_active_pods() -> None:
    cpu, memory, pods, storage = FOUND
    assert (cpu.capacity, cpu.allocatable, cpu.reserved) == (4000, 3800, 200)
    assert cpu.requested == 2 * 250 + 100 + 50
    assert memory.requested == (2 * 128 + 32 + 512) << 20
    assert memory.limits == 2 * 256 << 20
    assert pods.requested == sum(ask.active for ask in ASKS) == 7
    assert (cpu.used, pods.used, storage.requested) == (410, None, 0)
    assert cpu.shares[0].name == "web-n1"
    assert cpu.used_by(cpu.shares[0]) == 85


def test_init_containers_count_by_their_largest() -> None:
    def container(name: str, cpu: str, policy: str = "") -> Container:
        return Container(
            name=name, restartPolicy=policy, resources=ResourceRequirements(requests={"cpu": cpu})
        )

    base = pod("a", status())
    spec = msgspec.structs.replace(
        base.spec,
        initContainers=(container("i", "300m"), container("s", "50m", "Always"),
                        container("j", "400m")),
        containers=(container("c", "100m"), container("d", "100m")),
        overhead={"cpu": "10m"},
    )  # fmt: skip
    assert requested(msgspec.structs.replace(base, spec=spec), "cpu") == 450 + 10


def test_a_bar_is_as_long_as_its_shares_and_marks_use() -> None:
    cpu = FOUND[0]
    spans = bar(cpu, 38, selected="uid-counter")
    assert sum(len(span.text) for span in spans) == 38
    assert spans[0].tone == "bar-chosen"
    drawn = "".join(span.text for span in spans)
    assert drawn.index("┃") == int(410 * 38 / 3800)
    assert drawn.count("░") == 38 - round(650 * 38 / 3800)


@given(
    st.lists(st.integers(0, 900), max_size=40),
    st.integers(1, 60),
    st.integers(0, 6000),
    st.integers(0, 45),
)
def test_a_bar_is_filled_by_shares(
    requests: list[int], cells: int, allocatable: int, place: int
) -> None:
    requests.sort(reverse=True)
    shares = tuple(Share(f"{n}", f"{n:03}", ("", ""), r) for n, r in enumerate(requests))
    totals = tuple(accumulate(requests))
    gauge = Gauge("cpu", allocatable, allocatable, sum(requests), 0, None, shares, totals, {})
    expected: list[str] = []
    total = 0
    for number, share in enumerate(sorted(shares, key=lambda s: s.key != str(place))):
        total += share.requested
        end = min(cells, round(total * cells / max(1, allocatable)))
        chosen = share.key == str(place)
        tone = "bar-chosen" if chosen else "bar-one" if number % 2 else "bar-two"
        expected += [tone] * (end - len(expected))
    expected += ["bar-free"] * (cells - len(expected))
    drawn = [span.tone for span in bar(gauge, cells, str(place)) for _ in span.text]
    assert drawn == expected


def test_a_rejected_pod_shows_the_missing_resources() -> None:
    (refused,) = rejections(ASKS, FOUND)
    assert refused.reason == "UnexpectedAdmissionError"
    assert refused.missing == "cpu: requests 64, 3.15 free"
    assert not refused.fits
    roomier = msgspec.structs.replace(
        node(), status=msgspec.structs.replace(node().status, allocatable={"cpu": "80"})
    )
    assert rejections(ASKS, gauges(roomier, ASKS, {}, None))[0].fits


def test_extended_resources_are_counted_beside_the_others() -> None:
    names = ("example.com/gpu", "hugepages-2Mi", "hugepages-1Gi")
    amounts = dict(zip(names, ("4", "64Mi", "0"), strict=True))
    base = node()
    shown = msgspec.structs.replace(
        base,
        status=msgspec.structs.replace(
            base.status,
            capacity={**base.status.capacity, **amounts},
            allocatable={**base.status.allocatable, **amounts, "example.com/gpu": "3"},
        ),
    )
    user = pod("a", status())
    limits = {"example.com/gpu": "2"}
    resources = ResourceRequirements(requests=limits, limits=limits)
    container = msgspec.structs.replace(user.spec.containers[0], resources=resources)
    user = msgspec.structs.replace(
        user, spec=msgspec.structs.replace(user.spec, containers=(container,))
    )
    shares = gauges(shown, [requests_of(user), *ASKS], USE, None)
    assert [gauge.resource for gauge in shares[4:]] == ["example.com/gpu", "hugepages-2Mi"]
    gpu, pages = shares[4:]
    assert (gpu.capacity, gpu.allocatable, gpu.requested, gpu.limits) == (4, 3, 2, 2)
    lines = [line_text(line) for line in node_lines(shares, (), width=78, height=8)]
    assert any(line.startswith("gpu ") and "2 of 3" in line for line in lines)
    assert any(line.startswith("hugepa… ") and "0 of 64Mi" in line for line in lines)
    assert pages.requested == 0


def test_lines_fit_and_name_each_resource() -> None:
    refused = rejections(ASKS, FOUND)
    for width, height in ((58, 7), (78, 8), (84, 24), (30, 10)):
        lines = node_lines(FOUND, refused, width=width, height=height)
        assert max(map(line_width, lines)) <= max(width, 60)
        shown = [line_text(line) for line in lines]
        for title in ("cpu", "memory", "pods", "storage"):
            assert any(line.startswith(title) for line in shown)
        assert any("too-big-n1" in line for line in shown)
    roomy = "\n".join(line_text(line) for line in node_lines(FOUND, refused, width=84, height=30))
    assert "capacity 4 · reserved 0.2 · free 3.15" in roomy
    assert "0.65 of 3.8" in roomy
