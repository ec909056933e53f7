"""Rules for the sources of projected volumes: keys, downward API files, tokens, certificates."""

from __future__ import annotations

from typing import Final

from podtui.api.v1 import (
    ClusterTrustBundleProjection,
    DownwardAPIVolumeFile,
    KeyToPath,
    PodCertificateProjection,
    PodSpec,
    ServiceAccountTokenProjection,
    VolumeProjection,
)
from podtui.manifest.validation import environment, formats
from podtui.manifest.validation.errors import (
    Errors,
    forbidden,
    invalid,
    invalid_each,
    not_supported,
    reported_at,
    required,
    too_long,
)
from podtui.manifest.validation.metadata import annotations_size, label_selector

KEY_TYPES: Final = ("RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")
_KINDS: Final = (
    "secret",
    "configMap",
    "downwardAPI",
    "serviceAccountToken",
    "clusterTrustBundle",
    "podCertificate",
)
_DAY: Final = 24 * 60 * 60
_DOMAIN_LIMIT: Final = 253
_SIGNER_LIMIT: Final = 571


def key_to_path(item: KeyToPath, path: str) -> Errors:
    if not item.key:
        yield required(f"{path}.key")
    if not item.path:
        yield required(f"{path}.path")
    yield from formats.inside_volume(item.path, f"{path}.path")
    yield from formats.file_mode(item.mode, f"{path}.mode")


def downward_file(item: DownwardAPIVolumeFile, path: str) -> Errors:
    if not item.path:
        yield required(f"{path}.path")
    yield from formats.inside_volume(item.path, f"{path}.path")
    if item.fieldRef is not None:
        here = f"{path}.fieldRef"
        yield from environment.field_ref(item.fieldRef, environment.VOLUME_FIELDS, here)
        if item.resourceFieldRef is not None:
            why = "fieldRef and resourceFieldRef can not be specified simultaneously"
            yield invalid(path, "resource", why)
    elif item.resourceFieldRef is not None:
        here = f"{path}.resourceFieldRef"
        yield from environment.resource_field_ref(item.resourceFieldRef, here, in_volume=True)
    else:
        yield required(path, "one of fieldRef and resourceFieldRef is required")
    yield from formats.file_mode(item.mode, f"{path}.mode")


class _ClaimedPaths:
    """The paths that the previous sources of one volume have claimed."""

    def __init__(self, volume_path: str) -> None:
        self._volume_path = volume_path
        self._paths: set[str] = set()

    def claim(self, target: str, at: str, value: str | None = None) -> Errors:
        """Report a path that is already claimed; ``value`` is shown instead of it."""
        if target in self._paths:
            shown = target if value is None else value
            yield invalid(self._volume_path, shown, "conflicting duplicate paths", at=at)
        self._paths.add(target)


def sources(entries: tuple[VolumeProjection, ...], path: str) -> Errors:
    taken = _ClaimedPaths(path)
    for index, source in enumerate(entries):
        here = f"{path}.sources[{index}]"
        for kind, ref in (("secret", source.secret), ("configMap", source.configMap)):
            if ref is not None:
                yield from _keyed(ref.name, ref.items, f"{here}.{kind}", taken)
        if source.downwardAPI is not None:
            for position, item in enumerate(source.downwardAPI.items):
                at = f"{here}.downwardAPI.items[{position}]"
                yield from reported_at(downward_file(item, at), at, f"{here}.downwardAPI")
                if item.path:
                    yield from taken.claim(item.path, f"{at}.path")
        if source.serviceAccountToken is not None:
            yield from _token(source.serviceAccountToken, f"{here}.serviceAccountToken", path)
        if source.clusterTrustBundle is not None:
            yield from _bundle(source.clusterTrustBundle, f"{here}.clusterTrustBundle", taken)
        if source.podCertificate is not None:
            yield from _certificate(source.podCertificate, f"{here}.podCertificate", taken)
        if sum(getattr(source, kind) is not None for kind in _KINDS) > 1:
            yield forbidden(here, "may not specify more than 1 volume type per source")


def _keyed(name: str, items: tuple[KeyToPath, ...], path: str, taken: _ClaimedPaths) -> Errors:
    if not name:
        yield required(f"{path}.name")
    for index, item in enumerate(items):
        here = f"{path}.items[{index}]"
        yield from key_to_path(item, here)
        if item.path:
            yield from taken.claim(item.path, f"{here}.path", name)


def _token(token: ServiceAccountTokenProjection, path: str, volume_path: str) -> Errors:
    here, seconds = f"{path}.expirationSeconds", token.expirationSeconds
    if seconds is not None and seconds < 600:
        yield invalid(here, seconds, "may not specify a duration less than 10 minutes")
    if seconds is not None and seconds > 2**32:
        yield invalid(here, seconds, "may not specify a duration larger than 2^32 seconds")
    shown_as, at = f"{volume_path}.path", f"{path}.path"
    if not token.path:
        yield required(shown_as, at=at)
    else:
        yield from reported_at(formats.inside_volume(token.path, at), at, shown_as)


