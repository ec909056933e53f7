"""YAML and JSON parsed as in Kubernetes, with positions and limits."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from raised_errors import raises_only

from podtui.api.local import Severity
from podtui.api.places import field_path
from podtui.manifest.document import (
    MAX_BYTES,
    UnreadableText,
    path_text,
    position_at,
    printable,
)
from podtui.manifest.reader import read_document, read_documents
from podtui.manifest.scalars import number_text, resolve

# Left is the input, right the output of kubectl 1.32.
SCALARS = {
    "no": False,
    "on": True,
    "y": True,
    "Off": False,
    "tRue": "tRue",
    '"yes"': "yes",
    "~": None,
    "Null": None,
    "0o777": 511,
    "0777": 511,
    "09": 9,
    "0_7": 7,
    "-0777": -511,
    "-0o17": -15,
    "0o8": "0o8",
    "0b11": 3,
    "-0b11": -3,
    "0x1F": 31,
    "0x": "0x",
    "1e3": 1000,
    "12e03": 12000,
    "1.0": 1,
    "1.": 1,
    ".5": 0.5,
    "+.5": 0.5,
    "+12": 12,
    "-0": 0,
    "1_000": 1000,
    "1__0": 10,
    "1e400": "1e400",
    "1e21": 1e21,
    "0.0000001": 1e-7,
    "123456789.25": 123456789.25,
    "18446744073709551615": 18446744073709551615,
    "2001-12-14": "2001-12-14",
    "2001-12-14t21:59:43.10-05:00": "2001-12-14t21:59:43.10-05:00",
    "1:30": "1:30",
    "=": "=",
    "'<<'": "<<",
    "!!str 5": "5",
    "!!binary aGVsbG8=": "hello",
    "!foo 5": "5",
    "!!float 3": 3,
    '!!int "7"': 7,
}


@pytest.mark.parametrize(("text", "value"), SCALARS.items())
def test_scalars_are_parsed_like_kubernetes(text: str, value: object) -> None:
    found = read_document(f"a: {text}\n".encode()).value["a"]
    assert found == value
    assert type(found) is type(value)


def test_keys_become_strings() -> None:
    (document,) = read_documents(b"{1: a, true: b, 1.5: c, on: d, 1e3: e, 0x10: f}")
    assert list(document.value) == ["1", "true", "1.5", "1000", "16"]
    assert [p.code for p in document.problems] == ["DuplicateKey"]


def test_positions_start_at_one_and_distinguish_keys_from_values() -> None:
    document = read_document(b"a:\n  b: [x, {c: d}]\n")
    assert document.keys[("a",)] == (1, 1)
    assert document.values[("a",)] == (2, 3)
    assert document.position(("a", "b", 1, "c")) == (2, 14)
    assert document.position(("a", "b", 1, "c"), at_key=True) == (2, 11)
    assert document.position(("a", "b", 1, "absent", 3)) == (2, 10)
    assert document.position(()) == (1, 1)


def test_json_and_yaml_agree_on_values_and_positions() -> None:
    text = b'{"a": {"b": [1, "x", null, true, 1.5, 1e3]},\n "c": "\\u00e9\\n"}'
    as_json = read_document(text)
    as_yaml = read_document(b"---\n" + text)
    assert as_json.value == as_yaml.value
    assert {path: (line + 1, column) for path, (line, column) in as_json.values.items()} == dict(
        as_yaml.values
    )
    assert as_json.keys[("c",)] == (2, 2)


@pytest.mark.parametrize("text", [b"a: 1\nb: 2\na: 3\n", b'{"a": 1,\n"b": 2,\n"a": [3, {"x": 1}]}'])
def test_duplicate_keys_are_errors_at_the_second(text: bytes) -> None:
    (document,) = read_documents(text)
    (problem,) = document.problems
    assert (problem.code, problem.position) == ("DuplicateKey", (3, 1))
    assert (problem.severity, "line 1" in problem.message) == (Severity.ERROR, True)
    assert document.value == {"a": 1, "b": 2}


@pytest.mark.parametrize("text", [b"a: 1\nb: 2\na: 3\n", b'{"a": 1,\n"b": 2,\n"a": 3}'])
def test_the_later_of_two_equal_keys_wins_as_in_a_kubelet(text: bytes) -> None:
    document = read_document(text)
    (problem,) = document.problems
    assert (problem.code, problem.severity) == ("DuplicateKey", Severity.WARNING)
    assert document.value == {"a": 3, "b": 2}
    assert (document.position(("a",)) or ())[:1] == (3,)


_EQUAL_KEYS: dict[str, dict[str, object]] = {
    # A null removes a list, a map, and a value that Go holds by pointer.
    '"volumes": [{}], "volumes": null': {"volumes": None},
    '"nodeSelector": {"a": "b"}, "nodeSelector": null': {"nodeSelector": None},
    '"securityContext": {"fsGroup": 1}, "securityContext": null': {"securityContext": None},
    '"resources": {}, "resources": null': {"resources": None},
    # It keeps any other value.
    '"hostname": "a", "hostname": null': {"hostname": "a"},
    '"containers": [{"resources": {"claims": []}, "resources": null}]': {
        "containers": [{"resources": {"claims": []}}]
    },
    # A later value is decoded into the earlier one; the entries of a map are replaced.
    '"dnsConfig": {"searches": ["a"]}, "dnsConfig": {"options": []}': {
        "dnsConfig": {"searches": ["a"], "options": []}
    },
    '"nodeSelector": {"a": "b", "c": "d"}, "nodeSelector": {"a": null}': {
        "nodeSelector": {"a": None, "c": "d"}
    },
    '"volumes": [{"name": "a"}, {"name": "b"}, {}], "volumes": [{"nfs": {}}, null]': {
        "volumes": [{"name": "a", "nfs": {}}, {"name": "b"}]
    },
    '"volumes": [{"name": "a"}], "volumes": [], "volumes": [{}, {}]': {"volumes": [{}, {}]},
    '"volumes": 1, "volumes": [{}], "odd": {"a": 1}, "odd": null': {"volumes": [{}], "odd": None},
}


@pytest.mark.parametrize("spec", _EQUAL_KEYS)
def test_a_kubelet_merges_equal_keys_of_json(spec: str) -> None:
    document = read_document(f'{{"spec": {{{spec}}}}}'.encode())
    assert document.value == {"spec": _EQUAL_KEYS[spec]}


def test_a_kubelet_merges_nested_equal_keys_of_json() -> None:
    text = b"""{"metadata": {"name": "a", "labels": {"a": "b"}},
      "metadata": {"labels": {"c": "d"}, "labels": {"e": "f"}}, "metadata": null}"""
    expected = {"name": "a", "labels": {"a": "b", "c": "d", "e": "f"}}
    document = read_document(text)
    assert document.value == {"metadata": expected}
    assert [path for path, _ in document.overwritten] == [
        ("metadata", "labels"),
        ("metadata",),
        ("metadata",),
    ]
    assert document.overwritten[1][1] == {"name": "a", "labels": {"a": "b"}}


@pytest.mark.parametrize(
    "text",
    [
        b"%YAML 1.2\n---\na: x/y",
        b'a: "x\\/y"',
        "a: x/y".encode("utf-16"),
        b"\xfe\xff" + "a: x/y".encode("utf-16-be"),
        "a: x/y # \ufeff".encode(),
    ],
)
def test_what_podtui_reads_as_yaml(text: bytes) -> None:
    (document,) = read_documents(text)
    assert document.value == {"a": "x/y"}


@pytest.mark.parametrize(
    "text", [b"a: !!binary aGk", b"a: !!binary a Gk=", b"a: !!binary \xc3\xa9"]
)
def test_invalid_base64_is_refused(text: bytes) -> None:
    (problem,) = read_document(text).problems
    assert (problem.code, problem.severity) == ("InvalidYAML", Severity.ERROR)


def test_base64_may_contain_line_breaks() -> None:
    assert read_document(b"a: !!binary |\n  aG\n  k=\n").value == {"a": "hi"}


def test_a_byte_order_mark_and_delete_inside_a_value() -> None:
    assert read_document("a: x\ufeffy".encode()).value == {"a": "x\ufeffy"}
    assert read_document(b'{"a": "\x7f\xc2\x80"}').value == {"a": "\x7f\x80"}


@pytest.mark.parametrize(
    ("text", "header"),
    [
        (b"ApiVersion: v1\nKIND: Pod", ("v1", "Pod")),
        # YAML goes through JSON with sorted keys.
        (b"kind: Pod\nKind: Job", (None, "Pod")),
        (b'{"kind": "Pod", "Kind": "Job"}', (None, "Job")),
        (b'{"kind": "Pod", "KIND": null}', (None, "Pod")),
        (b'{"Kind": 1, "kind": "Pod"}', (None, 1)),
    ],
)
def test_the_json_header_is_found_in_any_case(
    text: bytes, header: tuple[str | None, object]
) -> None:
    value = read_document(text).value
    assert (value.get("apiVersion"), value.get("kind")) == header
    assert "Kind" not in value


def test_all_non_empty_documents() -> None:
    first, second = read_documents(b"---\n# nothing\n---\na: 1\n---\n---\n- b\n...\n")
    assert (first.value, first.position(("a",))) == ({"a": 1}, (4, 4))
    assert (second.value, second.position((0,))) == (["b"], (7, 3))
    assert [document.value for document in read_documents(b"---\n---\n")] == [None]


def test_documents_before_a_syntax_error_are_parsed() -> None:
    (document,) = read_documents(b"a: 1\n---\nb: [\n")
    (problem,) = document.problems
    assert (problem.code, problem.severity) == ("FurtherDocument", Severity.WARNING)
    assert problem.position is not None
    assert document.cut_off


@pytest.mark.parametrize("text", [b"{a: 1}", b'{"a": 1}\n{"b": 2}', b'{"a": 1}\n---\n{"b": 2}'])
def test_text_that_starts_like_json_is_parsed_as_json(text: bytes) -> None:
    with pytest.raises(UnreadableText):
        read_document(text)


def test_anchors_and_merges() -> None:
    document = read_document(b"x: &x {a: 1, b: 2}\nz: {b: 3, <<: *x}\nl: [*x, *x]\nm: {<<: [*x]}\n")
    assert document.value["z"] == {"b": 3, "a": 1}
    assert document.value["l"] == [{"a": 1, "b": 2}] * 2
    assert document.value["m"] == {"a": 1, "b": 2}
    assert document.problems == ()
    assert document.position(("l", 1, "a")) == (3, 9)


REFUSED = {
    b"a: &a [*a]": ("InvalidAlias", (1, 8)),
    b"a: *b": ("InvalidAlias", (1, 4)),
    b"[" * 100_000: ("TooDeep", (1, 102)),
    b'{"a":' * 5_000: ("TooDeep", (1, 506)),
    b"- " * 100_000: ("TooDeep", (1, 203)),
    b"- a\n" * 150_000: ("TooLarge", (100_000, 3)),
    b"[" + b"1," * 150_000 + b"1]": ("TooLarge", (1, 200_000)),
    b"a:\n\tb: c": ("InvalidYAML", (2, 1)),
    b"a: b: c": ("InvalidYAML", (1, 5)),
    b"a: [b\n\n": ("InvalidYAML", (1, 6)),
    b'a: "b': ("InvalidYAML", (1, 6)),
    b'{"a": 1': ("InvalidJSON", (1, 8)),
    b'{"a": "x\n"}{': ("InvalidJSON", (1, 9)),
    b'{"a" 1}': ("InvalidJSON", (1, 6)),
    b'{"a": 1} x': ("InvalidJSON", (1, 10)),
    b"? [a]\n: b": ("InvalidYAML", (1, 3)),
    b"~: 1": ("InvalidYAML", (1, 1)),
    b"a: {<<: 3}": ("InvalidYAML", (1, 5)),
    b"a: \x01": ("ControlCharacter", (1, 4)),
    b"ok\nab\xe9": ("NotText", (2, 3)),
    b"\xff\xfea\x00b": ("NotText", None),
    b"\xfe\xff\xd8\x00\x00a": ("NotText", None),
    b"a: \x7f": ("ControlCharacter", (1, 4)),
    b"%YAML 1.2\n---\na: 1": ("InvalidYAML", (1, 1)),
    b'a: b\nc: ["x\\/y"]': ("InvalidYAML", (2, 7)),
    b'a: "b\n  c\\\\d\\/"': ("InvalidYAML", (2, 7)),
    b'a: ["\\\'", "\\q"]': ("InvalidYAML", (1, 12)),
    b'a: ["\\\'", "\\/"]': ("InvalidYAML", (1, 12)),
    "a: b\n\ufeff\nc: d".encode(): ("InvalidYAML", (3, 1)),
    b"%YAML 9.9\n---\na: 1": ("InvalidYAML", (1, 1)),
}


@pytest.mark.parametrize("text", REFUSED, ids=lambda t: repr(t[:12]))
def test_errors_have_a_position(text: bytes) -> None:
    with pytest.raises(UnreadableText) as refused:
        read_document(text)
    problem = refused.value.problem
    assert (problem.code, problem.position) == REFUSED[text]
    assert problem.message.isprintable()


_APOSTROPHES = {
    r"""a: "don\'t" """: "don't",
    r"""a: "\'\\'\\\'\"" """: "'\\'\\'\"",
    'a: "x\\\n  \\\'y"': "x'y",
    r"""a: 'x\''y' """: r"x\'y",
    r"""a: x\'y # "\'" """: r"x\'y",
    "a: |-\n  x\\'\n": r"x\'",
    '# \ue000\ue001\na: "\ue000\\\'\\uE002"': "\ue000'\ue002",
}


