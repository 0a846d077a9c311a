# SPDX-License-Identifier: Apache-2.0
"""``--cluster``: a Dask cluster that computes the parts of batches and of training."""

from __future__ import annotations

import contextlib
import re
import socket
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future
from typing import Annotated, Any

import typer

from motion_nodes.errors import InvalidConfig

ClusterOption = Annotated[
    str,
    typer.Option(
        "--cluster", help="Address of a Dask scheduler, such as tcp://10.0.0.1:8786, that computes."
    ),
]
_ADDRESS = re.compile(r"(?:(?:tcp|tls)://)?\[?([\w.:-]+?)\]?:(\d{1,6})")
CONNECT_TIMEOUT = 10.0
"""Time in which the scheduler must answer and have a worker [s]."""
RETRIES = 2
"""Repetitions of a part that raised; parts of lost workers are always computed again."""


class _Counted(Executor):
    """An executor that reports how many parts are done."""

    def __init__(self, inner: Executor, report: Callable[[int, int], None]) -> None:
        self._inner, self._report = inner, report
        self._done = self._all = 0

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit a part."""
        self._all += 1
        future = self._inner.submit(function, *args, **kwargs)
        future.add_done_callback(self._count)
        return future

    def _count(self, _: Future[Any]) -> None:
        self._done += 1
        self._report(self._done, self._all)


@contextlib.contextmanager
def cluster(address: str) -> Iterator[Executor | None]:
    """Context manager of a cluster's executor; None without an address.

    After an exception (Ctrl-C) parts that have not begun are cancelled, and nobody waits for the
    others.

    Args:
        address: of the scheduler; empty: none.

    Raises:
        InvalidConfig: Dask is not installed, no scheduler with a worker answers there, or the
            scheduler or several workers in a row were lost.
    """
    if not address:
        yield None
        return
    try:
        from distributed import Client
    except ImportError:
        raise InvalidConfig(
            "Dask is not installed; run: pip install 'motion-nodes[cluster]'"
        ) from None
    place = _ADDRESS.fullmatch(address)
    if place is None:
        raise InvalidConfig(f"--cluster {address}: give tcp://HOST:PORT", field="cluster")
    try:
        # Before Dask, whose client keeps threads that still connect after its timeout.
        socket.create_connection((place[1], int(place[2])), CONNECT_TIMEOUT).close()
        client = Client(address, timeout=CONNECT_TIMEOUT, set_as_default=False)
        client.wait_for_workers(1, timeout=CONNECT_TIMEOUT)
    except (OSError, ValueError, TypeError, OverflowError) as error:  # a timeout is an OSError
        why = " ".join(str(error).split()) or "no answer"
        raise InvalidConfig(f"--cluster {address}: {why}", field="cluster") from None

    def report(done: int, count: int) -> None:
        print(f"\rmotion: {done} of {count} parts", end="", file=sys.stderr, flush=True)

    def quiet(done: int, count: int) -> None:
        pass

    shown = sys.stderr.isatty()
    with client, client.get_executor(retries=RETRIES, pure=False) as inner:
        try:
            yield _Counted(inner, report if shown else quiet)
        except BaseException as error:
            inner.shutdown(wait=False)  # which cancels; its exit would wait for all parts
            lost = isinstance(error, CancelledError)  # the scheduler
            if lost or type(error).__module__.startswith("distributed."):
                why = str(error) or "it was lost"
                raise InvalidConfig(f"--cluster {address}: {why}", field="cluster") from None
            raise
        finally:
            if shown:
                print(file=sys.stderr)
