# SPDX-License-Identifier: Apache-2.0
"""``--cluster``: a Dask cluster that computes the parts of batches and of training."""

from __future__ import annotations

import contextlib
import logging
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, InvalidStateError
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
ASK_PERIOD = 2.0
"""Time between two questions whether the scheduler still answers [s]."""
SILENCE = 20.0
"""Max time without an answer of the scheduler [s]; a busy one answers late."""
WORKERLESS = 30.0
"""Max time without a worker [s], in which lost ones may be started again."""
CLOSE_TIMEOUT = 2.0
"""Timeout of closing the connection to a scheduler [s]."""


LOST = "the scheduler was lost"


class Lost(BrokenExecutor):
    """The scheduler, all workers or several in a row were lost; the text says which."""


class _Parts(Executor):
    """An executor that reports how many parts are done, and can give up those that are not."""

    def __init__(self, inner: Executor, report: Callable[[int, int], None]) -> None:
        self._inner, self._report = inner, report
        self._done = self._all = 0
        self._open: set[Future[Any]] = set()
        self._lock = threading.Lock()
        self._lost: Lost | None = None

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit a part."""
        if self._lost is not None:
            raise self._lost
        try:
            remote = self._inner.submit(function, *args, **kwargs)
        except (OSError, RuntimeError) as error:  # of a connection, or a client that closed itself
            raise Lost(str(error) or LOST) from error
        self._all += 1
        future: Future[Any] = Future()  # Dask's own cannot be ended by others
        with self._lock:
            self._open.add(future)
        future.add_done_callback(lambda _: future.cancelled() and remote.cancel())
        remote.add_done_callback(lambda _: self._end(future, remote))
        return future

    def _end(self, future: Future[Any], remote: Future[Any]) -> None:
        with self._lock:
            self._open.discard(future)
            self._done += 1
        with contextlib.suppress(InvalidStateError):  # it was cancelled or given up
            if remote.cancelled():  # by Dask, if not by us
                future.set_exception(Lost(LOST))
            elif error := remote.exception():
                if type(error).__module__.startswith("distributed."):
                    error = Lost(str(error) or LOST)
                elif isinstance(error, OSError):  # not one of this machine
                    error = Lost(f"a part failed on a worker: {error}")
                future.set_exception(error)
            else:
                future.set_result(remote.result())
        if self._lost is None:
            self._report(self._done, self._all)

    def give_up(self, why: str) -> None:
        """End the waiting for all parts with :class:`Lost`."""
        self._lost = Lost(why)
        with self._lock:
            waiting = list(self._open)
        for future in waiting:
            with contextlib.suppress(InvalidStateError):  # it arrived meanwhile
                future.set_exception(self._lost)


def _watch(client: Any, parts: _Parts, end: threading.Event) -> None:
    """Give the parts up when the scheduler is silent or has no workers, until ``end``."""
    answered = worked = time.monotonic()
    while not end.wait(ASK_PERIOD):
        try:
            found = client.sync(client.scheduler.identity, callback_timeout=SILENCE)
        except Exception:  # of the connection, whatever Dask makes of it
            if not end.is_set() and time.monotonic() - answered >= SILENCE:
                parts.give_up(f"the scheduler has not answered for {SILENCE:g} s")
                return
            continue
        answered = time.monotonic()
        worked = answered if found["workers"] else worked
        if answered - worked >= WORKERLESS:
            parts.give_up(
                f"it has had no worker for {WORKERLESS:g} s (a worker without this version of "
                "motion_nodes ends at its first part)"
            )
            return


def _silence(*families: str) -> None:
    """Let loggers of these libraries print nothing."""
    for name in (*families, *logging.root.manager.loggerDict):
        if name.split(".")[0] in families:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)


@contextlib.contextmanager
def cluster(address: str) -> Iterator[Executor | None]:
    """Context manager of a cluster's executor; None without an address.

    After an exception (Ctrl-C) parts that have not begun are cancelled, and nobody waits for the
    others.

    Args:
        address: of the scheduler; empty: none.

    Raises:
        InvalidConfig: Dask is not installed, no scheduler with a worker answers there, or the
            scheduler, all workers or several workers in a row were lost.
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
    _silence("distributed")  # the command reports the cause itself
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

    shown, end = sys.stderr.isatty(), threading.Event()
    inner = client.get_executor(retries=RETRIES, pure=False)
    parts = _Parts(inner, report if shown else quiet)
    watch = threading.Thread(target=_watch, args=(client, parts, end), daemon=True)
    watch.start()
    try:
        yield parts
        inner.shutdown()
    except Lost as error:
        _silence("tornado", "asyncio")  # its futures that are never completed
        raise InvalidConfig(f"--cluster {address}: {error}", field="cluster") from None
    except BaseException:
        inner.shutdown(wait=False)  # which cancels; its exit would wait for all parts
        raise
    finally:
        end.set()
        if shown:
            print(file=sys.stderr)
        with contextlib.suppress(Exception):  # of the connection; nothing is left to be done
            client.close(timeout=CLOSE_TIMEOUT)
