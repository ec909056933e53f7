"""The messages of the page, and the flow control of the output."""

from __future__ import annotations

import asyncio

import pytest

from podtui.web.session import BadMessage, Ended, OutputWindow, Size, Taken, decode, encode


def test_messages_of_the_page_are_parsed() -> None:
    assert decode('{"kind":"size","columns":80,"rows":24}') == Size(columns=80, rows=24)
    assert decode('{"kind":"taken","bytes":12}') == Taken(bytes=12)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '"size"', '{"kind":"run","words":["sh"]}', '{"kind":"size","columns":80}',
     '{"kind":"size","columns":0,"rows":24}', '{"kind":"size","columns":80,"rows":1000000}',
     '{"kind":"size","columns":"80","rows":24}', '{"kind":"size","columns":80,"rows":24,"x":1}',
     '{"kind":"taken","bytes":-1}', '{"columns":80,"rows":24}'],
)  # fmt: skip
def test_invalid_data_is_refused(text: str) -> None:
    with pytest.raises(BadMessage):
        decode(text)


def test_messages_of_the_server_are_json() -> None:
    assert encode(Ended("x \x1b")) == '{"kind":"ended","text":"x \\u001b"}'


async def waits(window: OutputWindow) -> bool:
    try:
        async with asyncio.timeout(0.05):
            await window.room()
    except TimeoutError:
        return True
    return False


async def test_a_slow_page_blocks_the_program() -> None:
    window = OutputWindow(100)
    window.sent(99)
    assert not await waits(window)
    window.sent(1)
    assert await waits(window)
    window.taken(1)
    assert not await waits(window)


async def test_a_page_cannot_acknowledge_unsent_output() -> None:
    window = OutputWindow(100)
    window.taken(1_000_000)
    window.sent(100)
    assert await waits(window)
    window.taken(50)
    window.taken(10)
    window.sent(50)
    assert await waits(window)
