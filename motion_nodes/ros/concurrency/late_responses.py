# SPDX-License-Identifier: Apache-2.0
"""Repetition of responses to clients that are not completely discovered yet.

The first request of a new client may arrive before its reader of responses is discovered. The
middleware then waits for at most 100 ms, drops the response, and rclpy only warns: the client never
gets it. Such responses are sent again by a thread, without blocking the executor or other service
threads.
"""

from __future__ import annotations

import contextlib
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from rclpy._rclpy_pybind11 import InvalidHandle, RCLError

DISCOVERY_TIMEOUT = 1.0
"""[s] Timeout after which a repeated response counts as lost."""
FIRST_PAUSE = 0.02
"""[s] Pause before the first repetition; each one doubles it, because a send may block the GIL."""
MAX_LATE = 16
"""Max number of responses of a process that are repeated at the same time."""

_late = threading.BoundedSemaphore(MAX_LATE)


class _SendTimeouts(threading.local):
    """Pattern of a warning filter: the warning by which rclpy reports an undelivered response.

    It matches only in a thread that is sending a response of ours.
    """

    sending = False

    def match(self, text: str) -> bool:
        return self.sending and text.startswith("failed to send response (timeout)")


_TIMEOUTS = _SendTimeouts()
_FILTER: Any = ("error", _TIMEOUTS, RuntimeWarning, None, 0)


class Undelivered(Exception):
    """A response was not sent, because its client is not discovered yet."""


@contextlib.contextmanager
def undelivered_raises() -> Iterator[None]:
    """Raise :class:`Undelivered` where rclpy would only warn, in this thread.

    Raises:
        Undelivered: the client of a response that was sent is not discovered.
    """
    # Code that saves and restores the filters, such as pytest, may have removed ours.
    if _FILTER not in warnings.filters:
        warnings.filters.insert(0, _FILTER)  # type: ignore[attr-defined]
        warnings._filters_mutated()  # type: ignore[attr-defined]
    before, _TIMEOUTS.sending = _TIMEOUTS.sending, True
    try:
        yield
    except (RuntimeWarning, SystemError) as error:
        # rclpy returns from C++ with the exception set, which Python turns into a SystemError.
        if isinstance(error.__cause__ or error, RuntimeWarning):
            raise Undelivered from error
        raise
    finally:
        _TIMEOUTS.sending = before


def deliver(send: Callable[[], None], lost: Callable[[], None]) -> None:
    """Send a response; if its client is not discovered yet, it is repeated by a thread.

    Args:
        send: sends the response by rclpy; may be called in another thread.
        lost: see :func:`repeat`.

    Raises:
        Exception: another error of ``send`` at the first attempt.
    """
    try:
        with undelivered_raises():
            send()
    except Undelivered:
        repeat(send, lost)


def repeat(send: Callable[[], None], lost: Callable[[], None]) -> None:
    """Repeat a response whose client was not discovered, in a thread.

    Args:
        send: sends the response by rclpy.
        lost: called if the client is not discovered within :data:`DISCOVERY_TIMEOUT`, or if too
            many responses are late; thread-safe.
    """
    if not _late.acquire(blocking=False):
        lost()
        return
    threading.Thread(target=_repeat, args=(send, lost), name="late response", daemon=True).start()


def deliver_late_responses(service: Any, lost: Callable[[], None]) -> None:
    """Make an rclpy service send its responses by :func:`deliver`, until it is destroyed.

    Args:
        service: the service.
        lost: see :func:`repeat`.
    """
    send = service.send_response

    def send_response(response: Any, header: Any) -> None:
        # A coroutine may respond after its service was destroyed.
        with contextlib.suppress(InvalidHandle):
            deliver(lambda: send(response, header), lost)

    service.send_response = send_response


def _repeat(send: Callable[[], None], lost: Callable[[], None]) -> None:
    """Repeat a response until it is delivered, its service has ended, or time is up."""
    end, pause = time.monotonic() + DISCOVERY_TIMEOUT, FIRST_PAUSE
    try:
        # The service or the context may be destroyed meanwhile.
        with contextlib.suppress(InvalidHandle, RCLError):
            while time.monotonic() < end:
                time.sleep(pause)
                pause *= 2
                with contextlib.suppress(Undelivered), undelivered_raises():
                    send()
                    return
            lost()
    finally:
        _late.release()
