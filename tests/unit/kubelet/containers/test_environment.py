"""Variables, fields and resources that values refer to."""

from __future__ import annotations

import base64

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pod_builders import GI, ctr, make_pod, node

from podtui.api.v1 import ConfigMap, ResourceFieldSelector, Secret, Service
from podtui.kubelet.containers.environment import (
    ENV_FILE_LIMIT,
    EnvFileError,
    env_file_value,
    env_files,
    environment,
)
from podtui.kubelet.types import ConfigError
from podtui.kubelet.value_sources import ValueSources, metadata_field, resource_field
from podtui.text.expansion import expand
from podtui.text.go_format import quoted

META = {"name": "settings", "namespace": "default"}
MAPS = {
    ("default", "settings"): msgspec.convert(
        {
            "metadata": META,
            "data": {"A": "1", "B": "two"},
            "binaryData": {"C": base64.b64encode(b"three").decode()},
        },
        ConfigMap,
    )
}
SECRETS = {
    ("default", "settings"): msgspec.convert(
        {"metadata": META, "data": {"P": "aHVzaA=="}, "stringData": {"Q": "plain"}}, Secret
    )
}


def around(**fields) -> ValueSources:
    known = {
        "node": node(),
        "pod_ips": ("10.0.0.7", "fd00::7"),
        "host_ips": ("192.0.2.2",),
        "config_maps": MAPS,
        "secrets": SECRETS,
    }
    return ValueSources(**{**known, **fields})


def service(name, address, *ports, namespace="default") -> Service:
    keys = ("port", "name", "protocol")
    spec = {"clusterIP": address, "ports": [dict(zip(keys, port, strict=False)) for port in ports]}
    meta = {"name": name, "namespace": namespace}
    return msgspec.convert({"metadata": meta, "spec": spec}, Service)


API = service("kubernetes", "10.96.0.1", (443, "https"))


def env(*variables, sources=(), place=None, pod=None, **container):
    spec = ctr(env=list(variables), envFrom=list(sources), **container)
    pod = pod or make_pod(spec, labels={"app": "web"})
    mine = make_pod(spec).spec.containers[0]
    return environment(pod, mine, place or around())


def var(name, value):
    return {"name": name, "value": value}


def field(name, path):
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("$(A)", "1"),
        ("a$(A)b$(B)c", "a1btwoc"),
        ("$(NOPE)", "$(NOPE)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$$", "$"),
        ("$", "$"),
        ("100$", "100$"),
        ("$x", "$x"),
        ("$(A", "$(A"),
        ("$(A$(B)", "$(A$(B)"),
        ("$()", "$()"),
        ("$A)", "$A)"),
        ("$(EMPTY)", ""),
        ("${A}", "${A}"),
    ],
)
def test_expansion(text, expected):
    assert expand(text, {"A": "1", "B": "two", "EMPTY": ""}) == expected


@given(st.text(alphabet="ab()", max_size=30))
def test_text_without_a_dollar_is_unchanged(text):
    assert expand(text, {"a": "x"}) == text


@given(st.text(alphabet="$(A)b", max_size=20))
def test_doubling_every_dollar_undoes_expansion(text):
    assert expand(text.replace("$", "$$"), {"A": "x"}) == text


def test_only_earlier_variables_are_known():
    found = env(var("A", "1"), var("B", "$(A)-$(C)"), var("C", "2"), var("D", "$$(A)"))
    assert found == {"A": "1", "B": "1-$(C)", "C": "2", "D": "$(A)"}


