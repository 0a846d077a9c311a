# SPDX-License-Identifier: Apache-2.0
"""Entry point of the ``motion`` command.

``motion up`` watches its suite for as long as it runs. Its options are read in a child process, so
that the libraries of the command line do not stay in the memory of the supervisor.
"""

from __future__ import annotations

import errno
import logging
import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from motion_nodes.bringup.forked_call import forked_call
from motion_nodes.errors import MotionError

if TYPE_CHECKING:
    from motion_nodes.bringup.suite import SuiteOptions


_OF_OUTPUT = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of a write without a file name: to stdout, since our own files are named."""
_PIPE_ENDED = 128 + signal.SIGPIPE
"""Exit code if the reader of a pipe, such as ``head``, has ended: that of the shell."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; errors of the user are printed in one line, without a traceback.

    Exit codes: 0 success, 1 no solution, 2 invalid usage.

    Args:
        arguments: command-line arguments; None for those of the process.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    logging.basicConfig(format="motion: %(message)s", level=logging.WARNING)
    try:
        if words[:1] == ["up"] and "--help" not in words:
            sys.exit(_run_suite(words))
        from motion_nodes.cli.app import app

        out = _stdout()
        try:
            app(words)
        except SystemExit:
            if _stdout() != out:  # click and rich replace it when the reader of a pipe has ended
                sys.exit(_PIPE_ENDED)
            raise
        finally:
            if sys.stdout is not None:  # closed by the caller
                sys.stdout.flush()
    except MotionError as error:
        print(f"motion: {error}", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        if error.filename is not None or error.errno not in _OF_OUTPUT:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the rest of it
        if error.errno == errno.EPIPE:  # the reader of a pipe, such as `head`, has ended
            sys.exit(_PIPE_ENDED)
        print(f"motion: the output cannot be written: {error.strerror}.", file=sys.stderr)
        sys.exit(2)


def _stdout() -> tuple[object, int]:
    """Return what identifies the standard output: the object, and the file behind it."""
    try:
        return sys.stdout, os.fstat(1).st_ino
    except OSError:  # closed by the caller
        return sys.stdout, 0


def _run_suite(words: list[str]) -> int:
    """Run the suite of ``motion up``; return the exit code."""
    try:
        # Before the template imports the message packages.
        forked_call(_ensure_ros)
        from motion_nodes.bringup.process_template import ProcessTemplate

        with ProcessTemplate() as template:
            from motion_nodes.bringup.suite import run_suite

            return run_suite(lambda: _options(words), template)
    except KeyboardInterrupt:  # before the suite has started
        return 130


def _ensure_ros() -> None:
    from motion_nodes.cli.ros_setup import ensure_ros

    ensure_ros()


def _options(words: list[str]) -> SuiteOptions:
    from motion_nodes.cli.app import options_of_up

    return options_of_up(words)


if __name__ == "__main__":
    main()
