# SPDX-License-Identifier: Apache-2.0
"""Streams without pauses, which tests of preemption depend on.

A pause begins a new command. If this process pauses, as it may on a loaded machine, nothing was
tested, and the test begins anew.
"""

import contextlib
import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from patience import ATTEMPTS
from ros_client import RosClient

from motion_nodes.core.control.joint_command import STREAM_PAUSE


class StreamPaused(Exception):
    """A stream paused for almost as long as begins a new command."""


@contextlib.contextmanager
def streamed(
    client: RosClient, send: Callable[[], None], *, pause: float = STREAM_PAUSE, rate: float = 50.0
) -> Iterator[None]:
    """Send messages while the client waits.

    Args:
        client: whose executor sends them.
        send: sends one.
        pause: that begins a new command [s].
        rate: of the messages [Hz].

    Raises:
        StreamPaused: the messages paused for 0.8 ``pause``; also raised by waits of the client.
    """
    last: list[float] = []

    def check() -> None:
        now = time.monotonic()
        if last and now - last[0] > 0.8 * pause:
            raise StreamPaused
        last[:] = [now]

    def checked() -> None:
        check()
        send()

    timer = client.node.create_timer(1.0 / rate, checked)
    try:
        yield
    finally:
        client.node.destroy_timer(timer)
        check()  # a failure in a stream that paused says nothing


def begun_anew_after_pauses(test: Callable[..., None]) -> Callable[..., None]:
    """Decorate a test to begin anew when one of its streams paused.

    One of its fixtures has ``begin_anew()``, which brings the robot back.
    """

    @functools.wraps(test)
    def attempts(**fixtures: Any) -> None:
        tested = next(each for each in fixtures.values() if hasattr(each, "begin_anew"))
        for _ in range(ATTEMPTS):
            try:
                return test(**fixtures)
            except StreamPaused:
                tested.begin_anew()
        pytest.fail("this machine is too busy to stream without pauses")

    return attempts
