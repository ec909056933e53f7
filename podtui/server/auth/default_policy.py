"""The roles and bindings that every cluster has by default (Kubernetes v1.36).

They are those for users, for programs that extend the API, and for the components of a cluster that
may also run here, such as a second scheduler. Those of the controllers in Kubernetes' controller
manager are left out: here they are parts of the agent, which needs no rights.
"""

from __future__ import annotations

from typing import Final

from podtui.api.rbac import (
    AggregationRule,
    ClusterRole,
    ClusterRoleBinding,
    PolicyRule,
    Role,
    RoleBinding,
    RoleRef,
    Subject,
)
from podtui.api.v1 import LabelSelector, ObjectMeta
from podtui.server.auth.rbac import GROUP
from podtui.server.auth.users import (
    AUTHENTICATED,
    MASTERS,
    SERVICE_ACCOUNTS,
    UNAUTHENTICATED,
)

AUTO_UPDATE: Final = "rbac.authorization.kubernetes.io/autoupdate"
_AGGREGATE: Final = "rbac.authorization.k8s.io/aggregate-to-"
_READ: Final = "get list watch"
_WRITE: Final = "create delete deletecollection patch update"
_READ_WRITE: Final = "create delete deletecollection get list patch update watch"


def _meta(name: str, namespace: str = "", part_of: str = "") -> ObjectMeta:
    labels = {"kubernetes.io/bootstrapping": "rbac-defaults"}
    labels |= {f"{_AGGREGATE}{role}": "true" for role in part_of.split()}
    return ObjectMeta(
        name=name, namespace=namespace, labels=labels, annotations={AUTO_UPDATE: "true"}
    )


def _rule(groups: str, resources: str, verbs: str, *, names: str = "") -> PolicyRule:
    """All texts are lists with spaces; ``core`` is the group without a name."""
    return PolicyRule(
        apiGroups=tuple("" if group == "core" else group for group in groups.split()),
        resources=tuple(resources.split()),
        resourceNames=tuple(names.split()),
        verbs=tuple(verbs.split()),
    )


def _urls(urls: str, verbs: str = "get") -> PolicyRule:
    return PolicyRule(nonResourceURLs=tuple(urls.split()), verbs=tuple(verbs.split()))


def _cluster_role(
    name: str, *rules: PolicyRule, part_of: str = "", aggregated: bool = False
) -> ClusterRole:
    """The rules of an ``aggregated`` role are those of the roles that are a part of it."""
    selector = LabelSelector(matchLabels={f"{_AGGREGATE}{name}": "true"})
    return ClusterRole(
        metadata=_meta(name, part_of=part_of),
        rules=rules,
        aggregationRule=AggregationRule(clusterRoleSelectors=(selector,)) if aggregated else None,
    )


def _role_ref(kind: str, name: str) -> RoleRef:
    return RoleRef(apiGroup=GROUP, kind=kind, name=name)


def _cluster_binding(role: str, *subjects: Subject) -> ClusterRoleBinding:
    """Return a binding with the name of its role."""
    return ClusterRoleBinding(
        metadata=_meta(role), roleRef=_role_ref("ClusterRole", role), subjects=subjects
    )


def _binding(name: str, role: str, *subjects: Subject) -> RoleBinding:
    meta = _meta(name, _SYSTEM)
    return RoleBinding(metadata=meta, roleRef=_role_ref("Role", role), subjects=subjects)


def _role(name: str, *rules: PolicyRule) -> Role:
    return Role(metadata=_meta(name, _SYSTEM), rules=rules)


def _user(name: str) -> Subject:
    return Subject(apiGroup=GROUP, kind="User", name=name)


def _group(name: str) -> Subject:
    return Subject(apiGroup=GROUP, kind="Group", name=name)


def _account(name: str) -> Subject:
    return Subject(kind="ServiceAccount", name=name, namespace=_SYSTEM)