@pytest.mark.parametrize("text", _APOSTROPHES)
def test_an_escaped_apostrophe_is_read_as_by_a_kubelet(text: str) -> None:
    expected = {"a": _APOSTROPHES[text]}
    (document,) = read_documents(text.encode())
    assert (document.value, read_document(text.encode()).value) == (expected, expected)


def test_an_escaped_apostrophe_keeps_positions() -> None:
    (document,) = read_documents(b'{"a\\\'": "\\\'", b: c}')
    assert document.values[("b",)] == (1, 18)


@given(st.text(st.sampled_from("\\'\"/ \ue000\ue001ab"), max_size=12))
def test_quoted_text_round_trips(text: str) -> None:
    double = text.replace("\\", "\\\\").replace('"', '\\"').replace("'", "\\'")
    single = text.replace("'", "''")
    data = f"a: \"{double}\"\nb: '{single}'\n".encode()
    for document in (read_document(data), *read_documents(data)):
        assert document.value == {"a": text, "b": text}


def test_a_byte_order_mark_at_a_line_start_is_text() -> None:
    text = "a: b\n\ufeffc: 'd\n  \ufeff'\n".encode()
    assert read_document(text).value == {"a": "b", "\ufeffc": "d \ufeff"}
    assert read_documents("a: b\n\ufeff\nc: d\n".encode())[0].value == {"a": "b", "c": "d"}


