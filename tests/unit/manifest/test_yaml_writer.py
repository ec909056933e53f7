"""Any document that is written as YAML is parsed as the same document."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import yaml
from examples import examples
from hypothesis import given

from podtui.manifest.yaml_reader import read_yaml
from podtui.manifest.yaml_writer import write_yaml

# The texts of a ConfigMap as Kubernetes v1.36.2 writes them.
TEXTS = {
    "a": "x: y",
    "b": "multi\nline\n",
    "c": "true",
    "d": " lead",
    "e": "01",
    "f": "1e3",
    "false": "trail ",
    "g": "",
    "h": "null",
    "i": "~",
    "k": "tab\tx",
    "l": "a#b",
    "m": "- x",
    "p": "0x1f",
    "q": "2020-01-01",
    "r": "a: b\nc: d",
    "s": "1_000",
    "true": "n",
    "u": "\abell",
    "v": "@x",
}
WRITTEN = """\
a: 'x: y'
b: |
  multi
  line
c: "true"
d: ' lead'
e: "01"
f: "1e3"
"false": 'trail '
g: ""
h: "null"
i: "~"
k: "tab\\tx"
l: a#b
m: '- x'
p: "0x1f"
q: "2020-01-01"
r: |-
  a: b
  c: d
s: "1_000"
"true": "n"
u: "\\abell"
v: '@x'
"""


def test_texts_are_written_as_by_a_real_api_server() -> None:
    assert write_yaml(TEXTS) == WRITTEN


def test_an_object_is_written_in_blocks_with_sorted_keys() -> None:
    document = {"kind": "Pod", "items": [{"b": [], "a": {}}, ["x"]], "apiVersion": "v1", "x": None}
    assert write_yaml(document) == (
        "apiVersion: v1\nitems:\n- a: {}\n  b: []\n- - x\nkind: Pod\nx: null\n"
    )


SCALARS = st.none() | st.booleans() | st.integers() | st.text()
DOCUMENTS = st.dictionaries(
    st.text(),
    st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=10,
    ),
    max_size=5,
)


@given(DOCUMENTS)
@examples(200)
def test_a_document_reads_back(document: dict[str, Any]) -> None:
    assert yaml.safe_load(write_yaml(document)) == document


def test_the_manifest_reader_reads_the_same_texts() -> None:
    assert read_yaml(write_yaml(TEXTS)).value == TEXTS
