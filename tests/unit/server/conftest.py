from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from served import Served, serving


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path / "s.sock") as it:
        yield it


@pytest.fixture
async def http(served: Served) -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.UnixConnector(str(served.socket))
    async with aiohttp.ClientSession("http://podtui", connector=connector) as session:
        yield session