def test_tabs_are_reported() -> None:
    with pytest.raises(UnreadableText, match="a tab cannot indent YAML") as refused:
        read_document(b"a:\n\t- b")
    assert "spaces" in refused.value.problem.fix


def test_the_size_limit_is_ten_mebibytes() -> None:
    assert read_document(b"a: " + b"x" * (MAX_BYTES - 3)).value["a"][:2] == "xx"
    with pytest.raises(UnreadableText) as refused:
        read_document(b"x" * (MAX_BYTES + 1))
    assert refused.value.problem.code == "FileTooLarge"


def test_alias_bombs_are_refused() -> None:
    lines = [b"l0: &l0 [x, x, x, x, x, x, x, x, x]"]
    lines += [b"l%d: &l%d [%s]" % (i, i, b", ".join([b"*l%d" % (i - 1)] * 9)) for i in range(1, 12)]
    with pytest.raises(UnreadableText, match="100000 values"):
        read_document(b"\n".join(lines))


def test_long_text_cannot_be_multiplied_by_aliases() -> None:
    text = b"a: &a " + b"x" * 1_000_000 + b"\nb: [" + b", ".join([b"*a"] * 100) + b"]"
    with pytest.raises(UnreadableText, match="characters"):
        read_document(text)


def test_numbers_not_supported_by_json() -> None:
    document = read_document(b"a: .nan\nb: -.inf\nc: !!int x\n")
    assert [p.position for p in document.problems] == [(1, 4), (2, 4), (3, 4)]


