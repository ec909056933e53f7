"""Rules of volumes: names, sources, items, projections, claims."""

from __future__ import annotations

from typing import Any

from validation_cases import Edits, Expected, broken, table, volume

from podtui.manifest.validation.errors import (
    DUPLICATE,
    FORBIDDEN,
    INVALID,
    NOT_SUPPORTED,
    REQUIRED,
    TOO_LONG,
)

V = "spec.volumes[0]"


def source(**kinds: Any) -> Edits:
    return {"spec.volumes": [volume(**kinds)]}


@table(
    ("two", {"spec.volumes": [volume(emptyDir={}), {"name": "b", "emptyDir": {}}]}, []),
    ("no name", source(name="", emptyDir={}), [(f"{V}.name", REQUIRED)]),
    ("name with dots", source(name="a.b", emptyDir={}), [(f"{V}.name", INVALID)]),
    (
        "name twice",
        {"spec.volumes": [volume(emptyDir={}), volume(emptyDir={})]},
        [("spec.volumes[1].name", DUPLICATE)],
    ),
    ("no source", source(), [(V, REQUIRED)]),
    (
        "two sources",
        source(emptyDir={}, hostPath={"path": ""}),
        [(f"{V}.hostPath", FORBIDDEN)],
    ),
    ("cephfs too many", source(emptyDir={}, cephfs={"monitors": []}), [(f"{V}.cephFS", FORBIDDEN)]),
)
def test_names_and_number_of_sources(edits: Edits, expected: Expected) -> None:
    assert broken(edits) == expected


def host(path: str, kind: str = "") -> Edits:
    return source(hostPath={"path": path, "type": kind})


@table(
    ("emptyDir", source(emptyDir={"medium": "Memory", "sizeLimit": "64Mi"}), []),
    ("emptyDir of any medium", source(emptyDir={"medium": "Tape"}), []),
    (
        "emptyDir negative",
        source(emptyDir={"sizeLimit": "-1"}),
        [(f"{V}.emptyDir.sizeLimit", FORBIDDEN)],
    ),
    (
        "emptyDir no size",
        source(emptyDir={"sizeLimit": "big"}),
        [(f"{V}.emptyDir.sizeLimit", FORBIDDEN)],
    ),
    ("hostPath", host("/srv/data", "DirectoryOrCreate"), []),
    ("hostPath empty", host(""), [(f"{V}.hostPath.path", REQUIRED)]),
    ("hostPath climbs", host("/srv/../etc"), [(f"{V}.hostPath.path", INVALID)]),
    ("hostPath type", host("/srv", "Folder"), [(f"{V}.hostPath.type", NOT_SUPPORTED)]),
    ("nfs", source(nfs={"server": "s", "path": "/x"}), []),
    (
        "nfs bad",
        source(nfs={"server": "", "path": ""}),
        [(f"{V}.nfs.server", REQUIRED), (f"{V}.nfs.path", REQUIRED), (f"{V}.nfs.path", INVALID)],
    ),
    ("nfs relative", source(nfs={"server": "s", "path": "x"}), [(f"{V}.nfs.path", INVALID)]),
    ("image", source(image={"reference": "a:1", "pullPolicy": "Always"}), []),
    (
        "image bad",
        source(image={"reference": "", "pullPolicy": "x"}),
        [(f"{V}.image.reference", REQUIRED), (f"{V}.image.pullPolicy", NOT_SUPPORTED)],
    ),
    ("claim", source(persistentVolumeClaim={"claimName": "c"}), []),
    (
        "claim without name",
        source(persistentVolumeClaim={"claimName": ""}),
        [(f"{V}.persistentVolumeClaim.claimName", REQUIRED)],
    ),
    ("csi", source(csi={"driver": "Disk.example.com"}), []),
    ("csi no driver", source(csi={"driver": ""}), [(f"{V}.csi.driver", REQUIRED)]),
    (
        "csi bad",
        source(csi={"driver": "a_b", "nodePublishSecretRef": {"name": ""}}),
        [(f"{V}.csi.driver", INVALID), (f"{V}.csi.nodePublishSecretRef.name", REQUIRED)],
    ),
    (
        "csi too long",
        source(csi={"driver": "a" * 64, "nodePublishSecretRef": {"name": "A"}}),
        [(f"{V}.csi.driver", TOO_LONG), (f"{V}.csi.name", INVALID)],
    ),
    ("secret", source(secret={"secretName": "s", "defaultMode": 0o400}), []),
    ("secret no name", source(secret={}), [(f"{V}.secret.secretName", REQUIRED)]),
    (
        "configMap bad",
        source(
            configMap={
                "defaultMode": 0o1000,
                "items": [
                    {"key": "", "path": ""},
                    {"key": "a", "path": "/a", "mode": -1},
                    {"key": "a", "path": "x/../y"},
                    {"key": "a", "path": "..data"},
                ],
            }
        ),
        [
            (f"{V}.configMap.name", REQUIRED),
            (f"{V}.configMap.defaultMode", INVALID),
            (f"{V}.configMap.items[0].key", REQUIRED),
            (f"{V}.configMap.items[0].path", REQUIRED),
            (f"{V}.configMap.items[1].path", INVALID),
            (f"{V}.configMap.items[1].mode", INVALID),
            (f"{V}.configMap.items[2].path", INVALID),
            (f"{V}.configMap.items[3].path", INVALID),
        ],
    ),
)
def test_common_sources(edits: Edits, expected: Expected) -> None:
    assert broken(edits) == expected


