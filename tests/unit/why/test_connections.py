"""Who connects to whom, and pods that name a Service that does not answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from msgspec.structs import replace as replace_struct
from why_objects import crashing_pod, inventory, make, ready_pod, template

from podtui.api.insight import ConnectionAttempt, ConnectionCheck, Outcome
from podtui.api.names import MANIFEST_PATH
from podtui.api.places import Path, Position, write_places
from podtui.api.v1 import Service
from podtui.why import Diagnosis, Evidence
from podtui.why.connection_checks import check_text, fails
from podtui.why.connections import Connection, connections, with_connections
from podtui.why.endpoints import read_host
from podtui.why.inventory import Inventory
from podtui.why.objects import explain_pod


def service(name: str, *ports: int, namespace: str = "default", **spec: Any) -> Any:
    meta = {"namespace": namespace, "uid": f"uid-{namespace}-{name}"}
    listed = [{"port": port} for port in ports]
    return make("Service", name, meta=meta, spec={"selector": {"app": name}, "ports": listed,
                                                  "clusterIP": "10.96.0.9", **spec})  # fmt: skip


def backend(name: str, namespace: str = "default") -> Any:
    meta = {"namespace": namespace, "uid": f"uid-pod-{namespace}-{name}"}
    return ready_pod(f"{name}-1", labels={"app": name}, meta=meta)


def env(**values: str) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in values.items()]


def client(name: str = "client", **container: Any) -> Any:
    spec = {"containers": [{"name": "c", "image": "busybox:1", **container}]}
    return make("Deployment", name, spec={"template": {"metadata": {}, "spec": spec}})


def edges_of(*items: Any) -> list[Connection]:
    return [edge for edge in connections(inventory(*items))
            if edge.item.metadata.name == "client"]  # fmt: skip


def shown(edge: Connection) -> tuple[str, int, str, str]:
    return edge.name, edge.port, edge.source, edge.problem


def test_variables_arguments_and_commands_name_services() -> None:
    item = client(
        env=env(API="http://api:8080", DB_HOST="db", DB_PORT="5432"),
        command=["sh", "-c", "nc -z cache 6379"],
        args=["--queue=queue:5672", "--metrics", "http://stats.mon.svc"],
    )
    services = [
        service("api", 8080), service("db", 5432), service("cache", 6379), service("queue", 5672),
        service("stats", 80, namespace="mon"),
    ]  # fmt: skip
    pods = [backend(s.metadata.name, s.metadata.namespace) for s in services]
    assert [shown(edge) for edge in edges_of(item, *services, *pods)] == [
        ("api", 8080, "env API", ""),
        ("db", 5432, "env DB_HOST", ""),
        ("cache", 6379, "command", ""),
        ("queue", 5672, "args", ""),
        ("stats", 0, "args", ""),
    ]


def test_a_guess_is_called_one() -> None:
    item = client(args=["db"], env=env(GREETING="web", PLACE="Berlin"))
    edges = edges_of(item, service("db", 1), service("web", 1), backend("db"), backend("web"))
    assert [(edge.name, edge.is_sure) for edge in edges] == [("web", False), ("db", False)]


def test_names_outside_of_the_cluster_are_no_connections() -> None:
    item = client(env=env(A="https://example.com", B="http://host.docker.internal:80",
                          C="http://1.2.3.4:80", D="http://localhost"))  # fmt: skip
    assert edges_of(item, service("example", 80)) == []


def test_config_maps_are_read_and_secrets_are_not() -> None:
    config = make("ConfigMap", "settings", data={"DB_URL": "postgres://u:p@db:5432/x"})
    secret = make("Secret", "s", data={"API": "aHR0cDovL2FwaQ=="})
    item = client(
        envFrom=[{"configMapRef": {"name": "settings"}}, {"secretRef": {"name": "s"}}],
        env=[{"name": "OTHER", "valueFrom": {"configMapKeyRef": {"name": "settings",
                                                                 "key": "DB_URL"}}},
             {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "API"}}}],
    )  # fmt: skip
    edges = edges_of(item, config, secret, service("db", 5432), service("api", 80), backend("db"))
    assert [shown(edge) for edge in edges] == [("db", 5432, "ConfigMap settings, key DB_URL", "")]
    assert "p@" not in repr([replace(edge, item=None, service=None) for edge in edges])


def test_references_and_variables_of_services_are_followed() -> None:
    item = client(env=env(HOST="redis", URL="redis://$(HOST):6379"), args=["$(DB_SERVICE_HOST)"])
    edges = edges_of(item, service("redis", 6379), service("db", 1), backend("redis"),
                     backend("db"))  # fmt: skip
    assert [(edge.name, edge.port) for edge in edges] == [("redis", 6379), ("db", 0)]


def test_cluster_addresses_name_their_service() -> None:
    item = client(env=env(API="http://10.96.7.7:80"))
    edges = edges_of(item, service("api", 80, clusterIP="10.96.7.7"), backend("api"))
    assert [edge.name for edge in edges] == ["api"]


def test_a_missing_service_names_the_most_similar_one() -> None:
    (edge,) = edges_of(client(env=env(DB="http://dbb:80")), service("db", 80))
    assert edge.problem == "there is no Service dbb in the namespace default"
    assert (edge.near, edge.service, edge.is_sure) == ("db", None, True)


def test_a_service_of_another_namespace_is_meant() -> None:
    (edge,) = edges_of(client(env=env(DB="http://web:80")), service("web", 80, namespace="shop"))
    assert edge.near == "web.shop"


def test_services_that_cannot_be_listed_are_not_called_missing() -> None:
    item = client(env=env(DB="http://db:80"))
    assert connections(inventory(item, unread=(Service,))) == []


def test_other_namespaces_that_are_not_read_are_not_judged() -> None:
    item = client(env=env(A="http://web.shop.svc", B="http://gone"))
    all_of = replace(inventory(item), scope="default")
    assert [edge.name for edge in connections(all_of)] == ["gone"]


def test_ports_that_are_not_served() -> None:
    web = service("web", spec_ports=())
    web = make("Service", "web", spec={"selector": {"app": "web"}, "clusterIP": "10.96.0.9",
                                       "ports": [{"port": 80, "targetPort": 8080}]})  # fmt: skip
    (edge,) = edges_of(client(env=env(A="http://web:8080")), web, backend("web"))
    assert edge.problem == "8080 is its targetPort, clients use 80"
    (edge,) = edges_of(client(env=env(A="http://web:81")), web, backend("web"))
    assert edge.problem == "it has no port 81, but 80"


def test_a_headless_service_maps_no_ports() -> None:
    web = service("web", 80, clusterIP="None")
    (edge,) = edges_of(client(env=env(A="http://web:8080")), web, backend("web"))
    assert edge.problem == ""


def test_a_service_without_ready_endpoints() -> None:
    (edge,) = edges_of(client(env=env(A="http://web:80")), service("web", 80))
    assert edge.problem == "it has no endpoints"
    pod = crashing_pod("web-1", labels={"app": "web"})
    (edge,) = edges_of(client(env=env(A="http://web:80")), service("web", 80), pod)
    assert edge.problem.startswith("it has no ready endpoints (web-1: ")


def test_routes_of_an_ingress_are_connections() -> None:
    path = {"path": "/", "pathType": "Prefix",
            "backend": {"service": {"name": "web", "port": {"number": 80}}}}  # fmt: skip
    item = make("Ingress", "client", spec={"rules": [{"host": "a.b", "http": {"paths": [path]}}]})
    (edge,) = edges_of(item)
    assert (edge.source, edge.port) == ("route a.b/", 80)
    assert edge.problem == "there is no Service web in the namespace default"
    assert edges_of(item, service("web", 80), backend("web"))[0].problem == ""


def test_host_names() -> None:
    all_of = inventory(service("web", 80, namespace="shop"), service("db", 1, clusterIP="None"),
                       make("Namespace", "shop"), make("Namespace", "default"))  # fmt: skip

    def read(host: str) -> tuple[str, str, str] | None:
        name = read_host(all_of, host, "default")
        return None if name is None else (name.name, name.namespace, name.pod)

    assert read("web") == ("web", "default", "")
    assert read("web.shop") == ("web", "shop", "")
    assert read("gone.shop.svc.cluster.local.") == ("gone", "shop", "")
    assert read("db-0.db") == ("db", "default", "db-0")
    assert read("db-0.db.default.svc") == ("db", "default", "db-0")
    assert read("example.com") is None
    assert read("a.b.c.d.svc") is None


# --- pods that do not work


def failing(text: str) -> Diagnosis:
    base = inventory()
    pod = crashing_pod("client")
    return replace(
        base.pod_diagnosis(pod), cause="DependencyMissing", container="c",
        evidence=(Evidence("log", text),),
    )  # fmt: skip


def pod_naming(host: str, **more: Any) -> Any:
    spec = {"containers": [{"name": "c", "image": "busybox:1", "env": env(DB_URL=host)}]}
    return crashing_pod("client", spec=spec, **more)


def explained(all_of: Inventory, pod: Any, text: str) -> Diagnosis:
    return with_connections(all_of, pod, failing(text))


def test_a_host_in_the_log_without_a_service_is_the_cause() -> None:
    pod = pod_naming("http://dbb:80")
    diagnosis = explained(inventory(pod, service("db", 80)), pod, "getaddrinfo ENOTFOUND dbb")
    assert diagnosis.cause == "ServiceMissing"
    assert diagnosis.title == (
        "c cannot reach dbb: there is no Service dbb in the namespace default; perhaps db is meant."
    )
    assert diagnosis.brief == "no Service dbb"
    assert diagnosis.field == "spec.containers[0].env[0].value"


def test_without_the_log_it_is_a_probable_cause() -> None:
    pod = pod_naming("http://dbb:80")
    diagnosis = explained(inventory(pod, service("db", 80)), pod, "exit")
    assert diagnosis.cause == "DependencyMissing"
    assert diagnosis.sentences[-1] == (
        "Probable cause: it names dbb in env DB_URL, but there is no Service dbb in the namespace"
        " default; perhaps db is meant."
    )


def test_a_service_that_does_not_answer_is_explained() -> None:
    pod = pod_naming("http://db:80")
    other = crashing_pod("db-1", labels={"app": "db"})
    all_of = inventory(pod, service("db", 80), other)
    diagnosis = explained(all_of, pod, "dial tcp: connect to db: connection refused")
    assert (diagnosis.cause, diagnosis.parts[0].name) == ("ServiceUnreachable", "svc/db")
    assert diagnosis.parts[0].diagnosis.cause == "PodsNotReady"


def test_a_service_with_endpoints_is_not_blamed() -> None:
    pod = pod_naming("http://db:80")
    all_of = inventory(pod, service("db", 80), backend("db"))
    assert explained(all_of, pod, "db") == failing("db")


# --- asked from inside the pod


def asked(answer: ConnectionCheck | str, *items: Any) -> tuple[Inventory, list[tuple[str, int]]]:
    """Return an inventory of objects whose pods see this, and the connections that are tried."""
    tried: list[tuple[str, int]] = []

    def check(pod: Any, host: str, port: int) -> ConnectionCheck | str:
        assert pod.metadata.name == "client"
        tried.append((host, port))
        return answer

    return replace(inventory(*items), check_connection=check), tried


def seen(outcome: Outcome | None = None, error: str = "", port: int = 80) -> ConnectionCheck:
    attempt = ConnectionAttempt(
        address="10.96.0.9", outcome=outcome or Outcome.FAILED, seconds=0.002
    )
    return ConnectionCheck(
        host="db", port=port, name="" if error else "db.default.svc.cluster.local",
        source="10.96.0.10", error=error, addresses=() if error else ("10.96.0.9",),
        attempts=(attempt,) if outcome else (),
    )  # fmt: skip


def test_a_refused_connection_is_the_cause_although_the_manifests_are_right() -> None:
    pod = pod_naming("http://db:80")
    all_of, tried = asked(seen(Outcome.REFUSED), pod, service("db", 80), backend("db"))
    diagnosis = explained(all_of, pod, "connect to db: connection refused")
    assert tried == [("db", 80)]
    assert (diagnosis.cause, diagnosis.parts) == ("ServiceUnreachable", ())
    assert diagnosis.title == (
        "c cannot reach db: db.default.svc.cluster.local is 10.96.0.9, port 80 refused the"
        " connection (asked from inside the pod)."
    )
    assert diagnosis.advice.startswith("Compare the target port of svc/db with the port")


def test_a_missing_name_is_confirmed_from_inside_the_pod() -> None:
    pod = pod_naming("http://dbb:80")
    answer = replace_struct(seen(error="NXDOMAIN"), host="dbb")
    all_of, _ = asked(answer, pod, service("db", 80))
    diagnosis = explained(all_of, pod, "getaddrinfo ENOTFOUND dbb")
    assert diagnosis.cause == "ServiceMissing"
    assert "there is no Service dbb" in diagnosis.title
    assert diagnosis.sentences[-1] == (
        "Asked from inside the pod: dbb does not exist (NXDOMAIN from 10.96.0.10)."
    )


def test_a_host_that_accepts_now_is_no_cause() -> None:
    pod = pod_naming("http://db:80")
    all_of, _ = asked(seen(Outcome.ACCEPTED), pod, service("db", 80))  # without endpoints
    diagnosis = explained(all_of, pod, "connect to db: connection refused")
    assert diagnosis.cause == "DependencyMissing"
    assert diagnosis.sentences[-1] == (
        "Asked from inside the pod: db.default.svc.cluster.local is 10.96.0.9, port 80 accepted the"
        " connection in 2.0 ms."
    )


def test_a_pod_that_cannot_be_asked_leaves_a_guess() -> None:
    pod = pod_naming("http://dbb:80")
    all_of, _ = asked("the pod has no running sandbox", pod, service("db", 80))
    diagnosis = explained(all_of, pod, "no such host: dbb")
    assert diagnosis.cause == "ServiceMissing"
    assert diagnosis.sentences[-1] == (
        "This is a guess from the manifests; the pod cannot be asked: the pod has no running"
        " sandbox."
    )
    healthy, _ = asked("the pod has no running sandbox", pod_naming("http://db:80"),
                       service("db", 80), backend("db"))  # fmt: skip
    assert explained(healthy, pod_naming("http://db:80"), "db") == failing("db")


def test_a_name_without_a_port_that_exists_leaves_the_endpoints_in_question() -> None:
    pod = pod_naming("db")
    all_of, tried = asked(seen(port=0), pod, service("db", 80))
    diagnosis = explained(all_of, pod, "db: timeout")
    assert tried == [("db", 0)]
    assert diagnosis.title == "c cannot reach db: it has no endpoints."


def test_hosts_that_the_log_names_are_asked_first_and_at_most_four() -> None:
    names = [f"s{number}" for number in range(6)]
    pod = pod_naming(",".join(f"http://{name}:80" for name in names))
    items = [item for name in names for item in (service(name, 80), backend(name))]
    all_of, tried = asked(seen(Outcome.ACCEPTED), pod, *items)
    explained(all_of, pod, "lost s5")
    assert tried == [("s5", 80), ("s0", 80), ("s1", 80), ("s2", 80)]


def test_other_causes_ask_for_nothing() -> None:
    pod = pod_naming("http://dbb:80")
    all_of, tried = asked(seen(Outcome.ACCEPTED), pod)
    with_connections(all_of, pod, replace(failing("dbb"), cause="ImageMissing"))
    assert not tried


def test_what_a_check_shows() -> None:
    base = seen(Outcome.REFUSED)
    name = "db.default.svc.cluster.local"
    for check, text in (
        (seen(port=0), f"{name} is 10.96.0.9"),
        (seen(Outcome.TIMED_OUT), f"{name} is 10.96.0.9, port 80 did not answer within 0.0 s"),
        (replace_struct(base, name=""), "10.96.0.9, port 80 refused the connection"),
        (seen(error="SERVFAIL"), "db is unknown (SERVFAIL from 10.96.0.10)"),
        (
            replace_struct(seen(error="no answer"), source="", servers=("10.96.0.10", "10.0.0.2")),
            "no name server answered for db (asked: 10.96.0.10, 10.0.0.2)",
        ),
        (
            replace_struct(seen(error="no address"), name=name),
            f"{name} has no address (no A and AAAA records from 10.96.0.10)",
        ),
        (seen(error="no name server"), "the pod has no name server to ask for db"),
    ):
        assert check_text(check) == text
    two = replace_struct(base, attempts=(*base.attempts, *seen(Outcome.ACCEPTED).attempts))
    assert check_text(two).endswith(
        "; port 80: 10.96.0.9 refused the connection; 10.96.0.9 accepted the connection in 2.0 ms"
    )
    assert not fails(two)


# --- the change


def test_the_fix_of_a_workload_names_its_file_and_line() -> None:
    path = "/pods/client.yaml"
    spec = {"containers": [{"name": "c", "image": "busybox:1", "env": env(DB="http://dbb")}]}
    where: Path = ("spec", "template", "spec", "containers", 0, "env", 0, "value")
    keys: dict[Path, Position] = {
        where[:n]: (n, 1) for n in range(1, 9) if isinstance(where[n - 1], str)
    }
    values: dict[Path, Position] = {where[:n]: (n, 3) for n in range(1, 9)}
    document = {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default",
                "name": "client", "line": 1, "outcome": "Applied",
                "places": write_places(keys, values)}  # fmt: skip
    manifest = make("Manifest", "client.yaml", spec={"path": path},
                    status={"state": "Accepted", "objects": [document]})  # fmt: skip
    deployment = make("Deployment", "client", meta={"annotations": {MANIFEST_PATH: path}},
                      spec={"template": {"metadata": {}, "spec": spec}})  # fmt: skip
    replica_set = make("ReplicaSet", "client-1", owner=deployment, spec={"template": template()})
    pod = crashing_pod("client-1-a", replica_set, spec=spec)
    all_of = inventory(deployment, replica_set, pod, service("db", 80), manifest)
    diagnosis = explain_pod(all_of, pod, failing("no such host: dbb"))
    assert diagnosis.advice == "Correct env DB of deploy/client (client.yaml, line 8): db."