def test_golden_downward():
    limit = {
        "name": "CPU_LIM",
        "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "0"}},
    }
    found = env(
        field("POD_NAME", "metadata.name"),
        field("POD_IP", "status.podIP"),
        limit,
        var("REF", "$(POD_NAME)-x $$(POD_NAME) $(NOPE)"),
        place=around(pod_ips=("10.88.0.47",)),
    )
    assert found == {
        "POD_NAME": "web-n1",
        "POD_IP": "10.88.0.47",
        "CPU_LIM": "2",
        "REF": "web-n1-x $(POD_NAME) $(NOPE)",
    }


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("metadata.name", "web-n1"),
        ("metadata.namespace", "default"),
        ("metadata.uid", "u1"),
        ("metadata.labels['app']", "web"),
        ("metadata.labels['none']", ""),
        ("metadata.annotations['kubernetes.io/config.source']", "file"),
        ("spec.nodeName", "n1"),
        ("spec.serviceAccountName", ""),
        ("status.hostIP", "192.0.2.2"),
        ("status.hostIPs", "192.0.2.2"),
        ("status.podIP", "10.0.0.7"),
        ("status.podIPs", "10.0.0.7,fd00::7"),
    ],
)
def test_fields(path, expected):
    assert env(field("X", path)) == {"X": expected}


@pytest.mark.parametrize("path", ["metadata.labels", "metadata.annotations", "spec.hostname", "x"])
def test_invalid_fields(path):
    with pytest.raises(ConfigError, match="unsupported fieldPath"):
        env(field("X", path))


def test_addresses_with_the_node_s_network():
    pod = make_pod(ctr(), hostNetwork=True)
    assert env(field("X", "status.podIP"), place=around(pod_ips=()), pod=pod) == {"X": "192.0.2.2"}
    assert env(field("X", "status.podIP"), place=around(pod_ips=())) == {"X": ""}


@pytest.mark.parametrize(
    ("limits", "resource", "divisor", "expected"),
    [
        ({"cpu": "250m"}, "limits.cpu", "", "1"),
        ({"cpu": "250m"}, "limits.cpu", "1m", "250"),
        ({"cpu": "1500m"}, "limits.cpu", "1", "2"),
        ({}, "limits.cpu", "", "2"),
        ({}, "requests.cpu", "", "0"),
        ({"memory": "1Gi"}, "limits.memory", "1Mi", "1024"),
        ({"memory": "1Gi"}, "limits.memory", "0", str(GI)),
        ({"memory": "1000"}, "limits.memory", "1Ki", "1"),
        ({}, "limits.memory", "1Gi", "4"),
    ],
)
def test_resources(limits, resource, divisor, expected):
    pod = make_pod(ctr(resources={"limits": limits}))
    ref = ResourceFieldSelector(resource=resource, divisor=divisor)
    assert resource_field(pod, pod.spec.containers[0], ref, node()) == expected


def test_a_pod_level_limit():
    pod = make_pod(ctr(), resources={"limits": {"cpu": "500m", "memory": "1Gi"}})
    (container,) = pod.spec.containers
    for resource, divisor, expected in (
        ("limits.cpu", "1m", "500"),
        ("limits.memory", "1Mi", "1024"),
        ("limits.ephemeral-storage", "1Gi", "100"),
    ):
        ref = ResourceFieldSelector(resource=resource, divisor=divisor)
        assert resource_field(pod, container, ref, node(cpu=8000, memory=64 * GI)) == expected


def test_resources_of_another_or_missing_container():
    pod = make_pod(ctr("a"), ctr("b", resources={"requests": {"cpu": "3"}}))
    ref = ResourceFieldSelector(resource="requests.cpu", containerName="b")
    assert resource_field(pod, pod.spec.containers[0], ref, node()) == "3"
    other = ResourceFieldSelector(resource="requests.cpu", containerName="z")
    with pytest.raises(ConfigError, match="container z not found"):
        resource_field(pod, None, other, node())
    odd = ResourceFieldSelector(resource="capacity.cpu")
    with pytest.raises(ConfigError, match=r"unsupported container resource : capacity\.cpu"):
        resource_field(pod, pod.spec.containers[0], odd, node())


def test_env_overrides_env_from():
    found = env(
        var("A", "own"),
        var("X", "$(cm_B)$(A)"),
        sources=(
            {"configMapRef": {"name": "settings"}},
            {"prefix": "cm_", "configMapRef": {"name": "settings"}},
            {"secretRef": {"name": "settings"}},
        ),
    )
    # Binary data does not become a variable.
    assert found == {
        "A": "own",
        "B": "two",
        "P": "hush",
        "Q": "plain",
        "X": "twoown",
        "cm_A": "1",
        "cm_B": "two",
    }


