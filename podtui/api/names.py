"""Labels, annotations and names that more than one room spells (reference §1, §17, App. C)."""

from __future__ import annotations

from typing import Final

# Annotations on a static pod (reference §1.3).
CONFIG_HASH: Final = "kubernetes.io/config.hash"
CONFIG_SOURCE: Final = "kubernetes.io/config.source"
CONFIG_SEEN: Final = "kubernetes.io/config.seen"
CONFIG_MIRROR: Final = "kubernetes.io/config.mirror"
# Ours: the manifest a pod came from, absolute path.
MANIFEST_PATH: Final = "podtui.dev/manifest"
# Ours, on a rejected pod: ``true`` where it would be admitted by now.
WOULD_FIT: Final = "podtui.dev/would-fit"
# Ours, on a pod that waits for an image: ``CONTAINER: STATUS CURRENT/TOTAL`` in bytes.
PULL_PROGRESS: Final = "podtui.dev/pull-progress"
# Ours: why the kubelet last stopped each container (`podtui.api.kills`).
KILLS: Final = "podtui.dev/kills"
# Ours, on the node: the folder (or file) of manifests that the agent watches, absolute path.
STATIC_POD_PATH: Final = "podtui.dev/static-pod-path"
# Ours, on the node: NAMESPACE/NAME of the pod that it would have to end first while it is under
# pressure, if pods of a folder were ever evicted.
WOULD_EVICT: Final = "podtui.dev/would-evict"

# Ours, of a log: the query parameter that asks where lines are missing, and how a line begins that
# says so. No line of a log begins like that, because only logs with time stamps are asked for it.
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
# Ours: which root directory's agent owns the container, so that two agents never meet.
ROOT_LABEL: Final = "podtui.dev/root"
# Ours, on sandboxes: the path of that root directory.
ROOT_DIR_LABEL: Final = "podtui.dev/root-dir"

SANDBOX_CONTAINER_NAME: Final = "POD"
COMPONENT: Final = "kubelet"
GROUP: Final = "podtui.dev"
GROUP_VERSION: Final = "podtui.dev/v1alpha1"
METRICS_GROUP_VERSION: Final = "metrics.k8s.io/v1beta1"