_SYSTEM: Final = "kube-system"
_EVENTS: Final = _rule("core events.k8s.io", "events", "create patch update")
CLUSTER_ROLES: Final = (
    _cluster_role(
        "admin",
        aggregated=True,
    ),
    _cluster_role(
        "cluster-admin",
        _rule("*", "*", "*"),
        _urls("*", "*"),
    ),
    _cluster_role(
        "edit",
        part_of="admin",
        aggregated=True,
    ),
    _cluster_role(
        "system:aggregate-to-admin",
        _rule("authorization.k8s.io", "localsubjectaccessreviews", "create"),
        _rule("rbac.authorization.k8s.io", "rolebindings roles", _READ_WRITE),
        part_of="admin",
    ),
    _cluster_role(
        "system:aggregate-to-edit",
        _rule(
            "core",
            "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy",
            _READ,
        ),
        _rule("core", "serviceaccounts", "impersonate"),
        _rule("core", "pods pods/attach pods/exec pods/portforward pods/proxy", _WRITE),
        _rule("core", "pods/eviction", "create"),
        _rule(
            "core",
            "configmaps persistentvolumeclaims replicationcontrollers "
            "replicationcontrollers/scale secrets serviceaccounts services "
            "services/proxy",
            _WRITE,
        ),
        _rule("core", "serviceaccounts/token", "create"),
        _rule("core events.k8s.io", "events", _WRITE),
        _rule(
            "apps",
            "daemonsets deployments deployments/rollback deployments/scale "
            "replicasets replicasets/scale statefulsets statefulsets/scale",
            _WRITE,
        ),
        _rule("autoscaling", "horizontalpodautoscalers", _WRITE),
        _rule("batch", "cronjobs jobs", _WRITE),
        _rule(
            "extensions",
            "daemonsets deployments deployments/rollback deployments/scale ingresses "
            "networkpolicies replicasets replicasets/scale "
            "replicationcontrollers/scale",
            _WRITE,
        ),
        _rule("policy", "poddisruptionbudgets", _WRITE),
        _rule("networking.k8s.io", "ingresses networkpolicies", _WRITE),
        _rule("coordination.k8s.io", "leases", _READ_WRITE),
        _rule("resource.k8s.io", "resourceclaims resourceclaimtemplates", _WRITE),
        part_of="edit",
    ),
    _cluster_role(
        "system:aggregate-to-view",
        _rule(
            "core",
            "configmaps endpoints persistentvolumeclaims "
            "persistentvolumeclaims/status pods replicationcontrollers "
            "replicationcontrollers/scale serviceaccounts services services/status",
            _READ,
        ),
        _rule(
            "core",
            "bindings limitranges namespaces/status pods/log pods/status "
            "replicationcontrollers/status resourcequotas resourcequotas/status",
            _READ,
        ),
        _rule("core", "namespaces", _READ),
        _rule("core events.k8s.io", "events", _READ),
        _rule("discovery.k8s.io", "endpointslices", _READ),
        _rule(
            "apps",
            "controllerrevisions daemonsets daemonsets/status deployments "
            "deployments/scale deployments/status replicasets replicasets/scale "
            "replicasets/status statefulsets statefulsets/scale statefulsets/status",
            _READ,
        ),
        _rule("autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status", _READ),
        _rule("batch", "cronjobs cronjobs/status jobs jobs/status", _READ),
        _rule(
            "extensions",
            "daemonsets daemonsets/status deployments deployments/scale "
            "deployments/status ingresses ingresses/status networkpolicies "
            "replicasets replicasets/scale replicasets/status "
            "replicationcontrollers/scale",
            _READ,
        ),
        _rule("policy", "poddisruptionbudgets poddisruptionbudgets/status", _READ),
        _rule("networking.k8s.io", "ingresses ingresses/status networkpolicies", _READ),
        _rule(
            "resource.k8s.io", "resourceclaims resourceclaims/status resourceclaimtemplates", _READ
        ),
        part_of="view",
    ),
    _cluster_role(
        "system:auth-delegator",
        _rule("authentication.k8s.io", "tokenreviews", "create"),
        _rule("authorization.k8s.io", "subjectaccessreviews", "create"),
    ),
    _cluster_role(
        "system:basic-user",
        _rule("authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews", "create"),
        _rule("authentication.k8s.io", "selfsubjectreviews", "create"),
    ),
    _cluster_role(
        "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
        _rule("certificates.k8s.io", "certificatesigningrequests/nodeclient", "create"),
    ),
    _cluster_role(
        "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
        _rule("certificates.k8s.io", "certificatesigningrequests/selfnodeclient", "create"),
    ),
    _cluster_role(
        "system:certificates.k8s.io:kube-apiserver-client-approver",
        _rule(
            "certificates.k8s.io", "signers", "approve", names="kubernetes.io/kube-apiserver-client"
        ),
    ),
    _cluster_role(
        "system:certificates.k8s.io:kube-apiserver-client-kubelet-approver",
        _rule(
            "certificates.k8s.io",
            "signers",
            "approve",
            names="kubernetes.io/kube-apiserver-client-kubelet",
        ),
    ),
    _cluster_role(
        "system:certificates.k8s.io:kubelet-serving-approver",
        _rule("certificates.k8s.io", "signers", "approve", names="kubernetes.io/kubelet-serving"),
    ),
    _cluster_role(
        "system:certificates.k8s.io:legacy-unknown-approver",
        _rule("certificates.k8s.io", "signers", "approve", names="kubernetes.io/legacy-unknown"),
    ),
    _cluster_role(
        "system:discovery",
        _urls(
            "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz "
            "/version /version/"
        ),
    ),
    _cluster_role(
        "system:heapster",
        _rule("core", "events namespaces nodes pods", _READ),
        _rule("extensions", "deployments", _READ),
    ),
    _cluster_role(
        "system:kube-aggregator",
        _rule("core", "endpoints services", _READ),
    ),
    _cluster_role(
        "system:kube-controller-manager",
        _EVENTS,
        _rule("coordination.k8s.io", "leases", "create"),
        _rule("coordination.k8s.io", "leases", "get update", names="kube-controller-manager"),
        _rule("core", "secrets serviceaccounts", "create"),
        _rule("core", "secrets", "delete"),
        _rule("core", "configmaps namespaces secrets serviceaccounts", "get"),
        _rule("core", "secrets serviceaccounts", "update"),
        _rule("authentication.k8s.io", "tokenreviews", "create"),
        _rule("authorization.k8s.io", "subjectaccessreviews", "create"),
        _rule("*", "*", "list watch"),
        _rule("core", "serviceaccounts/token", "create"),
    ),
    _cluster_role(
        "system:kube-dns",
        _rule("core", "endpoints services", "list watch"),
    ),
    _cluster_role(
        "system:kube-scheduler",
        _EVENTS,
        _rule("coordination.k8s.io", "leases", "create"),
        _rule("coordination.k8s.io", "leases", "get list update watch", names="kube-scheduler"),
        _rule("coordination.k8s.io", "leasecandidates", _READ_WRITE),
        _rule("core", "nodes", _READ),
        _rule("core", "pods", "delete get list watch"),
        _rule("core", "bindings pods/binding", "create"),
        _rule("core", "pods/status", "patch update"),
        _rule("core", "replicationcontrollers services", _READ),
        _rule("apps extensions", "replicasets", _READ),
        _rule("apps", "statefulsets", _READ),
        _rule("policy", "poddisruptionbudgets", _READ),
        _rule("core", "persistentvolumeclaims persistentvolumes", _READ),
        _rule("authentication.k8s.io", "tokenreviews", "create"),
        _rule("authorization.k8s.io", "subjectaccessreviews", "create"),
        _rule("storage.k8s.io", "csinodes", _READ),
        _rule("storage.k8s.io", "volumeattachments", _READ),
        _rule("core", "namespaces", _READ),
        _rule("storage.k8s.io", "csidrivers", _READ),
        _rule("storage.k8s.io", "csistoragecapacities", _READ),
        _rule("resource.k8s.io", "deviceclasses", _READ),
        _rule("resource.k8s.io", "resourceclaims", "get list patch update watch"),
        _rule("resource.k8s.io", "resourceclaims/status", "get list patch update watch"),
        _rule("core", "pods/finalizers", "update"),
        _rule("resource.k8s.io", "resourceslices", _READ),
        _rule("resource.k8s.io", "resourceclaims", "create delete"),
        _rule("resource.k8s.io", "resourceclaims/binding", "patch update"),
    ),
    _cluster_role(
        "system:kubelet-api-admin",
        _rule("core", "nodes", _READ),
        _rule("core", "nodes", "proxy"),
        _rule("core", "nodes/log nodes/metrics nodes/proxy nodes/stats", "*"),
        _rule("core", "nodes/configz nodes/healthz nodes/pods", "*"),
    ),
    _cluster_role(
        "system:monitoring",
        _urls(
            "/flagz /healthz /healthz/* /livez /livez/* /metrics /metrics/slis "
            "/readyz /readyz/* /statusz"
        ),
        _rule("core", "nodes/metrics", "get"),
    ),
    _cluster_role(
        "system:node",
        _rule("authentication.k8s.io", "tokenreviews", "create"),
        _rule("authorization.k8s.io", "localsubjectaccessreviews subjectaccessreviews", "create"),
        _rule("core", "services", _READ),
        _rule("core", "nodes", "create get list watch"),
        _rule("core", "nodes/status", "patch update"),
        _rule("core", "nodes", "patch update"),
        _EVENTS,
        _rule("core", "pods", _READ),
        _rule("core", "pods", "create delete"),
        _rule("core", "pods/status", "patch update"),
        _rule("core", "pods/eviction", "create"),
        _rule("core", "configmaps secrets", _READ),
        _rule("core", "persistentvolumeclaims persistentvolumes", "get"),
        _rule("core", "endpoints", "get"),
        _rule("certificates.k8s.io", "certificatesigningrequests", "create get list watch"),
        _rule("coordination.k8s.io", "leases", "create delete get patch update"),
        _rule("storage.k8s.io", "volumeattachments", "get"),
        _rule("core", "serviceaccounts/token", "create"),
        _rule("core", "persistentvolumeclaims/status", "get patch update"),
        _rule("storage.k8s.io", "csidrivers", _READ),
        _rule("storage.k8s.io", "csinodes", "create delete get patch update"),
        _rule("node.k8s.io", "runtimeclasses", _READ),
        _rule("resource.k8s.io", "resourceclaims", "get"),
        _rule("resource.k8s.io", "resourceslices", "deletecollection"),
        _rule("core", "serviceaccounts", "get"),
    ),
    _cluster_role(
        "system:node-bootstrapper",
        _rule("certificates.k8s.io", "certificatesigningrequests", "create get list watch"),
    ),
    _cluster_role(
        "system:node-problem-detector",
        _rule("core", "nodes", "get"),
        _rule("core", "nodes/status", "patch"),
        _EVENTS,
    ),
    _cluster_role(
        "system:node-proxier",
        _rule("core", "endpoints services", "list watch"),
        _rule("core", "nodes", _READ),
        _EVENTS,
        _rule("networking.k8s.io", "servicecidrs", "list watch"),
        _rule("discovery.k8s.io", "endpointslices", "list watch"),
    ),
    _cluster_role(
        "system:persistent-volume-provisioner",
        _rule("core", "persistentvolumes", "create delete get list watch"),
        _rule("core", "persistentvolumeclaims", "get list update watch"),
        _rule("storage.k8s.io", "storageclasses", _READ),
        _rule("core", "events", "watch"),
        _EVENTS,
    ),
    _cluster_role(
        "system:public-info-viewer",
        _urls("/healthz /livez /readyz /version /version/"),
    ),
    _cluster_role(
        "system:service-account-issuer-discovery",
        _urls(
            "/.well-known/openid-configuration /.well-known/openid-configuration/ "
            "/openid/v1/jwks /openid/v1/jwks/"
        ),
    ),
    _cluster_role(
        "system:volume-scheduler",
        _rule("core", "persistentvolumes", "get list patch update watch"),
        _rule("storage.k8s.io", "storageclasses", _READ),
        _rule("core", "persistentvolumeclaims", "get list patch update watch"),
    ),
    _cluster_role(
        "view",
        part_of="edit",
        aggregated=True,
    ),
    # Installed with a metrics server, whose API podtui serves.
    _cluster_role(
        "system:aggregated-metrics-reader",
        _rule("metrics.k8s.io", "pods nodes", _READ),
        part_of="admin edit view",
    ),
)
CLUSTER_ROLE_BINDINGS: Final = (
    _cluster_binding("cluster-admin", _group(MASTERS)),
    _cluster_binding("system:basic-user", _group(AUTHENTICATED)),
    _cluster_binding("system:discovery", _group(AUTHENTICATED)),
    _cluster_binding("system:kube-controller-manager", _user("system:kube-controller-manager")),
    _cluster_binding("system:kube-dns", _account("kube-dns")),
    _cluster_binding("system:kube-scheduler", _user("system:kube-scheduler")),
    _cluster_binding("system:monitoring", _group("system:monitoring")),
    _cluster_binding("system:node"),
    _cluster_binding("system:node-proxier", _user("system:kube-proxy")),
    _cluster_binding("system:public-info-viewer", _group(AUTHENTICATED), _group(UNAUTHENTICATED)),
    _cluster_binding("system:service-account-issuer-discovery", _group(SERVICE_ACCOUNTS)),
    _cluster_binding("system:volume-scheduler", _user("system:kube-scheduler")),
)
_LEASES: Final = (
    _rule("coordination.k8s.io", "leases", "create get list update watch"),
    _rule("coordination.k8s.io", "leasecandidates", "create get list update watch"),
)
_AUTHENTICATION: Final = "extension-apiserver-authentication"
ROLES: Final = (
    _role(
        f"{_AUTHENTICATION}-reader",
        _rule("core", "configmaps", _READ, names=_AUTHENTICATION),
    ),
    _role("system::leader-locking-kube-controller-manager", *_LEASES),
    _role("system::leader-locking-kube-scheduler", *_LEASES),
)
ROLE_BINDINGS: Final = (
    _binding(
        f"system::{_AUTHENTICATION}-reader",
        f"{_AUTHENTICATION}-reader",
        _user("system:kube-controller-manager"),
        _user("system:kube-scheduler"),
    ),
    _binding(
        "system::leader-locking-kube-controller-manager",
        "system::leader-locking-kube-controller-manager",
        _user("system:kube-controller-manager"),
        _account("kube-controller-manager"),
        _account("leader-election-controller"),
    ),
    _binding(
        "system::leader-locking-kube-scheduler",
        "system::leader-locking-kube-scheduler",
        _user("system:kube-scheduler"),
        _account("kube-scheduler"),
    ),
)
"""All in the namespace ``kube-system``."""
