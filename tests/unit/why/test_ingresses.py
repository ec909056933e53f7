"""Diagnoses of Ingresses, PodDisruptionBudgets and NetworkPolicies."""

from __future__ import annotations

from typing import Any

from why_objects import inventory, make, ready_pod, starting_pod

from podtui.api.names import INGRESS_CONTROLLER
from podtui.api.networking import IngressClass
from podtui.api.v1 import Secret
from podtui.why import Diagnosis, Kind
from podtui.why.objects import diagnose_object

WEB = {"app": "web"}
ADDRESS = {"loadBalancer": {"ingress": [{"ip": "127.0.0.1"}]}}


def web() -> Any:
    ports = [{"name": "http", "port": 80, "targetPort": 8080}]
    return make("Service", "web", spec={"selector": WEB, "ports": ports, "clusterIP": "10.96.0.9"})


def pod() -> Any:
    return ready_pod("web-1", labels=WEB)


def ingress(name: str = "web", port: Any = None, *, status: Any = ADDRESS, **spec: Any) -> Any:
    backend = {"service": {"name": name, "port": port or {"number": 80}}}
    path = {"path": "/", "pathType": "Prefix", "backend": backend}
    rules = [{"host": "a.example", "http": {"paths": [path]}}]
    return make("Ingress", "shop", spec={"rules": rules, **spec}, status=status)


def why(item: Any, *others: Any, **more: Any) -> Diagnosis:
    return diagnose_object(inventory(item, *others, **more), item)


def test_an_ingress_with_endpoints_is_as_desired() -> None:
    diagnosis = why(ingress(), web(), pod())
    assert (diagnosis.kind, diagnosis.title) == (
        Kind.NONE, "Its route has endpoints: a.example/."
    )  # fmt: skip
    assert why(ingress(port={"name": "http"}), web(), pod()).kind is Kind.NONE


def test_a_backend_without_a_service() -> None:
    diagnosis = why(ingress("wbe"), web(), pod())
    assert diagnosis.cause == "BackendMissing"
    assert diagnosis.title == (
        "a.example/ leads nowhere: there is no Service wbe in the namespace default; perhaps web is"
        " meant."
    )
    assert diagnosis.field == "spec.rules[0].http.paths[0].backend.service.name"


def test_a_port_that_the_service_does_not_have() -> None:
    diagnosis = why(ingress(port={"number": 8080}), web(), pod())
    assert diagnosis.cause == "BackendPortUnknown"
    assert diagnosis.title == (
        "a.example/ leads nowhere: the Service web has no port 8080, but 80 (http); 8080 is the"
        " targetPort of 80."
    )
    assert why(ingress(port={"name": "htp"}), web(), pod()).cause == "BackendPortUnknown"


def test_a_default_backend_is_checked_too() -> None:
    backend = {"service": {"name": "gone", "port": {"number": 80}}}
    diagnosis = why(ingress(defaultBackend=backend), web(), pod())
    assert diagnosis.title.startswith("everything else leads nowhere")
    assert diagnosis.state == "some routes without backend"


def test_services_without_endpoints_explain_it() -> None:
    diagnosis = why(ingress(), web(), starting_pod("web-1", labels=WEB))
    assert (diagnosis.cause, diagnosis.kind) == ("BackendsNotReady", Kind.WAIT)
    assert diagnosis.parts[0].name == "svc/web"


def test_a_class_that_does_not_exist() -> None:
    served = ingress(ingressClassName="nginx")
    item = ingress(ingressClassName="nginx", status={})
    known = make("IngressClass", "podtui")
    diagnosis = why(item, web(), pod(), known)
    assert diagnosis.cause == "IngressClassMissing"
    assert '"ingressClassName":"podtui"' in diagnosis.advice
    # podtui serves such an Ingress nevertheless.
    assert why(served, web(), pod(), known).kind is Kind.NONE
    assert why(item, web(), pod(), unread=(IngressClass,)).cause == "IngressPending"


def test_a_class_of_another_controller() -> None:
    item = ingress(ingressClassName="nginx", status={})
    other = make("IngressClass", "nginx", spec={"controller": "k8s.io/ingress-nginx"})
    assert why(item, web(), pod(), other).title == (
        "Its class nginx belongs to the controller k8s.io/ingress-nginx, which has to run."
    )
    ours = make("IngressClass", "nginx", spec={"controller": INGRESS_CONTROLLER})
    assert why(item, web(), pod(), ours).cause == "IngressPending"


def test_an_ingress_without_an_address_waits_for_its_controller() -> None:
    diagnosis = why(ingress(status={}), web(), pod())
    assert (diagnosis.cause, diagnosis.kind) == ("IngressPending", Kind.WAIT)


def test_a_certificate_that_is_missing() -> None:
    item = ingress(tls=[{"hosts": ["a.example"], "secretName": "cert"}])
    missing = why(item, web(), pod())
    assert missing.cause == "TlsSecretMissing"
    assert missing.title == (
        "The certificate of a.example is missing: the Secret cert does not exist."
    )
    assert missing.advice.startswith("kubectl create secret tls cert -n default")
    half = make("Secret", "cert", data={"tls.crt": ""})
    assert why(item, web(), pod(), half).title.endswith("has no tls.key.")
    both = make("Secret", "cert", data={"tls.crt": "", "tls.key": ""})
    assert why(item, web(), pod(), both).kind is Kind.NONE
    assert why(item, web(), pod(), unread=(Secret,)).kind is Kind.NONE
    assert why(item, web(), pod(), in_cluster=True).kind is Kind.NONE


# --- policies


def budget(**status: int) -> Any:
    counts = {"currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1, "disruptionsAllowed": 0}
    return make("PodDisruptionBudget", "web", status={**counts, **status},
                spec={"selector": {"matchLabels": WEB}, "minAvailable": 1})  # fmt: skip


def test_a_budget_says_what_it_allows() -> None:
    assert why(budget(), pod()).state == "no disruption allowed"
    allows = why(budget(disruptionsAllowed=1), pod())
    assert allows.title == "It allows 1 disruption now."
    assert "preemption" in allows.sentences[1]
    assert why(budget(disruptionsAllowed=1), pod(), in_cluster=True).sentences == (
        "1 of 1 pod healthy, 1 required.",
    )
    assert why(budget(currentHealthy=0), starting_pod("web-1", labels=WEB)).kind is Kind.WAIT
    assert why(budget()).title == "Its selector matches no pod: app=web."


def test_a_policy_is_not_enforced() -> None:
    item = make("NetworkPolicy", "deny", spec={"podSelector": {"matchLabels": WEB}})
    diagnosis = why(item, pod())
    assert diagnosis.title == "It is stored and not enforced: podtui restricts no connection."
    assert diagnosis.sentences == ("It selects 1 pod: web-1.",)
    assert "network plugin" in why(item, pod(), in_cluster=True).sentences[0]
