"""Kubeconfig files: reading, merging several, and messages about broken ones."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from podtui.kubeconfig import KubeconfigError, choose, load
from podtui.kubeconfig.loading import paths

WHOLE = """\
apiVersion: v1
kind: Config
preferences: {}
current-context: a
clusters:
- name: one
  cluster:
    server: https://one:6443
    certificate-authority: ca.crt
    tls-server-name: api
    proxy-url: http://proxy:3128
    unheard-of: {x: 1}
users:
- name: me
  user:
    client-certificate: /abs/me.crt
    client-key: keys/me.key
    as: other
contexts:
- name: a
  context: {cluster: one, user: me, namespace: dev}
- name: b
  context: {cluster: one, user: me}
- name: c
  context: {cluster: one}
"""
PLUGIN = """\
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: bin/plugin
      args: [get, token]
      interactiveMode: IfAvailable
      env: [{name: A, value: "1"}]
"""


def write(folder: Path, text: str, name: str = "config") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def replaced(old: str, new: str) -> str:
    assert old in WHOLE
    return WHOLE.replace(old, new)


def test_all_of_it(tmp_path: Path) -> None:
    target = choose(load(write(tmp_path, WHOLE), {}))
    assert (target.context.name, target.namespace) == ("a", "dev")
    cluster, user = target.cluster, target.user
    assert cluster.server == "https://one:6443"
    assert cluster.ca_file == tmp_path / "ca.crt"
    assert (cluster.tls_server_name, cluster.proxy_url) == ("api", "http://proxy:3128")
    assert user.cert_file == Path("/abs/me.crt")
    assert user.key_file == tmp_path / "keys/me.key"
    assert user.impersonation.user == "other"


def test_a_plugin(tmp_path: Path) -> None:
    target = choose(load(write(tmp_path, replaced("    as: other\n", PLUGIN)), {}))
    plugin = target.user.exec
    assert plugin is not None
    assert plugin.command == str(tmp_path / "bin/plugin")
    assert (plugin.args, plugin.env) == (("get", "token"), (("A", "1"),))
    by_name = replaced("    as: other\n", PLUGIN.replace("bin/plugin", "plugin"))
    plugin = choose(load(write(tmp_path, by_name), {})).user.exec
    assert plugin is not None
    assert plugin.command == "plugin"


def test_json_is_read_as_well(tmp_path: Path) -> None:
    text = '{"clusters": [{"name": "x", "cluster": {"server": "https://x"}}], "users": null}'
    assert load(write(tmp_path, text), {}).clusters["x"].server == "https://x"


def test_a_context_needs_no_user(tmp_path: Path) -> None:
    target = choose(load(write(tmp_path, WHOLE), {}), "c")
    assert (target.user.name, target.user.token, target.namespace) == ("", "", "default")


# --- which files


def test_search_path_of_kubeconfig_files(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    assert paths(None, home) == (tmp_path / ".kube/config",)
    assert paths(None, {**home, "KUBECONFIG": "a::b:a"}) == (Path("a"), Path("b"))
    assert paths(Path("x"), {**home, "KUBECONFIG": "a"}) == (Path("x"),)


def test_the_first_file_wins_entry_by_entry(tmp_path: Path) -> None:
    first = write(
        tmp_path,
        "users:\n- name: me\n  user: {token: first}\n"
        "contexts:\n- name: d\n  context: {cluster: one, user: me}\n",
        "first",
    )
    (tmp_path / "deep").mkdir()
    second = write(tmp_path / "deep", WHOLE)
    config = load(None, {"KUBECONFIG": f"{first}:{tmp_path / 'missing'}:{second}"})
    assert config.files == (first, second)
    assert config.current == "a"
    # Nothing of the second file's user is used, not even fields that the first one omits.
    assert config.users["me"].token == "first"
    assert config.users["me"].cert_file is None
    assert config.clusters["one"].ca_file == tmp_path / "deep/ca.crt"
    assert sorted(config.contexts) == ["a", "b", "c", "d"]
    other = load(None, {"KUBECONFIG": f"{second}:{first}"})
    assert other.users["me"].token == ""


def test_missing_files(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    with pytest.raises(KubeconfigError, match=f"^{gone}: no such file$"):
        load(gone, {"KUBECONFIG": str(write(tmp_path, WHOLE))})
    with pytest.raises(KubeconfigError, match=f"^no kubeconfig found: {gone}$"):
        load(None, {"KUBECONFIG": str(gone)})
    with pytest.raises(KubeconfigError, match="no kubeconfig found"):
        load(None, {"HOME": str(gone)})
    with pytest.raises(KubeconfigError, match="Is a directory"):
        load(tmp_path, {})


# --- messages


def test_an_unknown_context_lists_the_available_ones(tmp_path: Path) -> None:
    path = write(tmp_path, WHOLE)
    with pytest.raises(KubeconfigError) as caught:
        choose(load(path, {}), "z")
    assert str(caught.value) == f"{path}: context 'z' does not exist; available: a, b, c"
    with pytest.raises(
        KubeconfigError, match=r"no current context is set; use --context with one of: a, b, c"
    ):
        choose(load(write(tmp_path, replaced("current-context: a\n", "")), {}))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("clusters:", "clusters: [", "line_of_yaml"),
        (
            "server: https://one:6443",
            "server: 5",
            "8:13: clusters[0].cluster.server: must be a",
        ),
        ("    as: other", "    token: 12345", "18:12: users[0].user.token: must be a string"),
        (
            "    as: other",
            "    client-key-data: hush!",
            "18:22: users[0].user.client-key-data: is not base64",
        ),
        (
            "    as: other",
            "    client-key-data: hüsh",
            "18:22: users[0].user.client-key-data: is not base64",
        ),
        ("- name: b", "- name: a", "22:9: contexts[1].name: 'a' is defined twice"),
        ("kind: Config", "kind: Pod", "2:7: kind: is 'Pod'"),
        ("apiVersion: v1", "apiVersion: v2", "1:13: apiVersion: is 'v2'"),
        ("users:\n- name: me\n  user:", "users:\n  me:", "14:3: users: must be a list"),
        ("    as: other", "    as-groups: x", "18:16: users[0].user.as-groups: must be a list"),
        (
            "    as: other",
            "    exec: {env: [{value: x}]}",
            "18:18: users[0].user.exec.env[0].name: must be the name",
        ),
    ],
)
def test_an_invalid_file_reports_line_and_field(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    path = write(tmp_path, replaced(old, new))
    with pytest.raises(KubeconfigError) as caught:
        load(path, {})
    message = str(caught.value)
    assert message.startswith(f"{path}:")
    if words != "line_of_yaml":
        assert words in message
    assert "hush" not in message
    assert "12345" not in message
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("server: https://one:6443", "x: y", "6:3: cluster 'one' has no server"),
        ("https://one:6443", "one:6443", "its server is not a URL"),
        ("https://one:6443", "https://[one", "its server is not a URL"),
        ("https://one:6443", "https://one:65536", "its server is not a URL"),
        ("http://proxy:3128", "http://proxy:x", "its proxy-url is not a URL"),
        ("http://proxy:3128", "http://[", "its proxy-url is not a URL"),
        ("https://one:6443", "https://a:b@one", "contains more than scheme"),
        ("    tls-server-name: api", "    insecure-skip-tls-verify: true", "has both insecure"),
        ("http://proxy:3128", "socks5://proxy:1", "podtui supports http and https proxies"),
        ("http://proxy:3128", "proxy", "its proxy-url is not a URL"),
        ("    as: other", "    auth-provider: {name: gcp}", "the auth-provider 'gcp'"),
        ("    as: other", "    token: t\n    username: u", "has both a token and a password"),
        ("    client-key: keys/me.key\n", "", "a client certificate without client-key"),
        ("    as: other", "    client-key-data: aGk=", "both client-key and client-key-data"),
        ("    as: other", "    as-uid: '1'", "as-uid, as-groups or as-user-extra without as"),
        ("    as: other", "    exec: {command: x}", "exec plugin of no apiVersion"),
        (
            "    as: other",
            PLUGIN.replace("k8s.io/v1", "k8s.io/v1alpha1"),
            "client.authentication.k8s.io/v1alpha1; podtui supports",
        ),
        ("    as: other", PLUGIN.replace("IfAvailable", "Ask"), "interactiveMode is 'Ask'"),
        (
            "    as: other",
            PLUGIN.replace("      interactiveMode: IfAvailable\n", ""),
            "without interactiveMode",
        ),
        ("{cluster: one, user: me, ", "{cluster: two, user: me, ", "cluster 'two' does not exist"),
        ("{cluster: one, user: me, ", "{cluster: one, user: you, ", "user 'you' does not exist"),
    ],
)
def test_unsupported_settings_are_reported(tmp_path: Path, old: str, new: str, words: str) -> None:
    path = write(tmp_path, replaced(old, new))
    config = load(path, {})
    with pytest.raises(KubeconfigError) as caught:
        choose(config)
    assert words in str(caught.value)
    assert str(caught.value).startswith(f"{path}:")


def test_secrets_are_in_no_repr(tmp_path: Path) -> None:
    text = replaced(
        "    as: other\n",
        "    token: hush-token\n    password: hush-word\n    client-key-data: "
        + base64.b64encode(b"hush-key").decode()
        + "\n"
        + PLUGIN.replace('"1"', "hush-env").replace("token]", "hush-arg]"),
    )
    shown = repr(load(write(tmp_path, text), {}))
    assert "me" in shown
    assert "hush" not in shown


def test_hostile_files_are_refused(tmp_path: Path) -> None:
    deep = "[" * 5000 + "]" * 5000
    with pytest.raises(KubeconfigError):
        load(write(tmp_path, deep), {})
    latin = tmp_path / "latin"
    latin.write_bytes(b"kind: \xe9")
    with pytest.raises(KubeconfigError, match="not UTF-8"):
        load(latin, {})
    loop = "clusters:\n- name: x\n  cluster:\n    extensions:\n    - &a\n"
    loop += "      name: client.authentication.k8s.io/exec\n      extension: *a\n"
    with pytest.raises(KubeconfigError, match="nested too deeply"):
        load(write(tmp_path, loop), {})
