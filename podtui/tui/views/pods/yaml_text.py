"""The live object as YAML, in the format of ``kubectl get -o yaml``."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import yaml

from podtui.api.v1 import Pod


class _Dumper(yaml.SafeDumper):
    """A dumper that writes multi-line strings as blocks, and no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text.strip("\n") else None
    return cast("Any", dumper).represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def pod_yaml(pod: Pod, *, managed: bool = False) -> str:
    """Return the pod as YAML, without ``managedFields`` unless ``managed`` is set."""
    fields: dict[str, Any] = msgspec.to_builtins(pod)
    if not managed:
        fields.get("metadata", {}).pop("managedFields", None)
    document = {"apiVersion": "v1", "kind": "Pod", **fields}
    return yaml.dump(
        document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000, indent=2
    )
