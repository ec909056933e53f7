"""Build hook: adds the manual page, generated from the command line's parser, to the wheel."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ManualPage(BuildHookInterface):
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        sys.path.insert(0, self.root)
        from podtui.cli.man import man_page

        self._folder = tempfile.TemporaryDirectory()
        page = Path(self._folder.name) / "podtui.1"
        page.write_text(man_page())
        build_data["shared_data"][str(page)] = "share/man/man1/podtui.1"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        self._folder.cleanup()
