"""Diagnoses of Services, autoscalers, accounts and quotas."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs, to_builtins
from why_objects import crashing_pod, event, inventory, make, ready_pod, starting_pod, template

from podtui.api.names import MANIFEST_PATH
from podtui.api.rbac import Role
from podtui.api.urls import PUBLISHED
from podtui.manifest.diagnose import read_manifest
from podtui.why import Diagnosis, Kind, apply_edits
from podtui.why.objects import diagnose_object

WEB = {"app": "web"}


def service(selector: Any = None, ports: Any = None, name: str = "web", **spec: Any) -> Any:
    body = {"selector": WEB if selector is None else selector, "ports": ports or [{"port": 80}]}
    return make("Service", name, spec={**body, **spec})


def node() -> Any:
    return make("Node", "n1")


def why(item: Any, *others: Any, **more: Any) -> Diagnosis:
    return diagnose_object(inventory(item, *others, **more), item)


def test_a_service_with_ready_pods_lists_its_endpoints() -> None:
    diagnosis = why(service(), ready_pod("web-1", labels=WEB), node())
    assert (diagnosis.kind, diagnosis.title) == (Kind.NONE, "It has 1 endpoint: web-1.")


def test_a_selector_that_matches_nothing_names_the_most_similar_pod() -> None:
    item = service({"app": "web", "tier": "back"})
    pods = [ready_pod("other", labels={"app": "x"}),
            ready_pod("web-1", labels={"app": "web", "tier": "front"})]  # fmt: skip
    diagnosis = why(item, *pods)
    assert diagnosis.cause == "SelectorMatchesNothing"
    assert diagnosis.title == "Its selector matches no pod: app=web,tier=back."
    assert diagnosis.sentences == (
        "The most similar pod is web-1: it lacks tier=back (it has tier=front).",
    )


def test_a_misspelt_label_is_similar() -> None:
    diagnosis = why(service({"ap": "web"}), ready_pod("web-1", labels=WEB))
    assert diagnosis.sentences == (
        "The most similar pod is web-1: it lacks ap=web (it has app=web).",
    )


def test_a_misspelt_value_is_nearer_than_another_one() -> None:
    pods = [ready_pod("redis-1", labels={"app": "redis"}), ready_pod("web-1", labels=WEB)]
    assert why(service({"app": "wbe"}), *pods).sentences == (
        "The most similar pod is web-1: it lacks app=wbe (it has app=web).",
    )


def test_a_selector_with_nothing_similar_says_no_more() -> None:
    assert why(service({"q": "z"}), ready_pod("web-1", labels=WEB)).sentences == ()


@pytest.mark.parametrize(
    ("replicas", "text"),
    [
        (0, "The workload that it selects, deploy/web, is scaled to 0."),
        (2, "The workload that it selects, deploy/web, has no pods: podtui why deploy/web."),
    ],
)
def test_a_workload_without_pods_is_named(replicas: int, text: str) -> None:
    item = make("Deployment", "web", spec={"replicas": replicas, "template": template(WEB)})
    assert why(service(), item).sentences == (text,)


def test_pods_that_are_not_ready_are_explained() -> None:
    waiting = why(service(), starting_pod("web-1", labels=WEB))
    assert (waiting.cause, waiting.kind) == ("PodsNotReady", Kind.WAIT)
    failing = why(service(), crashing_pod("web-1", labels=WEB))
    assert (failing.kind, failing.parts[0].name) == (Kind.FAILURE, "pod/web-1")


def test_unready_pods_are_endpoints_if_they_are_published() -> None:
    pod = starting_pod("web-1", labels=WEB)
    assert why(service(publishNotReadyAddresses=True), pod, node()).kind is Kind.NONE


def test_some_unready_pods_only_wait() -> None:
    pods = [ready_pod("web-1", labels=WEB), starting_pod("web-2", labels=WEB)]
    diagnosis = why(service(), *pods, node())
    assert (diagnosis.cause, diagnosis.kind) == ("SomePodsNotReady", Kind.WAIT)


def with_port(**port: Any) -> Any:
    container = {"name": "c", "image": "busybox:1", "ports": [port]}
    return ready_pod("web-1", labels=WEB, spec={"containers": [container]})


def test_an_unknown_target_port_names_those_that_exist() -> None:
    item = service(ports=[{"port": 80, "targetPort": "htttp"}])
    diagnosis = why(item, with_port(name="http", containerPort=80))
    assert diagnosis.title == (
        "No container of its pods has a TCP port named htttp: they have http; perhaps http is"
        " meant."
    )


def test_the_protocol_of_a_named_port_counts() -> None:
    item = service(ports=[{"port": 53, "targetPort": "dns"}])
    assert why(item, with_port(name="dns", containerPort=53, protocol="UDP")).cause == "PortUnknown"
    item = service(ports=[{"port": 53, "targetPort": "dns", "protocol": "UDP"}])
    assert why(item, with_port(name="dns", containerPort=53, protocol="UDP")).kind is Kind.NONE


def test_a_number_that_no_container_declares_is_only_a_remark() -> None:
    diagnosis = why(service(ports=[{"port": 80, "targetPort": 8080}]), with_port(containerPort=80))
    assert diagnosis.kind is Kind.NONE
    assert "perhaps a mistake" in diagnosis.sentences[0]


def test_a_service_without_selector_needs_endpoints_by_hand() -> None:
    item = service({})
    assert why(item).cause == "NoSelector"
    endpoints = make("Endpoints", "web", subsets=[{"addresses": [{"ip": "10.0.0.1"}]}])
    assert "10.0.0.1" in why(item, endpoints).title
    assert why(service({}, name="kubernetes")).kind is Kind.NONE
    assert why(service({}, type="ExternalName", externalName="db.example")).kind is Kind.NONE


def test_pods_of_an_absent_node_are_no_endpoints() -> None:
    diagnosis = why(service(), ready_pod("web-1", labels=WEB), make("Node", "other"))
    assert diagnosis.cause == "NodeAbsent"


def test_the_selector_that_would_match_is_a_command() -> None:
    diagnosis = why(service({"ap": "web"}), ready_pod("web-1", labels=WEB))
    assert diagnosis.advice == (
        "If that pod is meant: kubectl patch service web -n default --type=merge -p"
        """ '{"spec":{"selector":{"ap":null,"app":"web"}}}'"""
    )


def from_folder(text: str, item: Any) -> tuple[Any, Any]:
    """Return a Service with the manifest that states it, read as the agent does."""
    reading = read_manifest("/pods/web.yaml", text.encode(), node_name="n1")
    status = {"state": "Accepted", "objects": [to_builtins(each) for each in reading.items]}
    manifest = make("Manifest", "web.yaml", spec={"path": "/pods/web.yaml", "text": text},
                    status=status)  # fmt: skip
    meta = structs.replace(item.metadata, annotations={MANIFEST_PATH: "/pods/web.yaml"})
    return structs.replace(item, metadata=meta), manifest


def test_a_service_of_the_folder_gets_a_fix_for_its_file() -> None:
    text = "\n".join(
        (
            "apiVersion: v1",
            "kind: Service",
            "metadata: {name: web}",
            "spec:",
            "  selector:",
            "    app: wbe  # not web",
            "  ports: [{port: 80}]",
        )
    )
    item, manifest = from_folder(text, service({"app": "wbe"}))
    diagnosis = why(item, manifest, ready_pod("web-1", labels=WEB))
    assert (diagnosis.field, diagnosis.position) == ("spec.selector", (5, 3))
    assert "app: web  # not web" in apply_edits(text, diagnosis.fixes[0].edits)
    assert "kubectl patch" not in diagnosis.advice


def test_the_port_that_is_meant_is_a_command() -> None:
    item = service(ports=[{"port": 80, "targetPort": "htttp"}])
    diagnosis = why(item, with_port(name="http", containerPort=80))
    assert """'[{"op":"replace","path":"/spec/ports/0/targetPort","value":"http"}]'""" in (
        diagnosis.advice
    )


def test_a_number_with_another_protocol_is_a_remark() -> None:
    item = service(ports=[{"port": 53, "targetPort": 53, "protocol": "UDP"}])
    diagnosis = why(item, with_port(containerPort=53))
    assert diagnosis.sentences[0].startswith("Its pods declare the port 53 with TCP, not UDP")


def test_a_load_balancer_without_address_waits() -> None:
    item = service(type="LoadBalancer", ports=[{"port": 80, "nodePort": 30080}])
    diagnosis = why(item, ready_pod("web-1", labels=WEB))
    assert (diagnosis.cause, diagnosis.kind) == ("LoadBalancerPending", Kind.WAIT)
    assert "30080" in diagnosis.sentences[0]
    status = {"loadBalancer": {"ingress": [{"ip": "127.96.0.5"}]}}
    made = make("Service", "web", spec={"selector": WEB, "ports": [{"port": 80}],
                                        "type": "LoadBalancer"}, status=status)  # fmt: skip
    assert why(made, ready_pod("web-1", labels=WEB)).kind is Kind.NONE


def test_a_port_that_another_program_uses() -> None:
    item = service(type="NodePort", ports=[{"port": 80, "nodePort": 30080}])
    warned = event(item, "NodePortInUse", "127.0.0.1:30080/TCP: address already in use")
    diagnosis = why(item, ready_pod("web-1", labels=WEB), warned)
    assert (diagnosis.cause, diagnosis.kind) == ("NodePortInUse", Kind.FAILURE)
    assert "address already in use" in diagnosis.evidence[0].text
    # The event stays for an hour after the port is free again.
    meta = structs.replace(item.metadata, annotations={PUBLISHED: "127.0.0.1:30080/TCP"})
    published = structs.replace(item, metadata=meta)
    assert why(published, ready_pod("web-1", labels=WEB), warned).kind is Kind.NONE


def test_other_warnings_are_evidence() -> None:
    item = service()
    warned = event(item, "Odd", "something")
    diagnosis = why(item, ready_pod("web-1", labels=WEB), warned)
    assert (diagnosis.kind, diagnosis.evidence[0].text) == (Kind.NONE, "Odd: something")


# --- autoscalers


def autoscaler(*conditions: Any, **status: Any) -> Any:
    ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"maxReplicas": 3, "scaleTargetRef": ref}
    status = {"conditions": list(conditions), "desiredReplicas": 1, **status}
    return make("HorizontalPodAutoscaler", "web", spec=spec, status=status)


def condition(name: str, status: str, reason: str, message: str = "") -> Any:
    return {"type": name, "status": status, "reason": reason, "message": message}


def target() -> Any:
    return make("Deployment", "web", spec={"template": template()})


def test_an_autoscaler_without_its_target() -> None:
    assert why(autoscaler()).cause == "TargetMissing"


def test_an_autoscaler_without_requests_names_the_field() -> None:
    message = "failed to get cpu utilization: missing request for cpu in container c of Pod web-1"
    diagnosis = why(autoscaler(condition("ScalingActive", "False", "FailedGetResourceMetric",
                                         message)), target())  # fmt: skip
    assert "set resources.requests.cpu of each container of Deployment web" in diagnosis.advice


@pytest.mark.parametrize(
    ("conditions", "cause", "kind"),
    [
        ((), "NotObserved", Kind.WAIT),
        ((condition("AbleToScale", "False", "FailedGetScale"),), "FailedGetScale", Kind.FAILURE),
        ((condition("ScalingActive", "False", "ScalingDisabled"),), "ScalingDisabled", Kind.NONE),
        ((condition("ScalingLimited", "True", "TooManyReplicas"),), "TooManyReplicas", Kind.WAIT),
        ((condition("ScalingLimited", "True", "TooFewReplicas"),), "Scales", Kind.NONE),
    ],
)
def test_an_autoscaler_is_explained_by_its_conditions(
    conditions: Any, cause: str, kind: Kind
) -> None:
    diagnosis = why(autoscaler(*conditions), target())
    assert (diagnosis.cause, diagnosis.kind) == (cause, kind)


# --- accounts and quotas


def binding(kind: str, role: str) -> Any:
    subject = {"kind": "ServiceAccount", "name": "app", "namespace": "default"}
    return make("RoleBinding", "app", roleRef={"kind": kind, "name": role}, subjects=[subject])


def test_an_account_lists_what_its_roles_grant() -> None:
    role = make("Role", "reader", rules=[
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list"]}
    ])  # fmt: skip
    item = make("ServiceAccount", "app")
    diagnosis = why(item, binding("Role", "reader"), role)
    assert diagnosis.sentences[0] == (
        "The RoleBinding app (Role reader) grants, in the namespace default: get, list"
        " deployments (apps)."
    )


def test_a_binding_to_a_role_that_does_not_exist_is_a_failure() -> None:
    diagnosis = why(make("ServiceAccount", "app"), binding("ClusterRole", "gone"))
    assert (diagnosis.cause, diagnosis.kind) == ("RoleMissing", Kind.FAILURE)


def test_an_account_without_bindings_and_one_that_cannot_be_judged() -> None:
    assert why(make("ServiceAccount", "app")).cause == "NoBinding"
    assert why(make("ServiceAccount", "app"), unread=(Role,)).cause == "AccessUnknown"


def test_a_quota_says_what_is_used_up_and_what_was_refused() -> None:
    hard, used = {"pods": "2", "requests.cpu": "2"}, {"pods": "2", "requests.cpu": "500m"}
    item = make("ResourceQuota", "few", status={"hard": hard, "used": used})
    deployment = target()
    text = 'pods "x" is forbidden: exceeded quota: few, requested: pods=1'
    diagnosis = why(item, event(deployment, "FailedCreate", text))
    assert diagnosis.title == "It is used up: pods. More is refused."
    assert diagnosis.evidence[0].text.endswith(text)
