"""Labels, annotations and names that several packages use (kubelet.md §1, §17, App. C)."""

from __future__ import annotations

import hashlib
from typing import Final

# Annotations on a static pod (kubelet.md §1.3).
CONFIG_HASH: Final = "kubernetes.io/config.hash"
CONFIG_SOURCE: Final = "kubernetes.io/config.source"
CONFIG_SEEN: Final = "kubernetes.io/config.seen"
CONFIG_MIRROR: Final = "kubernetes.io/config.mirror"
# Ours: the absolute path of the manifest that a pod or another object of the folder came from.
MANIFEST_PATH: Final = "podtui.dev/manifest"
# Ours: the manager of the fields that the folder applies.
FOLDER_MANAGER: Final = "podtui-folder"
# Ours, on a rejected pod: ``true`` if it would be admitted now.
WOULD_FIT: Final = "podtui.dev/would-fit"
# Ours, on a rejected pod: the missing resource amounts, as a text for users.
LACKS: Final = "podtui.dev/lacks"
# Ours, on a pod that waits for an image: ``CONTAINER: STATUS CURRENT/TOTAL`` in bytes.
PULL_PROGRESS: Final = "podtui.dev/pull-progress"
# Ours: why the kubelet last stopped each container (`podtui.api.kills`).
KILLS: Final = "podtui.dev/kills"
# Ours, on the node: the folder (or file) of manifests that the agent watches, absolute path.
STATIC_POD_PATH: Final = "podtui.dev/static-pod-path"
# Ours, on the node under pressure: NAMESPACE/NAME of the pod that would be evicted first if static
# pods could be evicted.
WOULD_EVICT: Final = "podtui.dev/would-evict"
# Ours, on the node: ``true`` if the runtime only simulates containers.
SIMULATED: Final = "podtui.dev/simulated"
# Ours, on the node: the features that the engine lacks, as a text for users.
ENGINE_LACKS: Final = "podtui.dev/engine-lacks"

# Ours, on the copy of a node that belongs to a cluster: the URL of the cluster's API server.
CLUSTER: Final = "podtui.dev/cluster"
# Ours, on the copy of a static pod: why the cluster has no mirror pod of it yet.
MIRROR_PROBLEM: Final = "podtui.dev/mirror-problem"
# Ours, conditions of the copy of a node that belongs to a cluster (`podtui.api.cluster`).
CERTIFICATE_EXPIRING: Final = "CertificateExpiring"
CLUSTER_UNAVAILABLE: Final = "ClusterUnavailable"
NODE_REFUSED: Final = "NodeRefused"
LEASE_NOT_RENEWED: Final = "LeaseNotRenewed"

# The reasons of the node's condition Ready while it is False: the kubelet's, and ours while another
# agent's containers have the names of this agent's.
KUBELET_NOT_READY: Final = "KubeletNotReady"
AGENT_CLASH: Final = "AgentClash"

# Ours, for logs: the query parameter that requests markers for missing lines, and the prefix of
# such a marker. The prefix is unambiguous: markers are only requested with time stamps, so that
# every real line begins with one.
LOG_GAPS: Final = "podtuiGaps"
LOG_GAP: Final = "podtui-log-gap "

# Labels on containers and sandboxes, as dockershim wrote them.
POD_NAME: Final = "io.kubernetes.pod.name"
POD_NAMESPACE: Final = "io.kubernetes.pod.namespace"
POD_UID: Final = "io.kubernetes.pod.uid"
CONTAINER_NAME: Final = "io.kubernetes.container.name"
DOCKER_TYPE: Final = "io.kubernetes.docker.type"
DOCKER_TYPE_SANDBOX: Final = "podsandbox"
DOCKER_TYPE_CONTAINER: Final = "container"
SANDBOX_ID: Final = "io.kubernetes.sandbox.id"
# CRI annotations, which become engine labels with this prefix.
ANNOTATION_PREFIX: Final = "annotation."
CONTAINER_HASH: Final = "io.kubernetes.container.hash"
CONTAINER_RESTART_COUNT: Final = "io.kubernetes.container.restartCount"
CONTAINER_TERMINATION_PATH: Final = "io.kubernetes.container.terminationMessagePath"
CONTAINER_TERMINATION_POLICY: Final = "io.kubernetes.container.terminationMessagePolicy"
CONTAINER_IMAGE_REF: Final = "podtui.dev/image-ref"
POD_TERMINATION_GRACE: Final = "io.kubernetes.pod.terminationGracePeriod"
# Ours: identifies the root directory of the agent that owns the container, so that two agents never
# touch each other's containers.
ROOT_LABEL: Final = "podtui.dev/root"


def root_key(root: str) -> str:
    """Return the value of the root label: a short hash of the directory path."""
    return hashlib.sha256(root.encode()).hexdigest()[:12]


# Ours, on sandboxes: the path of the agent's root directory.
ROOT_DIR_LABEL: Final = "podtui.dev/root-dir"

SANDBOX_CONTAINER_NAME: Final = "POD"
COMPONENT: Final = "kubelet"
INGRESS_CLASS: Final = "podtui"
"""The IngressClass that podtui publishes."""
INGRESS_CONTROLLER: Final = "podtui.dev/ingress-controller"
FOREIGN_INGRESS_ANNOTATIONS: Final = (
    "nginx.ingress.kubernetes.io/",
    "nginx.org/",
    "traefik.ingress.kubernetes.io/",
    "haproxy.org/",
    "haproxy-ingress.github.io/",
    "alb.ingress.kubernetes.io/",
    "appgw.ingress.kubernetes.io/",
    "konghq.com/",
    "ingress.kubernetes.io/",
    "ingress.gcp.kubernetes.io/",
    "networking.gke.io/",
)
"""The prefixes of annotations that configure other Ingress controllers."""
INGRESS_CLASS_ANNOTATION: Final = "kubernetes.io/ingress.class"
"""The deprecated annotation that names the class of an Ingress."""
GROUP: Final = "podtui.dev"
GROUP_VERSION: Final = "podtui.dev/v1alpha1"
METRICS_GROUP_VERSION: Final = "metrics.k8s.io/v1beta1"
