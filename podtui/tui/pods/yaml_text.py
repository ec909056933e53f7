"""The live object as YAML, as ``kubectl get -o yaml`` prints it."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import yaml

from podtui.api.v1 import Pod


class _Dumper(yaml.SafeDumper):
    """Texts of several lines stay readable; no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text.strip("\n") else None
    return cast("Any", dumper).represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def pod_yaml(pod: Pod, *, managed: bool = False) -> str:
    """Without the bookkeeping of field managers unless it is asked for (``managed``)."""
    fields: dict[str, Any] = msgspec.to_builtins(pod)
    if not managed:
        fields.get("metadata", {}).pop("managedFields", None)
    document = {"apiVersion": "v1", "kind": "Pod", **fields}
    return yaml.dump(
        document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000, indent=2
    )
