from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.cells import cell_len
from why_objects import crashing_pod, make, template

from podtui.api.local import Manifest, ManifestSpec, ManifestState, ManifestStatus
from podtui.api.v1 import ObjectMeta
from podtui.cli import main
from podtui.cli import status as status_module
from podtui.cli.status import render
from podtui.cli.why import unwell_objects

TABLE = {
    "columnDefinitions": [
        {"name": "Name", "priority": 0},
        {"name": "Ready", "priority": 0},
        {"name": "IP", "priority": 1},
        {"name": "Age"},
    ],
    "rows": [
        {"cells": ["web-n1", "2/2", "10.0.0.1", "5s"]},
        {"cells": ["a-longer-name-n1", "0/1", "<none>", "3m"]},
    ],
}


def test_wide_columns_are_omitted_and_the_others_aligned() -> None:
    assert render(TABLE).splitlines() == [
        "NAME               READY   AGE",
        "web-n1             2/2     5s",
        "a-longer-name-n1   0/1     3m",
    ]


def test_an_empty_table_has_only_a_header() -> None:
    assert render({**TABLE, "rows": None}) == "NAME   READY   AGE"


def test_control_characters_never_reach_the_terminal() -> None:
    evil = "a\x1b[31mb\u202ec\n\x9b2J"
    table = {"columnDefinitions": [{"name": f"n{evil}"}], "rows": [{"cells": [f"x{evil}"]}]}
    assert render(table) == "NABC\nxabc"


def test_wide_characters_and_marks_are_aligned() -> None:
    names = ("web", "界面", "e\u0301te\u0301", "🚀🚀", "ﾊﾝｶｸ", "x\u200d\u0301", "각", "ก็")
    rows = [{"cells": [name, "1/1", "", "3m"]} for name in names]
    drawn = render({**TABLE, "rows": rows}).splitlines()
    assert {cell_len(line[: line.index("1/1")]) for line in drawn[1:]} == {7}
    assert drawn[0].index("READY") == 7


def file_record(name: str, state: ManifestState, message: str = "") -> Manifest:
    return Manifest(
        metadata=ObjectMeta(name=name),
        spec=ManifestSpec(path=f"/m/{name}"),
        status=ManifestStatus(state=state, message=message),
    )


@pytest.mark.parametrize(
    ("state", "exit_status"),
    [
        (ManifestState.ACCEPTED, 0),
        (ManifestState.IGNORED, 0),
        (ManifestState.INVALID, 1),
        (ManifestState.LAST_GOOD, 1),
        (ManifestState.DUPLICATE, 1),
    ],
)
@pytest.mark.parametrize("output", ["table", "json"])
def test_files_that_are_not_used_are_shown_and_make_it_fail(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    state: ManifestState,
    exit_status: int,
    output: str,
) -> None:
    record = file_record("web.yaml", state, "line 3: bad\x1b[31m")

    def answer(socket: Path, path: str, **options: object) -> dict[str, Any]:
        if path.endswith("/manifests"):
            return {"kind": "ManifestList", "items": [msgspec.to_builtins(record)]}
        return {**TABLE, "rows": None} if "accept" in options else {"items": []}

    monkeypatch.setattr(status_module, "get_json", answer)
    monkeypatch.setattr(status_module, "get_bytes", lambda socket, path, timeout: b"ok")
    monkeypatch.setattr(status_module, "socket_of", lambda namespace: tmp_path)
    assert main(["status", "-o", output]) == exit_status
    out = capsys.readouterr().out
    if output == "json":
        kinds = [item["kind"] for item in msgspec.json.decode(out)["items"]]
        assert kinds == ["Manifest"] * exit_status
    else:
        rows = [line.split() for line in out.splitlines() if line.startswith("web.yaml")]
        assert rows == [["web.yaml", str(state), "line", "3:", "bad"]] * exit_status


def test_workloads_that_are_not_as_desired_have_a_table() -> None:
    item = make("ReplicaSet", "web", spec={"replicas": 1, "template": template()},
                status={"replicas": 1})  # fmt: skip
    pods = {"/api/v1/pods": [crashing_pod("web-a", item)], "/apis/apps/v1/replicasets": [item]}

    def get(path: str) -> Any:
        return {"items": [msgspec.to_builtins(one) for one in pods.get(path, ())]}

    table = status_module.workloads_table(unwell_objects(get))
    assert status_module.render(table).splitlines() == [
        "NOT AS DESIRED   STATE     CAUSE",
        "rs/web           failing   exit code 3",
    ]