def _bundle(bundle: ClusterTrustBundleProjection, path: str, taken: _ClaimedPaths) -> Errors:
    if bundle.name and bundle.signerName:
        yield invalid(path, bundle, "only one of name and signerName may be used")
    elif bundle.name:
        for problem in _bundle_name(bundle.name):
            why = f"not a valid clustertrustbundlename: {problem}"
            yield invalid(f"{path}.name", bundle.name, why)
        if bundle.labelSelector is not None:
            why = "labelSelector must be unset if name is specified"
            yield invalid(f"{path}.labelSelector", bundle.labelSelector, why)
    elif bundle.signerName:
        yield from _signer(bundle.signerName, f"{path}.signerName")
        yield from label_selector(bundle.labelSelector, f"{path}.labelSelector")
    else:
        yield required(path, "either name or signerName must be specified")
    if not bundle.path:
        yield required(f"{path}.path")
    yield from formats.inside_volume(bundle.path, f"{path}.path")
    yield from taken.claim(bundle.path, f"{path}.path")


def _bundle_name(name: str) -> list[str]:
    """Check ``NAME``, or ``SIGNER-DOMAIN:SIGNER-PATH:NAME``."""
    signer, colon, suffix = name.rpartition(":")
    if colon and not signer:
        return ['ClusterTrustBundle without signer name must not have ":" in its name']
    return formats.dns_subdomain(suffix)


def _signer(name: str, path: str) -> Errors:
    """Check ``DOMAIN/NAME``, whose domain must have at least two parts."""
    if not name:
        yield required(path)
        return
    parts = name.split("/")
    if len(parts) != 2:
        yield invalid(
            path,
            name,
            "must be a fully qualified domain and path of the form 'example.com/signer-name'",
        )
        return
    domain, rest = parts
    if formats.size(domain) > _DOMAIN_LIMIT:
        yield too_long(path, _DOMAIN_LIMIT)
    yield from _first_bad_part(domain, formats.dns_label, path)
    if "." not in domain:
        why = "should be a domain with at least two segments separated by dots"
        yield invalid(path, domain, why)
    yield from _first_bad_part(rest, formats.dns_subdomain, path)
    if formats.size(name) > _SIGNER_LIMIT:
        yield too_long(path, _SIGNER_LIMIT)


def _first_bad_part(text: str, check: formats.Check, path: str) -> Errors:
    for part in text.split("."):
        problems = check(part)
        for problem in problems:
            yield invalid(path, text, f'validating label "{part}": {problem}')
        if problems:
            return


def _certificate(projection: PodCertificateProjection, path: str, taken: _ClaimedPaths) -> Errors:
    yield from _signer(projection.signerName, f"{path}.signerName")
    yield from _user_annotations(projection, f"{path}.userAnnotations")
    if projection.keyType not in KEY_TYPES:
        yield not_supported(f"{path}.keyType", projection.keyType, KEY_TYPES, plain=True)
    seconds = projection.maxExpirationSeconds
    if seconds is not None:
        here = f"{path}.maxExpirationSeconds"
        is_kubernetes_signer = f".{projection.signerName.partition('/')[0]}".endswith(
            ".kubernetes.io"
        )
        longest = _DAY if is_kubernetes_signer else 91 * _DAY
        if seconds < 3600:
            yield invalid(here, seconds, "if provided, maxExpirationSeconds must be >= 3600")
        if seconds > longest:
            why = f"if provided, maxExpirationSeconds must be <= {longest}"
            yield invalid(here, seconds, why)
    files = {
        "credentialBundlePath": projection.credentialBundlePath,
        "keyPath": projection.keyPath,
        "certificateChainPath": projection.certificateChainPath,
    }
    for name, target in files.items():
        if target:
            yield from formats.inside_volume(target, f"{path}.{name}")
            yield from taken.claim(target, f"{path}.{name}")
    if not any(files.values()):
        yield required(
            path,
            "specify at least one of credentialBundlePath, keyPath, and certificateChainPath",
        )


def _user_annotations(projection: PodCertificateProjection, path: str) -> Errors:
    for given in projection.userAnnotations:
        key, at = given.lower(), f"{path}[{given}]"
        problems = formats.qualified_name(key)
        if not key:
            yield required(path, at=at)
        elif problems:
            yield from invalid_each(path, key, problems, at=at)
        elif "/" not in key:
            why = 'must be a domain-prefixed key (such as "acme.io/foo")'
            yield invalid(path, key, why, at=at)
    yield from annotations_size(projection.userAnnotations, path)


def account_tokens(spec: PodSpec) -> Errors:
    """Check that a pod with tokens has a service account, to which the tokens belong."""
    if spec.serviceAccountName or spec.serviceAccount:
        return
    for index, volume in enumerate(spec.volumes):
        if volume.projected is None:
            continue
        for position, source in enumerate(volume.projected.sources):
            if source.serviceAccountToken is not None:
                yield forbidden(
                    f"spec.volumes[{index}].projected.sources[{position}].serviceAccountToken",
                    "must not be specified when serviceAccountName is not set",
                )
