from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
import settings_docs
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import fields

from podtui.settings import (
    EVICTION_HARD,
    Settings,
    SettingsError,
    environment_name,
    parse_duration,
    resolve,
    values,
)
from podtui.settings.values import simulated_engine

BY_PRIORITY = "shutdownGracePeriodByPodPriority: [{priority: 1, shutdownGracePeriodSeconds: 2}]"
NO_FLAGS: dict[str, str | None] = {}
DEFAULTS = {field.name: field.default for field in fields(Settings)}


def environ(tmp_path: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config"), **more}


def write_config(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    return path


def test_flag_beats_environment_beats_file_beats_default(tmp_path: Path) -> None:
    config = write_config(tmp_path, "maxPods: 1\nnodeName: from-file\nsyncFrequency: 1m30s\n")
    resolved = resolve(
        {"nodeName": "from-flag"},
        environ(tmp_path, PODTUI_MAX_PODS="2", PODTUI_NODE_NAME="from-environment"),
        config=config,
        working=tmp_path,
    )
    settings = resolved.settings
    assert (settings.nodeName, settings.maxPods, settings.syncFrequency) == ("from-flag", 2, 90.0)
    assert resolved.origins["nodeName"] == "command line"
    assert resolved.origins["maxPods"] == "PODTUI_MAX_PODS"
    assert resolved.origins["syncFrequency"] == f"{config}:3:1"
    assert resolved.origins["engine"] == "default"


def test_a_kubelet_configuration_file_works(tmp_path: Path) -> None:
    config = write_config(
        tmp_path,
        "apiVersion: kubelet.config.k8s.io/v1beta1\n"
        "kind: KubeletConfiguration\n"
        "staticPodPath: /etc/kubernetes/manifests\n"
        "crashLoopBackOff:\n  maxContainerRestartPeriod: 2s\n"
        "systemReserved: {cpu: 100m, memory: 1Gi}\n"
        "evictionHard:\n  memory.available: 200Mi\n"
        "clusterDNS: [10.96.0.10]\n"
        "featureGates: {ContainerStopSignals: true}\n"
        "containerLogMaxSize: 5Mi\n"
        "evictionSoft: {memory.available: 300Mi}\n"
        "evictionSoftGracePeriod: {memory.available: 1m30s}\n"
        "shutdownGracePeriodByPodPriority:\n"
        "- {priority: 100, shutdownGracePeriodSeconds: 10}\n"
        "- {priority: 0, shutdownGracePeriodSeconds: 20}\n"
        "cgroupDriver: systemd\n",
    )
    resolved = resolve(NO_FLAGS, environ(tmp_path), config=config, working=tmp_path)
    settings = resolved.settings
    assert settings.staticPodPath == Path("/etc/kubernetes/manifests")
    assert settings.maxContainerRestartPeriod == 2.0
    assert settings.systemReserved == {"cpu": "100m", "memory": "1Gi"}
    assert settings.evictionHard == {"memory.available": "200Mi"}
    assert [line.rsplit(" ")[-1] for line in resolved.ignored] == [
        "apiVersion",
        "kind",
        "cgroupDriver",
    ]
    assert settings.clusterDNS == ("10.96.0.10",)
    assert settings.featureGates == {"ContainerStopSignals": True}
    assert settings.containerLogMaxSize == 5 * 1024 * 1024
    assert settings.evictionSoftGracePeriod == {"memory.available": 90.0}
    assert settings.shutdownGracePeriodByPodPriority == ((0, 20), (100, 10))


def test_a_file_that_kubeadm_wrote(tmp_path: Path) -> None:
    config = tmp_path / "kubelet.yaml"
    config.write_text(
        "apiVersion: kubelet.config.k8s.io/v1beta1\n"
        "kind: KubeletConfiguration\n"
        "address: 127.0.0.2\n"
        "port: 10260\n"
        "authentication:\n"
        "  anonymous: {enabled: false}\n"
        "  webhook: {cacheTTL: 0s, enabled: true}\n"
        "  x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}\n"
        "authorization:\n"
        "  mode: Webhook\n"
        "  webhook: {cacheAuthorizedTTL: 0s, cacheUnauthorizedTTL: 1m}\n"
        "tlsCertFile: ''\n"
        "cgroupDriver: systemd\n"
        "clusterDNS: [10.96.0.10]\n"
        "clusterDomain: cluster.local\n"
        "containerRuntimeEndpoint: ''\n"
        "cpuManagerReconcilePeriod: 0s\n"
        "crashLoopBackOff: {}\n"
        "evictionPressureTransitionPeriod: 0s\n"
        "fileCheckFrequency: 0s\n"
        "healthzBindAddress: 127.0.0.1\n"
        "healthzPort: 10248\n"
        "httpCheckFrequency: 0s\n"
        "imageMaximumGCAge: 0s\n"
        "imageMinimumGCAge: 0s\n"
        "logging: {flushFrequency: 0, options: {text: {infoBufferSize: '0'}}, verbosity: 0}\n"
        "memorySwap: {}\n"
        "nodeStatusReportFrequency: 0s\n"
        "nodeStatusUpdateFrequency: 0s\n"
        "rotateCertificates: true\n"
        "runtimeRequestTimeout: 0s\n"
        "shutdownGracePeriod: 0s\n"
        "shutdownGracePeriodCriticalPods: 0s\n"
        "staticPodPath: /etc/kubernetes/manifests\n"
        "streamingConnectionIdleTimeout: 0s\n"
        "syncFrequency: 0s\n"
        "volumeStatsAggPeriod: 0s\n"
    )
    resolved = resolve(NO_FLAGS, environ(tmp_path), config=config, working=tmp_path)
    settings = resolved.settings
    assert (settings.kubeletAddress, settings.kubeletPort) == ("127.0.0.2", 10260)
    assert settings.clientCAFile == Path("/etc/kubernetes/pki/ca.crt")
    assert settings.tlsCertFile is None
    # Zero means the default.
    for key in (
        "cpuManagerReconcilePeriod",
        "evictionPressureTransitionPeriod",
        "fileCheckFrequency",
        "imageMinimumGCAge",
        "syncFrequency",
    ):
        assert getattr(settings, key) == DEFAULTS[key] > 0, key
    assert settings.authenticationTokenWebhookCacheTTL == 120.0
    assert settings.authorizationWebhookCacheAuthorizedTTL == 300.0
    assert settings.authorizationWebhookCacheUnauthorizedTTL == 60.0
    assert "cgroupDriver" in {line.rsplit(" ")[-1] for line in resolved.ignored}
    config.write_text(
        "authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}\n"
        "authorization: {mode: AlwaysAllow}\n"
    )
    settings = resolve(NO_FLAGS, environ(tmp_path), config=config, working=tmp_path).settings
    assert settings.anonymousAuth
    assert not settings.authenticationTokenWebhook
    assert settings.authorizationMode == "AlwaysAllow"
    config.write_text("authorization: {mode: Never}\n")
    with pytest.raises(SettingsError, match="must be one of Webhook, AlwaysAllow"):
        resolve(NO_FLAGS, environ(tmp_path), config=config, working=tmp_path)


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("maxPod: 3\n", ":1:1", "did you mean maxPods?"),
        ("nodeName: x\nmaxPods: many\n", ":2:1", "must be an integer"),
        ("maxPods: -1\n", ":1:1", "must be an integer"),
        ("syncFrequency: soon\n", ":1:1", "not a duration"),
        ("a: [\n", ":2:1", ""),
        ("- a\n", ":1:1", "must be a map"),
        ("kubeletStrict: perhaps\n", ":1:1", "true or false"),
        ("staticPodPath: ~nosuchuser/pods\n", ":1:1", "home directory of an unknown user"),
        ("featureGates: {EnvFiles: perhaps}\n", ":1:1", "true or false"),
        ("imageGCHighThresholdPercent: 101\n", ":1:1", "from 0 to 100"),
        ("simulatedEngine: {cpus: 4}\n", ":1:1", "cpus is unknown: there are cpu, memory"),
        ("simulatedEngine: {user: nobody}\n", ":1:1", "user must be a UID"),
        ("simulatedEngine: {memory: much}\n", ":1:1", "memory must be an amount such as 10Mi"),
        ("containerLogMaxSize: large\n", ":1:1", "an amount such as"),
        ("shutdownGracePeriodByPodPriority: [{priority: 1}]\n", ":1:1", "must be a list of"),
        ("maxContainerRestartPeriod: 10m\n", ":1:1", "between 1s and 300s"),
        ("cpuCFSQuotaPeriod: 2s\n", ":1:1", "between 1ms and 1s"),
        ("containerLogMaxFiles: 1\n", ":1:1", "greater than 1"),
        ("evictionHard: {memory.free: 1Gi}\n", ":1:1", "unsupported eviction signal memory.free"),
        (
            "maxPods: 9\nevictionSoft: {memory.available: 1Gi}\n",
            ":2:1",
            "grace period must be specified for the soft eviction threshold memory.available",
        ),
        ("evictionMaxPodGracePeriod: -1\n", ":1:1", "must not be negative"),
        ("imageGCLowThresholdPercent: 90\n", ":1:1", "less than imageGCHighThresholdPercent 85"),
        ("imageMaximumGCAge: 1m\n", ":1:1", "greater than imageMinimumGCAge"),
        ("maxParallelImagePulls: 2\n", ":1:1", "unless serializeImagePulls is set to false"),
        ("registryPullQPS: -1\n", ":1:1", "negative"),
        ("bootstrapKubeconfig: /b\n", ":1:1", "requires nodeKubeconfig"),
        ("shutdownGracePeriod: 500ms\n", ":1:1", ">= 1 sec"),
        ("shutdownGracePeriodCriticalPods: 5s\n", ":1:1", "must be <= shutdownGracePeriod"),
        (
            f"shutdownGracePeriod: 5s\n{BY_PRIORITY}\n",
            ":2:1",
            "combined with shutdownGracePeriod",
        ),
    ],
)
def test_an_invalid_file_reports_file_line_and_key(
    tmp_path: Path, text: str, place: str, words: str
) -> None:
    config = write_config(tmp_path, text)
    with pytest.raises(SettingsError) as caught:
        resolve(NO_FLAGS, environ(tmp_path), config=config, working=tmp_path)
    assert str(caught.value).startswith(f"{config}{place}: ")
    assert words in str(caught.value)