def iscsi(**fields: Any) -> Edits:
    sound = {"targetPortal": "10.0.0.1", "iqn": "iqn.2001-04.com.example:disk", "lun": 0}
    return source(iscsi={**sound, **fields})


@table(
    ("iscsi", iscsi(), []),
    ("iscsi eui", iscsi(iqn="eui.0123456789abcdef"), []),
    (
        "iscsi empty",
        iscsi(targetPortal="", iqn="", lun=256),
        [
            (f"{V}.iscsi.targetPortal", REQUIRED),
            (f"{V}.iscsi.iqn", REQUIRED),
            (f"{V}.iscsi.lun", INVALID),
        ],
    ),
    *(
        (f"iscsi name {name}", iscsi(iqn=name), [(f"{V}.iscsi.iqn", INVALID)])
        for name in ("disk", "iqn.2001-04.com.example", "eui.xyz", "naa.1")
    ),
    ("iscsi secret", iscsi(chapAuthSession=True), [(f"{V}.iscsi.secretRef", REQUIRED)]),
    (
        "iscsi initiator",
        iscsi(initiatorName="me", targetPortal="p" * 60),
        [(f"{V}.iscsi.initiatorname", INVALID), (f"{V}.name", INVALID)],
    ),
    ("gitRepo", source(gitRepo={"repository": "r", "directory": "."}), []),
    (
        "gitRepo bad",
        source(gitRepo={"repository": "", "directory": "/a/.."}),
        [
            (f"{V}.gitRepo.repository", REQUIRED),
            (f"{V}.gitRepo.directory", INVALID),
            (f"{V}.gitRepo.directory", INVALID),
        ],
    ),
    (
        "gce",
        source(gcePersistentDisk={"pdName": "", "partition": 256}),
        [(f"{V}.persistentDisk.pdName", REQUIRED), (f"{V}.persistentDisk.partition", INVALID)],
    ),
    (
        "aws",
        source(awsElasticBlockStore={"volumeID": "", "partition": -1}),
        [
            (f"{V}.awsElasticBlockStore.volumeID", REQUIRED),
            (f"{V}.awsElasticBlockStore.partition", INVALID),
        ],
    ),
    ("flocker", source(flocker={}), [(f"{V}.flocker", REQUIRED)]),
    (
        "flocker both",
        source(flocker={"datasetName": "a/b", "datasetUUID": "u"}),
        [(f"{V}.flocker", INVALID), (f"{V}.flocker.datasetName", INVALID)],
    ),
    (
        "cinder",
        source(cinder={"volumeID": "", "secretRef": {}}),
        [(f"{V}.cinder.volumeID", REQUIRED), (f"{V}.cinder.secretRef.name", REQUIRED)],
    ),
    ("quobyte", source(quobyte={"registry": "a:1,[::1]:2", "volume": "v"}), []),
    (
        "quobyte bad",
        source(quobyte={"registry": "a", "volume": ""}),
        [(f"{V}.quobyte.registry", INVALID), (f"{V}.quobyte.volume", REQUIRED)],
    ),
    (
        "quobyte empty",
        source(quobyte={"registry": "", "volume": "v"}),
        [(f"{V}.quobyte.registry", REQUIRED)],
    ),
    (
        "quobyte tenant",
        source(quobyte={"registry": "a:1", "volume": "v", "tenant": "t" * 65}),
        [(f"{V}.quobyte.tenant", REQUIRED)],
    ),
    ("fc", source(fc={"targetWWNs": ["w"], "lun": 2}), []),
    ("fc empty", source(fc={}), [(f"{V}.fc.targetWWNs", REQUIRED)]),
    (
        "fc both",
        source(fc={"targetWWNs": ["w"], "wwids": ["x"]}),
        [(f"{V}.fc.targetWWNs", INVALID), (f"{V}.fc.lun", REQUIRED)],
    ),
    ("fc lun", source(fc={"targetWWNs": ["w"], "lun": 256}), [(f"{V}.fc.lun", INVALID)]),
    (
        "flex",
        source(flexVolume={"driver": "", "options": {"a": "b", "x.k8s.io/a": "b"}}),
        [
            (f"{V}.flexVolume.driver", REQUIRED),
            (f"{V}.flexVolume.options[x.k8s.io/a]", INVALID),
        ],
    ),
    (
        "azure disk",
        source(azureDisk={"diskName": "", "diskURI": "x", "cachingMode": "y", "kind": "Managed"}),
        [
            (f"{V}.azureDisk.diskName", REQUIRED),
            (f"{V}.azureDisk.cachingMode", NOT_SUPPORTED),
            (f"{V}.azureDisk.diskURI", NOT_SUPPORTED),
        ],
    ),
    (
        "azure disk kind",
        source(azureDisk={"diskName": "a", "diskURI": "x", "kind": "Tape"}),
        [(f"{V}.azureDisk.kind", NOT_SUPPORTED), (f"{V}.azureDisk.diskURI", NOT_SUPPORTED)],
    ),
    (
        "storageos",
        source(storageos={"volumeName": "A", "volumeNamespace": "B", "secretRef": {}}),
        [
            (f"{V}.storageos.volumeName", INVALID),
            (f"{V}.storageos.volumeNamespace", INVALID),
            (f"{V}.storageos.secretRef.name", REQUIRED),
        ],
    ),
    *(
        (kind, source(**{kind: fields}), [(f"{V}.{kind}.{name}", REQUIRED) for name in missing])
        for kind, fields, missing in (
            ("glusterfs", {"endpoints": "", "path": ""}, ("endpoints", "path")),
            ("rbd", {"monitors": [], "image": ""}, ("monitors", "image")),
            ("cephfs", {"monitors": []}, ("monitors",)),
            ("azureFile", {"secretName": "", "shareName": ""}, ("secretName", "shareName")),
            ("vsphereVolume", {"volumePath": ""}, ("volumePath",)),
            ("photonPersistentDisk", {"pdID": ""}, ("pdID",)),
            ("portworxVolume", {"volumeID": ""}, ("volumeID",)),
            (
                "scaleIO",
                {"gateway": "", "system": "", "secretRef": {}},
                ("gateway", "system", "volumeName"),
            ),
        )
    ),
)
def test_storage_systems(edits: Edits, expected: Expected) -> None:
    assert broken(edits) == expected


