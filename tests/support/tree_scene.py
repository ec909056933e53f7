"""A pod with one of each item that the tree shows."""

from __future__ import annotations

import msgspec
from tui_scene import ended, pod, status

from podtui.api.v1 import (
    ConfigMapEnvSource,
    ConfigMapKeySelector,
    ConfigMapVolumeSource,
    Container,
    ContainerPort,
    EmptyDirVolumeSource,
    EnvFromSource,
    EnvVar,
    EnvVarSource,
    HTTPGetAction,
    Pod,
    Probe,
    SecretKeySelector,
    SecretVolumeSource,
    Volume,
    VolumeMount,
)


def rich(name: str = "shop", uid: str = "uid-shop") -> Pod:
    """Return a pod with two init containers, one of them a sidecar, and an app with all kinds of
    items.
    """
    base = pod(name, status("app"), init=(status("fetch", ended(0)), status("proxy")), uid=uid)
    app = Container(
        name="app",
        image="shop:2",
        ports=(
            ContainerPort(name="http", containerPort=8080, hostPort=80, protocol="TCP"),
            ContainerPort(containerPort=9090, protocol="TCP"),
        ),
        volumeMounts=(
            VolumeMount(name="data", mountPath="/data"),
            VolumeMount(name="keys", mountPath="/keys", readOnly=True),
            VolumeMount(name="conf", mountPath="/conf", subPath="sub"),
        ),
        envFrom=(EnvFromSource(configMapRef=ConfigMapEnvSource(name="all-of-it")),),
        env=(
            EnvVar(name="PASSWORD", value="hunter2"),
            EnvVar(
                name="TOKEN",
                valueFrom=EnvVarSource(secretKeyRef=SecretKeySelector(name="login", key="token")),
            ),
            EnvVar(
                name="GREETING",
                valueFrom=EnvVarSource(
                    configMapKeyRef=ConfigMapKeySelector(name="words", key="hello")
                ),
            ),
        ),
        livenessProbe=Probe(httpGet=HTTPGetAction(port="http", path="/healthz")),
    )
    spec = msgspec.structs.replace(
        base.spec,
        initContainers=(
            Container(name="fetch", image="fetch:1"),
            Container(name="proxy", image="proxy:1", restartPolicy="Always"),
        ),
        containers=(app,),
        volumes=(
            Volume(name="data", emptyDir=EmptyDirVolumeSource(medium="Memory", sizeLimit="1Gi")),
            Volume(name="keys", secret=SecretVolumeSource(secretName="login")),
            Volume(name="conf", configMap=ConfigMapVolumeSource(name="words")),
        ),
    )
    return msgspec.structs.replace(base, spec=spec)