def test_hard_thresholds_are_replaced_or_merged(tmp_path: Path) -> None:
    text = "evictionHard: {memory.available: 1Gi}\n"
    given = {"memory.available": "1Gi"}
    config = write_config(tmp_path, text)
    settings = resolve(NO_FLAGS, environ(tmp_path), config=config, working=tmp_path).settings
    assert settings.evictionHard == given
    config = write_config(tmp_path, text + "mergeDefaultEvictionSettings: true\n")
    settings = resolve(NO_FLAGS, environ(tmp_path), config=config, working=tmp_path).settings
    assert settings.evictionHard == {**EVICTION_HARD, **given}


def test_the_table_in_the_documentation_is_that_of_the_declarations() -> None:
    text = settings_docs.TARGET.read_text()
    assert settings_docs.with_table(text) == text
    assert settings_docs.table() in text


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no such configuration file"):
        resolve(NO_FLAGS, environ(tmp_path), config=tmp_path / "none.yaml")


def test_the_default_folder_is_in_the_working_or_home_directory(tmp_path: Path) -> None:
    user = resolve(NO_FLAGS, environ(tmp_path), working=tmp_path).settings
    assert user.staticPodPath == tmp_path / "config" / "podtui" / "static_pods"
    (tmp_path / "static_pods").mkdir()
    here = resolve(NO_FLAGS, environ(tmp_path), working=tmp_path).settings
    assert here.staticPodPath == tmp_path / "static_pods"