def field(path: str, name: str = "f", **others: Any) -> dict[str, Any]:
    return {"path": name, "fieldRef": {"apiVersion": "v1", "fieldPath": path}, **others}


D = f"{V}.downwardAPI"
CPU = {"containerName": "main", "resource": "limits.cpu"}


def downward(*items: Any, **fields: Any) -> Edits:
    return source(downwardAPI={"items": list(items), **fields})


@table(
    ("labels", downward(field("metadata.labels"), field("metadata.annotations['a']", "g")), []),
    ("resource", downward({"path": "cpu", "resourceFieldRef": CPU, "mode": 0o600}), []),
    ("mode", downward(defaultMode=512), [(f"{D}.defaultMode", INVALID)]),
    (
        "for variables only",
        downward(field("status.podIP")),
        [(f"{D}.fieldRef.fieldPath", NOT_SUPPORTED)],
    ),
    ("no path", downward(field("metadata.name", "")), [(f"{D}.path", REQUIRED)]),
    ("path climbs", downward(field("metadata.name", "../x")), [(f"{D}.path", INVALID)]),
    ("reserved path", downward(field("metadata.name", "..x")), [(f"{D}.path", INVALID)]),
    ("nothing", downward({"path": "x"}), [(D, REQUIRED)]),
    ("both", downward(field("metadata.name", resourceFieldRef=CPU)), [(D, INVALID)]),
    (
        "no container",
        downward({"path": "x", "resourceFieldRef": {"resource": "limits.cpu"}}),
        [(f"{D}.resourceFieldRef.containerName", REQUIRED)],
    ),
)
def test_downward_api(edits: Edits, expected: Expected) -> None:
    assert broken(edits) == expected


