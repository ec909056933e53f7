"""The difference of two specs, as the API server prints it when an update may not change a field.

The API server prints its internal types: all fields in the order of their Go declaration, as
indented JSON, and the difference of the two texts.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from typing import Any, Final, cast

from msgspec import structs

from podtui.api import v1
from podtui.api.shape import Form, fields

# The fields by internal type. ``*``: null if it is not set. ``<``: the fields of that type, in
# their place.
_FIELDS: Final[Mapping[str, str]] = {
    "HostPathVolumeSource": "Path Type",
    "EmptyDirVolumeSource": "Medium SizeLimit*",
    "GCEPersistentDiskVolumeSource": "PDName FSType Partition ReadOnly",
    "AWSElasticBlockStoreVolumeSource": "VolumeID FSType Partition ReadOnly",
    "GitRepoVolumeSource": "Repository Revision Directory",
    "KeyToPath": "Key Path Mode*",
    "SecretVolumeSource": "SecretName Items* DefaultMode* Optional*",
    "NFSVolumeSource": "Server Path ReadOnly",
    "LocalObjectReference": "Name",
    "ISCSIVolumeSource": (
        "TargetPortal IQN Lun ISCSIInterface FSType ReadOnly Portals* DiscoveryCHAPAuth "
        "SessionCHAPAuth SecretRef* InitiatorName*"
    ),
    "GlusterfsVolumeSource": "EndpointsName Path ReadOnly",
    "PersistentVolumeClaimVolumeSource": "ClaimName ReadOnly",
    "RBDVolumeSource": (
        "CephMonitors* RBDImage FSType RBDPool RadosUser Keyring SecretRef* ReadOnly"
    ),
    "QuobyteVolumeSource": "Registry Volume ReadOnly User Group Tenant",
    "FlexVolumeSource": "Driver FSType SecretRef* ReadOnly Options*",
    "CinderVolumeSource": "VolumeID FSType ReadOnly SecretRef*",
    "CephFSVolumeSource": "Monitors* Path User SecretFile SecretRef* ReadOnly",
    "FlockerVolumeSource": "DatasetName DatasetUUID",
    "ObjectFieldSelector": "APIVersion FieldPath",
    "ResourceFieldSelector": "ContainerName Resource Divisor",
    "DownwardAPIVolumeFile": "Path FieldRef* ResourceFieldRef* Mode*",
    "DownwardAPIVolumeSource": "Items* DefaultMode*",
    "FCVolumeSource": "TargetWWNs* Lun* FSType ReadOnly WWIDs*",
    "AzureFileVolumeSource": "SecretName ShareName ReadOnly",
    "ConfigMapVolumeSource": "<LocalObjectReference Items* DefaultMode* Optional*",
    "VsphereVirtualDiskVolumeSource": "VolumePath FSType StoragePolicyName StoragePolicyID",
    "AzureDiskVolumeSource": "DiskName DataDiskURI CachingMode* FSType* ReadOnly* Kind*",
    "PhotonPersistentDiskVolumeSource": "PdID FSType",
    "SecretProjection": "<LocalObjectReference Items* Optional*",
    "DownwardAPIProjection": "Items*",
    "ConfigMapProjection": "<LocalObjectReference Items* Optional*",
    "ServiceAccountTokenProjection": "Audience ExpirationSeconds Path",
    "ClusterTrustBundleProjection": "Name* SignerName* LabelSelector* Optional* Path",
    "PodCertificateProjection": (
        "SignerName KeyType MaxExpirationSeconds* CredentialBundlePath KeyPath "
        "CertificateChainPath UserAnnotations*"
    ),
    "VolumeProjection": (
        "Secret* DownwardAPI* ConfigMap* ServiceAccountToken* ClusterTrustBundle* PodCertificate*"
    ),
    "ProjectedVolumeSource": "Sources* DefaultMode*",
    "PortworxVolumeSource": "VolumeID FSType ReadOnly",
    "ScaleIOVolumeSource": (
        "Gateway System SecretRef* SSLEnabled ProtectionDomain StoragePool StorageMode "
        "VolumeName FSType ReadOnly"
    ),
    "StorageOSVolumeSource": "VolumeName VolumeNamespace FSType ReadOnly SecretRef*",
    "CSIVolumeSource": "Driver ReadOnly* FSType* VolumeAttributes* NodePublishSecretRef*",
    "VolumeResourceRequirements": "Limits* Requests*",
    "TypedLocalObjectReference": "APIGroup* Kind Name",
    "TypedObjectReference": "APIGroup* Kind Name Namespace*",
    "PersistentVolumeClaimSpec": (
        "AccessModes* Selector* Resources VolumeName StorageClassName* VolumeMode* "
        "DataSource* DataSourceRef* VolumeAttributesClassName*"
    ),
    "LocalVolumeSource": "Path FSType*",
    # Without the fields that are not sources: only the sources are compared.
    "PersistentVolumeSpec": (
        "GCEPersistentDisk* AWSElasticBlockStore* HostPath* Glusterfs* NFS* RBD* Quobyte* ISCSI* "
        "FlexVolume* Cinder* CephFS* FC* Flocker* AzureFile* VsphereVolume* AzureDisk* "
        "PhotonPersistentDisk* PortworxVolume* ScaleIO* Local* StorageOS* CSI*"
    ),
    "EphemeralVolumeSource": "VolumeClaimTemplate*",
    "ImageVolumeSource": "Reference PullPolicy",
    "VolumeSource": (
        "HostPath* EmptyDir* GCEPersistentDisk* AWSElasticBlockStore* GitRepo* Secret* NFS* "
        "ISCSI* Glusterfs* PersistentVolumeClaim* RBD* Quobyte* FlexVolume* Cinder* CephFS* "
        "Flocker* DownwardAPI* FC* AzureFile* ConfigMap* VsphereVolume* AzureDisk* "
        "PhotonPersistentDisk* Projected* PortworxVolume* ScaleIO* StorageOS* CSI* Ephemeral* "
        "Image*"
    ),
    "Volume": "Name <VolumeSource",
    "ContainerPort": "Name HostPort ContainerPort Protocol HostIP",
    "ConfigMapEnvSource": "<LocalObjectReference Optional*",
    "SecretEnvSource": "<LocalObjectReference Optional*",
    "EnvFromSource": "Prefix ConfigMapRef* SecretRef*",
    "ConfigMapKeySelector": "<LocalObjectReference Key Optional*",
    "SecretKeySelector": "<LocalObjectReference Key Optional*",
    "FileKeySelector": "VolumeName Path Key Optional*",
    "EnvVarSource": "FieldRef* ResourceFieldRef* ConfigMapKeyRef* SecretKeyRef* FileKeyRef*",
    "EnvVar": "Name Value ValueFrom*",
    "ResourceClaim": "Name Request",
    "ResourceRequirements": "Limits* Requests* Claims*",
    "ContainerResizePolicy": "ResourceName RestartPolicy",
    "ContainerRestartRuleOnExitCodes": "Operator Values*",
    "ContainerRestartRule": "Action ExitCodes*",
    "VolumeMount": (
        "Name ReadOnly RecursiveReadOnly* MountPath SubPath MountPropagation* SubPathExpr"
    ),
    "VolumeDevice": "Name DevicePath",
    "ExecAction": "Command*",
    "HTTPHeader": "Name Value",
    "HTTPGetAction": "Path Port Host Scheme HTTPHeaders*",
    "TCPSocketAction": "Port Host",
    "GRPCAction": "Port Service*",
    "ProbeHandler": "Exec* HTTPGet* TCPSocket* GRPC*",
    "Probe": (
        "<ProbeHandler InitialDelaySeconds TimeoutSeconds PeriodSeconds SuccessThreshold "
        "FailureThreshold TerminationGracePeriodSeconds*"
    ),
    "SleepAction": "Seconds",
    "LifecycleHandler": "Exec* HTTPGet* TCPSocket* Sleep*",
    "Lifecycle": "PostStart* PreStop* StopSignal*",
    "Capabilities": "Add* Drop*",
    "SELinuxOptions": "User Role Type Level",
    "WindowsSecurityContextOptions": (
        "GMSACredentialSpecName* GMSACredentialSpec* RunAsUserName* HostProcess*"
    ),
    "SeccompProfile": "Type LocalhostProfile*",
    "AppArmorProfile": "Type LocalhostProfile*",
    "SecurityContext": (
        "Capabilities* Privileged* SELinuxOptions* WindowsOptions* RunAsUser* RunAsGroup* "
        "RunAsNonRoot* ReadOnlyRootFilesystem* AllowPrivilegeEscalation* ProcMount* "
        "SeccompProfile* AppArmorProfile*"
    ),
    "Container": (
        "Name Image Command* Args* WorkingDir Ports* EnvFrom* Env* Resources ResizePolicy* "
        "RestartPolicy* RestartPolicyRules* VolumeMounts* VolumeDevices* LivenessProbe* "
        "ReadinessProbe* StartupProbe* Lifecycle* TerminationMessagePath "
        "TerminationMessagePolicy ImagePullPolicy SecurityContext* Stdin StdinOnce TTY"
    ),
    "EphemeralContainer": (
        "Name Image Command* Args* WorkingDir Ports* EnvFrom* Env* Resources ResizePolicy* "
        "RestartPolicy* RestartPolicyRules* VolumeMounts* VolumeDevices* LivenessProbe* "
        "ReadinessProbe* StartupProbe* Lifecycle* TerminationMessagePath "
        "TerminationMessagePolicy ImagePullPolicy SecurityContext* Stdin StdinOnce TTY "
        "TargetContainerName"
    ),
    "Sysctl": "Name Value",
    "PodSecurityContext": (
        "HostNetwork HostPID HostIPC ShareProcessNamespace* HostUsers* SELinuxOptions* "
        "WindowsOptions* RunAsUser* RunAsGroup* RunAsNonRoot* SupplementalGroups* "
        "SupplementalGroupsPolicy* FSGroup* FSGroupChangePolicy* Sysctls* SeccompProfile* "
        "AppArmorProfile* SELinuxChangePolicy*"
    ),
    "NodeSelectorRequirement": "Key Operator Values*",
    "NodeSelectorTerm": "MatchExpressions* MatchFields*",
    "NodeSelector": "NodeSelectorTerms*",
    "PreferredSchedulingTerm": "Weight Preference",
    "NodeAffinity": (
        "RequiredDuringSchedulingIgnoredDuringExecution* "
        "PreferredDuringSchedulingIgnoredDuringExecution*"
    ),
    "PodAffinityTerm": (
        "LabelSelector* Namespaces* TopologyKey NamespaceSelector* MatchLabelKeys* "
        "MismatchLabelKeys*"
    ),
    "WeightedPodAffinityTerm": "Weight PodAffinityTerm",
    "PodAffinity": (
        "RequiredDuringSchedulingIgnoredDuringExecution* "
        "PreferredDuringSchedulingIgnoredDuringExecution*"
    ),
    "PodAntiAffinity": (
        "RequiredDuringSchedulingIgnoredDuringExecution* "
        "PreferredDuringSchedulingIgnoredDuringExecution*"
    ),
    "Affinity": "NodeAffinity* PodAffinity* PodAntiAffinity*",
    "Toleration": "Key Operator Value Effect TolerationSeconds*",
    "HostAlias": "IP Hostnames*",
    "PodDNSConfigOption": "Name Value*",
    "PodDNSConfig": "Nameservers* Searches* Options*",
    "PodReadinessGate": "ConditionType",
    "TopologySpreadConstraint": (
        "MaxSkew TopologyKey WhenUnsatisfiable LabelSelector* MinDomains* NodeAffinityPolicy* "
        "NodeTaintsPolicy* MatchLabelKeys*"
    ),
    "PodOS": "Name",
    "PodSchedulingGate": "Name",
    "PodResourceClaim": "Name ResourceClaimName* ResourceClaimTemplateName*",
    "PodSchedulingGroup": "PodGroupName*",
    "PodSpec": (
        "Volumes* InitContainers* Containers* EphemeralContainers* RestartPolicy "
        "TerminationGracePeriodSeconds* ActiveDeadlineSeconds* DNSPolicy NodeSelector* "
        "ServiceAccountName AutomountServiceAccountToken* NodeName SecurityContext* "
        "ImagePullSecrets* Hostname Subdomain SetHostnameAsFQDN* Affinity* SchedulerName "
        "Tolerations* HostAliases* PriorityClassName Priority* PreemptionPolicy* DNSConfig* "
        "ReadinessGates* RuntimeClassName* Overhead* EnableServiceLinks* "
        "TopologySpreadConstraints* OS* SchedulingGates* ResourceClaims* Resources* "
        "HostnameOverride* SchedulingGroup*"
    ),
}
_RENAMED: Final = {
    "RBDImage": "image",
    "RBDPool": "pool",
    "RadosUser": "user",
    "CephMonitors": "monitors",
    "DataDiskURI": "diskURI",
    "SessionCHAPAuth": "chapAuthSession",
    "DiscoveryCHAPAuth": "chapAuthDiscovery",
}
_OF_THE_POD: Final = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers")
"""Fields that the internal security context of a pod has, and the API's has not."""
_ZEROS: Final[Mapping[Form, Any]] = {Form.TEXT: "", Form.INTEGER: 0, Form.BOOLEAN: False}
_HTML: Final = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"})


