# SPDX-License-Identifier: Apache-2.0
"""Calls a function in a child process, so that its imports do not stay in memory."""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
import threading
import warnings
from collections.abc import Callable
from typing import TypeVar, cast

from motion_nodes.errors import MotionError

T = TypeVar("T")


def fork() -> int:
    """Fork as :func:`os.fork`, without the warning of Python 3.12 and later about other threads.

    Those are native ones of libraries (OpenBLAS, tracing of ROS) that the child does not need; the
    callers have no other threads of Python.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def forked_call(function: Callable[[], T]) -> T:
    """Call a function in a fork of this process and return its result.

    If this process has other threads, which a fork would lose, it is called in this process.

    Args:
        function: without arguments; its result can be pickled.

    Raises:
        MotionError: the function raised one; with its text.
        SystemExit: the function raised one; with its code.
        RuntimeError: the child ended without a result; its traceback was printed.
    """
    if threading.active_count() > 1:
        return function()
    sys.stdout.flush()
    sys.stderr.flush()
    reader, writer = os.pipe()
    child = fork()
    if not child:
        os.close(reader)
        _send_result(function, writer)
    os.close(writer)
    with open(reader, "rb") as pipe:
        content = pipe.read()
    os.waitpid(child, 0)
    if not content:
        raise RuntimeError(f"child process {child} ended without a result")
    result, refusal, end = pickle.loads(content)
    if refusal is not None:
        raise MotionError(refusal)
    if end is not None:
        raise end
    return cast(T, result)


def _send_result(function: Callable[[], T], writer: int) -> None:
    """Write result or error of a function, and exit without the clean-up of the parent."""
    code = 1
    try:
        try:
            content = pickle.dumps((function(), None, None))
        except MotionError as error:
            content = pickle.dumps((None, str(error), None))
        except SystemExit as end:
            content = pickle.dumps((None, None, end))
        # Ctrl-C ends the parent, too.
        with contextlib.suppress(BrokenPipeError), open(writer, "wb") as pipe:
            pipe.write(content)
        code = 0
    except Exception:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