@pytest.mark.parametrize(
    ("text", "seconds"), [("20s", 20), ("1m30s", 90), ("1.5h", 5400), ("250ms", 0.25), ("0", 0)]
)
def test_durations_have_gos_format(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@given(st.text(max_size=8))
def test_a_duration_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert parse_duration(text) >= 0


def test_the_simulated_engine_has_options() -> None:
    given = simulated_engine("cpu=64,memory=1Ti,completion=yes")
    assert given == {"cpu": "64", "memory": "1Ti", "completion": "true"}
    assert simulated_engine({"completion": False}) == {"completion": "false"}


def test_environment_names() -> None:
    assert environment_name("maxPods") == "PODTUI_MAX_PODS"
    assert environment_name("staticPodPath") == "PODTUI_STATIC_POD_PATH"
    assert environment_name("cpuCFSQuotaPeriod") == "PODTUI_CPU_CFS_QUOTA_PERIOD"


def test_taints_are_read_from_a_flag_or_a_list() -> None:
    parsed = (("dedicated", "web", "NoSchedule"), ("new", "", "NoExecute"))
    assert values.taints("dedicated=web:NoSchedule,new:NoExecute") == parsed
    listed = [
        {"key": "dedicated", "value": "web", "effect": "NoSchedule"},
        {"key": "new", "effect": "NoExecute"},
    ]
    assert values.taints(listed) == parsed
    assert values.taints("") == ()
    for wrong in ("dedicated=web", "=web:NoSchedule", "a:Never", 3, ["a"]):
        with pytest.raises(ValueError, match="taints"):
            values.taints(wrong)