P = f"{V}.projected"
P0 = f"{P}.sources[0]"
CERTIFICATE = {"signerName": "example.com/s", "keyType": "ED25519", "credentialBundlePath": "c"}
ACCOUNT: Edits = {"spec.serviceAccountName": "robot"}


def projected(*sources: Any, **fields: Any) -> Edits:
    return source(projected={"sources": list(sources), **fields})


def token(**fields: Any) -> Edits:
    return {**ACCOUNT, **projected({"serviceAccountToken": {"path": "t", **fields}})}


def bundle(**fields: Any) -> Edits:
    return projected({"clusterTrustBundle": {"path": "ca", **fields}})


def certificate(**fields: Any) -> Edits:
    return projected({"podCertificate": {**CERTIFICATE, **fields}})


@table(
    ("downward", projected({"downwardAPI": {"items": [field("metadata.name")]}}), []),
    ("mode", projected(defaultMode=-1), [(f"{P}.defaultMode", INVALID)]),
    (
        "no names",
        projected({"secret": {}}, {"configMap": {"items": [{"key": "", "path": "a"}]}}),
        [
            (f"{P0}.secret.name", REQUIRED),
            (f"{P}.sources[1].configMap.name", REQUIRED),
            (f"{P}.sources[1].configMap.items[0].key", REQUIRED),
        ],
    ),
    (
        "same path",
        projected(
            {"secret": {"name": "s", "items": [{"key": "a", "path": "f"}]}},
            {"downwardAPI": {"items": [field("metadata.name")]}},
        ),
        [(P, INVALID)],
    ),
    (
        "two kinds in one",
        projected({"secret": {"name": "s"}, "configMap": {"name": "c"}}),
        [(P0, FORBIDDEN)],
    ),
    ("token", token(expirationSeconds=600), []),
    (
        "token short",
        token(expirationSeconds=599),
        [(f"{P0}.serviceAccountToken.expirationSeconds", INVALID)],
    ),
    (
        "token long",
        token(expirationSeconds=2**32 + 1),
        [(f"{P0}.serviceAccountToken.expirationSeconds", INVALID)],
    ),
    ("token no path", token(path=""), [(f"{P}.path", REQUIRED)]),
    ("token path", token(path="/t"), [(f"{P}.path", INVALID)]),
    (
        "token of nobody",
        projected({"serviceAccountToken": {"path": "t"}}),
        [(f"{P0}.serviceAccountToken", FORBIDDEN)],
    ),
    ("bundle", bundle(name="ca"), []),
    ("bundle of a signer", bundle(signerName="example.com/s", labelSelector={}), []),
    ("bundle name of a signer", bundle(name="example.com:s:ca"), []),
    ("bundle of nobody", bundle(), [(f"{P0}.clusterTrustBundle", REQUIRED)]),
    (
        "bundle of both",
        bundle(name="a", signerName="b.c/d"),
        [(f"{P0}.clusterTrustBundle", INVALID)],
    ),
    (
        "bundle bad",
        bundle(name="A", labelSelector={}, path=""),
        [
            (f"{P0}.clusterTrustBundle.name", INVALID),
            (f"{P0}.clusterTrustBundle.labelSelector", INVALID),
            (f"{P0}.clusterTrustBundle.path", REQUIRED),
        ],
    ),
    *(
        (f"signer {name}", bundle(signerName=name), [(f"{P0}.clusterTrustBundle.signerName", kind)])
        for name, kind in (
            ("example.com", INVALID),
            ("Example.com/s", INVALID),
            ("example/s", INVALID),
            ("example.com/S", INVALID),
            ("a.b/c/d", INVALID),
        )
    ),
    (
        "signer of a long domain",
        bundle(signerName=f"{'a.' * 127}b/s"),
        [(f"{P0}.clusterTrustBundle.signerName", TOO_LONG)],
    ),
    (
        "signer too long",
        bundle(signerName=f"a.b/{'c.' * 284}d"),
        [(f"{P0}.clusterTrustBundle.signerName", TOO_LONG)],
    ),
    ("bundle of an empty signer", bundle(name=":a"), [(f"{P0}.clusterTrustBundle.name", INVALID)]),
    ("certificate", certificate(maxExpirationSeconds=86400), []),
    (
        "certificate bad",
        certificate(signerName="", keyType="DSA", credentialBundlePath=""),
        [
            (f"{P0}.podCertificate.signerName", REQUIRED),
            (f"{P0}.podCertificate.keyType", NOT_SUPPORTED),
            (f"{P0}.podCertificate", REQUIRED),
        ],
    ),
    (
        "certificate short",
        certificate(maxExpirationSeconds=3599),
        [(f"{P0}.podCertificate.maxExpirationSeconds", INVALID)],
    ),
    (
        "certificate long for Kubernetes",
        certificate(signerName="kubernetes.io/s", maxExpirationSeconds=86401),
        [(f"{P0}.podCertificate.maxExpirationSeconds", INVALID)],
    ),
    (
        "certificate paths",
        certificate(keyPath="c", certificateChainPath="/d"),
        [(P, INVALID), (f"{P0}.podCertificate.certificateChainPath", INVALID)],
    ),
    (
        "certificate annotations",
        certificate(userAnnotations={"Example.com/A": "x", "plain": "y", "": "z", "a b": "c"}),
        [
            (f"{P0}.podCertificate.userAnnotations", INVALID),
            (f"{P0}.podCertificate.userAnnotations", REQUIRED),
            (f"{P0}.podCertificate.userAnnotations", INVALID),
        ],
    ),
)
def test_projected(edits: Edits, expected: Expected) -> None:
    assert broken(edits) == expected


