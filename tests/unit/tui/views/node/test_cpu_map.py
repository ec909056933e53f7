"""The map of the node's CPUs."""

from __future__ import annotations

from podtui.api.cpus import CpuMap, CpuUser, decode_cpu_map, encode_cpu_map
from podtui.tui.views.node.overview import cpu_map_lines
from podtui.tui.widgets.cells import line_width

MAP = CpuMap(
    nodes={0: ((0, 1), (2, 3)), 1: ((4, 5), (6, 7))},
    reserved=(0,),
    users=(
        CpuUser(pod="default/web-n1", container="main", cpus=(2, 3)),
        CpuUser(pod="batch/job-n1", container="work", cpus=(4, 5, 6)),
    ),
)


def texts(found: CpuMap, width: int = 80) -> list[str]:
    return ["".join(span.text for span in line).rstrip() for line in cpu_map_lines(found, width)]


def test_each_cpu_has_a_cell_and_each_user_a_letter() -> None:
    assert texts(MAP) == [
        "CPUs",
        "NUMA 0   ▒· AA",
        "NUMA 1   BB B·",
        "· shared 1,7   ▒ reserved, shared 0",
        "A web-n1 main 2-3",
        "B batch/job-n1 work 4-6",
    ]


def test_many_cpus_are_wrapped() -> None:
    wide = CpuMap(nodes={0: tuple((n, n + 64) for n in range(64))})
    assert all(line_width(line) <= 40 for line in cpu_map_lines(wide, 40))
    assert "".join(texts(wide, 40)[1:-1]).count("·") == 128


def test_control_sequences_in_names_are_removed() -> None:
    bad = CpuMap(nodes={0: ((0,),)}, users=(CpuUser(pod="a\x1b[2J", container="c", cpus=(0,)),))
    assert "\x1b" not in "".join(texts(bad))


def test_a_map_round_trips() -> None:
    assert decode_cpu_map(encode_cpu_map(MAP)) == MAP
    assert decode_cpu_map("") is None
    assert decode_cpu_map('{"nodes": 3}') is None