def test_keys_that_are_not_identifiers_become_variables():
    meta = {"name": "odd", "namespace": "default"}
    odd = msgspec.convert({"metadata": meta, "data": {"1.a-b": "x", ".y": "z"}}, ConfigMap)
    place = around(config_maps={("default", "odd"): odd})
    found = env(sources=({"prefix": "9-", "configMapRef": {"name": "odd"}},), place=place)
    assert found == {"9-1.a-b": "x", "9-.y": "z"}


def key(kind, name, wanted, **more):
    ref = {"name": name, "key": wanted, **more}
    return {"name": "X", "valueFrom": {f"{kind}KeyRef": ref}}


def test_keys_of_documents():
    assert env(key("configMap", "settings", "B")) == {"X": "two"}
    assert env(key("secret", "settings", "P")) == {"X": "hush"}
    assert env(key("configMap", "settings", "Z", optional=True)) == {}
    assert env(key("secret", "none", "Z", optional=True)) == {}
    assert env(sources=({"configMapRef": {"name": "none", "optional": True}},)) == {}
    assert env(sources=({"secretRef": {"name": "none", "optional": True}},)) == {}


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        (key("configMap", "none", "A"), 'configmap "none" not found'),
        (key("secret", "none", "A"), 'secret "none" not found'),
        (key("configMap", "settings", "Z"), "couldn't find key Z in ConfigMap default/settings"),
        (key("secret", "settings", "Z"), "couldn't find key Z in Secret default/settings"),
    ],
)
def test_missing_documents(variable, message):
    with pytest.raises(ConfigError) as caught:
        env(variable)
    assert str(caught.value) == message


def test_missing_sources():
    with pytest.raises(ConfigError, match='configmap "none" not found'):
        env(sources=({"configMapRef": {"name": "none"}},))
    with pytest.raises(ConfigError, match='secret "none" not found'):
        env(sources=({"secretRef": {"name": "none"}},))


def test_no_message_contains_a_secret_value():
    bad = msgspec.convert({"metadata": META, "data": {"P": "not base64 !"}}, Secret)
    with pytest.raises(ConfigError) as caught:
        env(key("secret", "settings", "P"), place=around(secrets={("default", "settings"): bad}))
    assert "not base64 !" not in str(caught.value)
    assert caught.value.__cause__ is None


# --- files


def from_file(path="f", name="K", volume="v", **more):
    ref = {"volumeName": volume, "path": path, "key": name, **more}
    return {"name": "X", "valueFrom": {"fileKeyRef": ref}}


FILES = {("v", "f"): b"A='1'\nK='from $(A)'\n", ("v", "bad"): b"K=v", ("v", "none"): None}


def test_a_value_from_a_file_is_not_expanded():
    found = env(var("A", "x"), from_file(), var("Z", "$(X)"), place=around(env_files=FILES))
    assert found == {"A": "x", "X": "from $(A)", "Z": "from $(A)"}


def test_a_missing_key_may_be_optional_and_a_missing_file_may_not():
    place = around(env_files=FILES)
    assert env(from_file(name="NO", optional=True), place=place) == {}
    for path in ("none", "bad"):
        with pytest.raises(ConfigError) as caught:
            env(from_file(path, optional=True), place=place)
        assert str(caught.value) == "couldn't parse env file"


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        (from_file(name="NO"), 'environment variable key "NO" not found in file "v/f"'),
        (from_file("none"), "couldn't parse env file"),
        (from_file("bad"), "couldn't parse env file"),
        (from_file(volume="w"), 'cannot find the volume "w" referenced by FileKeyRef'),
    ],
)
def test_errors_of_a_file(variable, message):
    with pytest.raises(ConfigError) as caught:
        env(variable, place=around(env_files=FILES))
    assert str(caught.value) == message


def test_each_file_is_named_once():
    variables = [from_file(), from_file(name="L"), from_file("g"), var("P", "1")]
    (container,) = make_pod(ctr(env=variables)).spec.containers
    assert env_files(container) == (("v", "f"), ("v", "g"))