CT = f"{V}.ephemeral.volumeClaimTemplate"
SPEC = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1Gi"}},
}


def ephemeral(metadata: Any = None, **fields: Any) -> Edits:
    template = {"metadata": metadata or {}, "spec": {**SPEC, **fields}}
    return source(ephemeral={"volumeClaimTemplate": template})


@table(
    ("sound", ephemeral({"labels": {"a": "b"}}, storageClassName="fast", volumeMode="Block"), []),
    ("no template", source(ephemeral={}), [(CT, REQUIRED)]),
    (
        "metadata",
        ephemeral({"labels": {"a b": "c"}, "name": "x", "uid": "y"}),
        [
            (f"{CT}.metadata.labels", INVALID),
            (f"{CT}.metadata.name", FORBIDDEN),
            (f"{CT}.metadata.uID", FORBIDDEN),
        ],
    ),
    ("no modes", ephemeral(accessModes=[]), [(f"{CT}.spec.accessModes", REQUIRED)]),
    ("mode", ephemeral(accessModes=["RWO"]), [(f"{CT}.spec.accessModes", NOT_SUPPORTED)]),
    (
        "modes at odds",
        ephemeral(accessModes=["ReadWriteOncePod", "ReadWriteOnce"]),
        [(f"{CT}.spec.accessModes", FORBIDDEN)],
    ),
    ("no size", ephemeral(resources={}), [(f"{CT}.spec.resources[storage]", REQUIRED)]),
    (
        "size 0",
        ephemeral(resources={"requests": {"storage": "0"}}),
        [(f"{CT}.spec.resources[storage]", INVALID)],
    ),
    (
        "classes",
        ephemeral(storageClassName="A", volumeAttributesClassName="B", volumeMode="Tape"),
        [
            (f"{CT}.spec.storageClassName", INVALID),
            (f"{CT}.spec.volumeAttributesClassName", INVALID),
            (f"{CT}.spec.volumeMode", NOT_SUPPORTED),
        ],
    ),
    (
        "selector",
        ephemeral(selector={"matchExpressions": [{"key": "a", "operator": "In"}]}),
        [(f"{CT}.spec.selector.matchExpressions[0].values", REQUIRED)],
    ),
    (
        "data source",
        ephemeral(dataSource={"kind": "Snapshot", "name": ""}),
        [(f"{CT}.spec.dataSource.name", REQUIRED), (f"{CT}.spec.dataSource", INVALID)],
    ),
    (
        "data sources differ",
        ephemeral(
            dataSource={"kind": "PersistentVolumeClaim", "name": "a"},
            dataSourceRef={"kind": "PersistentVolumeClaim", "name": "b"},
        ),
        [(f"{CT}.spec", INVALID)],
    ),
    (
        "data source of another namespace",
        ephemeral(
            dataSource={"apiGroup": "A", "kind": "Snapshot", "name": "a"},
            dataSourceRef={"apiGroup": "b.c", "kind": "", "name": "a", "namespace": "N"},
        ),
        [
            (f"{CT}.spec.dataSource.apiGroup", INVALID),
            (f"{CT}.spec.dataSourceRef.kind", REQUIRED),
            (f"{CT}.spec.dataSourceRef.namespace", INVALID),
            (f"{CT}.spec", INVALID),
        ],
    ),
    (
        "size no amount",
        ephemeral(resources={"requests": {"storage": "big"}}),
        [(f"{CT}.spec.resources[storage]", INVALID)],
    ),
    (
        "claim's name too long",
        {**ephemeral(), "metadata.name": "a" * 250},
        [(f"{V}.name", INVALID)],
    ),
    (
        "claim made by another volume",
        {
            "spec.volumes": [
                volume(ephemeral={"volumeClaimTemplate": {"spec": SPEC}}),
                {"name": "b", "persistentVolumeClaim": {"claimName": "web-node-data"}},
            ]
        },
        [("spec.volumes[1].persistentVolumeClaim.claimName", INVALID)],
    ),
)
def test_ephemeral_claims(edits: Edits, expected: Expected) -> None:
    assert broken(edits) == expected