def spec_diff(old: v1.Struct, new: v1.Struct) -> str:
    """Return the unified difference of two objects of the same type."""
    before, after = (_text(item).splitlines(keepends=True) for item in (old, new))
    lines = list(difflib.unified_diff(before, after, n=3))
    return "".join(lines[2:])


def _text(item: v1.Struct) -> str:
    text = json.dumps(internal_form(item), indent=1, ensure_ascii=False).translate(_HTML)
    return text + "\n"


def internal_form(item: v1.Struct) -> dict[str, Any]:
    """Return an object as Go prints it in messages: with the names of its internal type."""
    values: dict[str, Any] = {}
    _collect(type(item).__name__, item, values)
    if isinstance(item, v1.PodSpec):
        context = item.securityContext or v1.PodSecurityContext()
        above = {name: getattr(item, name) for name in _OF_THE_POD}
        inner = internal_form(context)
        for go_name in inner:
            wire = next((name for name in _OF_THE_POD if name.lower() == go_name.lower()), "")
            if wire and above[wire] is not None:
                inner[go_name] = above[wire]
        values["SecurityContext"] = inner
    return values


def _collect(name: str, item: v1.Struct, into: dict[str, Any]) -> None:
    members = fields(type(item))
    by_name = {wire.lower(): wire for wire in members}
    for word in _FIELDS.get(name, " ".join(members)).split():
        if word.startswith("<"):
            _collect(word[1:], item, into)
            continue
        go_name = word.rstrip("*")
        wire = _RENAMED.get(go_name) or by_name.get(go_name.lower())
        value = None if wire is None else getattr(item, wire, None)
        form = members[wire].shape.form if wire is not None else Form.BOOLEAN
        absent = None if word.endswith("*") else _ZEROS.get(form)
        # A text that is held by pointer may be empty.
        into[go_name] = "" if value == "" and _is_pointer(item, wire) else _shown(value, absent)


def _is_pointer(item: v1.Struct, wire: str | None) -> bool:
    """Return whether a text is None if it is absent."""
    return any(
        member.name == wire and member.default is None for member in structs.fields(type(item))
    )


def _shown(value: object, zero: Any) -> Any:
    if value is None or value in ("", (), {}):
        return zero
    if isinstance(value, v1.Struct):
        return internal_form(value)
    if isinstance(value, tuple):
        return [_shown(item, "") for item in cast("tuple[object, ...]", value)]
    if isinstance(value, dict):
        return dict(sorted(cast("dict[str, Any]", value).items()))
    return value