@pytest.mark.parametrize("wanted", [True, False])
def test_without_services_there_are_no_service_variables(wanted):
    assert env(pod=make_pod(ctr(), enableServiceLinks=wanted)) == {}


def test_every_pod_has_the_variables_of_the_api():
    expected = {
        "KUBERNETES_SERVICE_HOST": "10.96.0.1",
        "KUBERNETES_SERVICE_PORT": "443",
        "KUBERNETES_SERVICE_PORT_HTTPS": "443",
        "KUBERNETES_PORT": "tcp://10.96.0.1:443",
        "KUBERNETES_PORT_443_TCP": "tcp://10.96.0.1:443",
        "KUBERNETES_PORT_443_TCP_PROTO": "tcp",
        "KUBERNETES_PORT_443_TCP_PORT": "443",
        "KUBERNETES_PORT_443_TCP_ADDR": "10.96.0.1",
    }
    services = (API, service("web", "10.96.0.7", (80,)))
    for namespace, links in (("other", None), ("other", True), ("default", False)):
        pod = make_pod(ctr(), metadata={"namespace": namespace}, enableServiceLinks=links)
        assert env(pod=pod, place=around(services=services)) == expected
    own = service("kubernetes", "10.96.9.9", (1,), namespace="other")
    for order in ((API, own), (own, API)):
        pod = make_pod(ctr(), metadata={"namespace": "other"})
        found = env(pod=pod, place=around(services=order))
        assert found["KUBERNETES_SERVICE_HOST"] == "10.96.9.9"


def test_links_name_the_services_of_the_namespace():
    services = (
        service("redis-main", "10.96.0.7", (6379,)),
        service("dns", "fd00::a", (53, "dns", "UDP"), (53, "dns-tcp"), (9153, "metrics")),
        service("headless", "None", (1,)),
        service("outside", "", (1,)),
        service("portless", "10.96.0.8"),
        service("elsewhere", "10.96.0.9", (1,), namespace="other"),
    )
    assert env(place=around(services=services)) == {
        "REDIS_MAIN_SERVICE_HOST": "10.96.0.7",
        "REDIS_MAIN_SERVICE_PORT": "6379",
        "REDIS_MAIN_PORT": "tcp://10.96.0.7:6379",
        "REDIS_MAIN_PORT_6379_TCP": "tcp://10.96.0.7:6379",
        "REDIS_MAIN_PORT_6379_TCP_PROTO": "tcp",
        "REDIS_MAIN_PORT_6379_TCP_PORT": "6379",
        "REDIS_MAIN_PORT_6379_TCP_ADDR": "10.96.0.7",
        "DNS_SERVICE_HOST": "fd00::a",
        "DNS_SERVICE_PORT": "53",
        "DNS_SERVICE_PORT_DNS": "53",
        "DNS_SERVICE_PORT_DNS_TCP": "53",
        "DNS_SERVICE_PORT_METRICS": "9153",
        "DNS_PORT": "udp://[fd00::a]:53",
        "DNS_PORT_53_UDP": "udp://[fd00::a]:53",
        "DNS_PORT_53_UDP_PROTO": "udp",
        "DNS_PORT_53_UDP_PORT": "53",
        "DNS_PORT_53_UDP_ADDR": "fd00::a",
        "DNS_PORT_53_TCP": "tcp://[fd00::a]:53",
        "DNS_PORT_53_TCP_PROTO": "tcp",
        "DNS_PORT_53_TCP_PORT": "53",
        "DNS_PORT_53_TCP_ADDR": "fd00::a",
        "DNS_PORT_9153_TCP": "tcp://[fd00::a]:9153",
        "DNS_PORT_9153_TCP_PROTO": "tcp",
        "DNS_PORT_9153_TCP_PORT": "9153",
        "DNS_PORT_9153_TCP_ADDR": "fd00::a",
    }