def test_case_18_only_the_first_document_is_read() -> None:
    document = read_document(b"a: 1\n---\nb: 2\n")
    assert document.value == {"a": 1}
    (note,) = document.problems
    assert (note.code, note.severity.value, note.position) == ("FurtherDocument", "Warning", (2, 1))
    assert read_document(b"---\na: 1\n---\n").problems == ()
    (note,) = read_document(b"a: 1\n--- }{\n").problems
    assert note.severity.value == "Warning"


def test_empty_texts() -> None:
    for text in (b"", b"\n\n", b"# only a comment\n", b"---\n", b"~"):
        assert read_document(text).value is None


def test_a_leading_byte_order_mark_is_ignored() -> None:
    document = read_document(b"\xef\xbb\xbfa: 1\n")
    assert document.value == {"a": 1}
    assert document.keys[("a",)] == (1, 1)


def test_half_a_surrogate_pair_is_replaced() -> None:
    assert read_document(b'{"a": "x\\ud800"}').value == {"a": "x\ufffd"}


def test_paths_round_trip() -> None:
    for path in (("spec", "containers", 0, "env", 12, "name"), ("metadata", "labels", "a.b/c")):
        assert field_path(path_text(path)) == path
    assert path_text(("a", "b.c", 1)) == "a[b.c][1]"
    assert field_path("limits[cpu]") == ("limits", "cpu")


def test_printable_shows_no_control_sequences() -> None:
    assert printable("a\x1b[31m\x9b\n\u202eb") == "a\\x1b[31m\\x9b\\n\\u202eb"
    assert len(printable("x" * 1000, 20)) == 20


def test_positions_count_all_line_breaks() -> None:
    assert position_at("a\r\nb\rc\nd\u2028e", 9) == (5, 1)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20),
    lambda children: (
        st.lists(children, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=10),
            children,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from("abcd"), json_values))
def test_json_is_parsed_like_the_standard_library(value: dict[str, object]) -> None:
    for text in (json.dumps(value), json.dumps(value, indent=1, ensure_ascii=False)):
        if "\ufffe" in text or "\uffff" in text or "\ufeff" in text:
            continue
        assert read_document(text.encode()).value == value


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_number_text_keeps_the_number(number: float) -> None:
    assert float(number_text(number)) == number


@given(st.text(max_size=30))
def test_resolve_takes_any_text(text: str) -> None:
    assert isinstance(resolve(text), str | int | float | bool | None)


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with raises_only(UnreadableText):
        assert json.dumps(read_document(data).value)