def test_own_variables_win_over_those_of_services_and_may_refer_to_them():
    variables = [
        var("URL", "https://$(KUBERNETES_SERVICE_HOST):$(KUBERNETES_SERVICE_PORT)"),
        var("KUBERNETES_SERVICE_PORT", "1$(KUBERNETES_SERVICE_PORT)"),
        var("AFTER", "$(KUBERNETES_SERVICE_PORT)"),
    ]
    found = env(*variables, place=around(services=(API,)))
    assert found["URL"] == "https://10.96.0.1:443"
    assert found["KUBERNETES_SERVICE_PORT"] == found["AFTER"] == "1443"
    maps = {("default", "settings"): ConfigMap(data={"KUBERNETES_SERVICE_HOST": "mine"})}
    sources = [{"configMapRef": {"name": "settings"}}]
    around_map = around(services=(API,), config_maps=maps)
    found = env(variables[0], sources=sources, place=around_map)
    assert found["KUBERNETES_SERVICE_HOST"] == "mine"
    assert found["URL"] == "https://mine:443"


def test_maps_as_text():
    pod = make_pod(labels={"b": 'say "hi"\n', "a": "1"})
    assert metadata_field(pod, "metadata.labels") == 'a="1"\nb="say \\"hi\\"\\n"'
    assert metadata_field(pod, "spec.nodeName") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("é", '"é"'),
        ("\t", '"\\t"'),
        ("\x01", '"\\x01"'),
        ("a\\b", '"a\\\\b"'),
        ("\u200b", '"\\u200b"'),
    ],
)
def test_quoting(text, expected):
    assert quoted(text) == expected


# --- Files of variables


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("K='v'", "v"),
        ("K='v'\n", "v"),
        ("A='1'\nK='2'\nK='3'\n", "2"),
        ("  \tK='v'", "v"),
        ("# K='no'\n\n \t\nK='v'", "v"),
        ("K='v' # and why", "v"),
        ("K='v'\t#why", "v"),
        ("K='a b=c # $(X) \\n'", "a b=c # $(X) \\n"),
        ("K='two\nlines'\n", "two\nlines"),
        ("K='a\n# b\n\nc' # d\nL='x'", "a\n# b\n\nc"),
        ("K='v'\r\nL='w'\r\n", "v"),
        ("K=''", ""),
        ("K= 'v'\nL='w'", ""),
        ("K=\t", ""),
        ("L='v'", ""),
        ("", ""),
        ("\n", ""),
        ("K='v'\nthis is not read", "v"),
        ("K L='v'\nK='w'", "w"),
    ],
)
def test_values(text, expected):
    assert env_file_value(text.encode(), "K") == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("K", "line 1: missing '='"),
        ("\n='v'", "line 2: empty variable name"),
        ("K ='v'", "line 1: whitespace before '='"),
        ("K=v", "line 1: the value is not in single quotes"),
        ('K="v"', "line 1: the value is not in single quotes"),
        ("K=", "line 1: the value is not in single quotes"),
        ("export K='v'\nX", "line 2: missing '='"),
        ("K='v'w", "line 1: unexpected text after the closing quote"),
        ("K='a\nb'c", "line 2: unexpected text after the closing quote"),
        ("K='v", "line 1: the single quote is not closed"),
        ("A='1'\nK='a\nb\n", "line 2: the single quote is not closed"),
        ("Z=z\nK='v'", "line 1: the value is not in single quotes"),
    ],
)
def test_invalid_env_files_are_refused(text, why):
    with pytest.raises(EnvFileError) as caught:
        env_file_value(text.encode(), "K")
    assert str(caught.value) == why


def test_a_file_that_is_too_long():
    assert env_file_value(b"K='v'".ljust(ENV_FILE_LIMIT), "K") == "v"
    with pytest.raises(EnvFileError, match="has more than"):
        env_file_value(b"K='v'".ljust(ENV_FILE_LIMIT + 1), "K")


@given(st.text(alphabet=st.characters(exclude_characters="'\r", exclude_categories=["Cs"])))
def test_any_quoted_text_is_the_value(value):
    assert env_file_value(f"K='{value}'\n".encode(), "K") == value
