# SPDX-License-Identifier: Apache-2.0
"""Dry runs awaiting confirmation: each motion is planned and described before it is executed.

The token of a dry run is valid once, for the same function and arguments, and for a limited time.
A motion of the robot or a stop invalidates all tokens: their plans start from another state.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from motion_nodes.errors import InvalidCommand

LIFETIME = 300.0
"""Lifetime of a token [s]."""
MAX_WAITING = 20
"""Max number of dry runs awaiting confirmation; the oldest is dropped."""

Perform = Callable[[Callable[[str], None]], dict[str, Any]]
"""Executes a plan and returns the result; progress goes to the given function."""


@dataclass(frozen=True)
class DryRun:
    """Dry run awaiting confirmation."""

    function: str
    arguments: Mapping[str, Any]
    perform: Perform
    expires: float
    """Time of expiry [s]."""


class DryRuns:
    """Dry runs by token; thread-safe."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """Create without dry runs; ``now`` returns the time [s]."""
        self._now, self._lock = now, threading.Lock()
        self._waiting: dict[str, DryRun] = {}
        self._dropped = ""
        """Reason of the last invalidation."""
        self.cleared = 0
        """Number of invalidations."""

    def add(
        self,
        function: str,
        arguments: Mapping[str, Any],
        perform: Perform,
        cleared: int | None = None,
    ) -> str:
        """Add a dry run and return its token.

        Args:
            function: name of the function.
            arguments: arguments of the function, without ``dry_run`` and ``token``.
            perform: executes the plan.
            cleared: :attr:`cleared` before its planning; None: now.

        Raises:
            InvalidCommand: dry runs were invalidated during its planning.
        """
        token = secrets.token_hex(4)
        with self._lock:
            if cleared not in (None, self.cleared):
                raise InvalidCommand(
                    f"{function} was planned from another state ({self._dropped} meanwhile); make "
                    "a new dry run"
                )
            self._waiting[token] = DryRun(
                function, dict(arguments), perform, self._now() + LIFETIME
            )
            while len(self._waiting) > MAX_WAITING:
                del self._waiting[next(iter(self._waiting))]
        return token

    def take(self, token: str | None, function: str, arguments: Mapping[str, Any]) -> Perform:
        """Return the function that executes a dry run, and invalidate its token.

        Raises:
            InvalidCommand: the token is missing, unknown, used, invalidated or expired, or belongs
                to another function or to other arguments.
        """
        with self._lock:
            if token is None:
                raise InvalidCommand(
                    f"{function} moves the robot only with the token of a dry run: call it with "
                    "dry_run true, read the description, then call it again with dry_run false, "
                    "the same arguments and the token"
                )
            found = self._waiting.get(token)
            if found is None:
                why = f" ({self._dropped})" if self._dropped else ""
                raise InvalidCommand(
                    f"no dry run has the token '{token[:20]}': tokens are valid once, and only "
                    f"until the robot moves or is stopped{why}; make a new dry run"
                )
            if (found.function, found.arguments) != (function, dict(arguments)):
                differ = [key for key, value in arguments.items()
                          if found.arguments.get(key) != value]  # fmt: skip
                what = f"other values of {', '.join(differ)}" if differ else "other arguments"
                if found.function != function:
                    what = f"the function {found.function}"
                raise InvalidCommand(f"the token belongs to {what}; make a new dry run")
            del self._waiting[token]
            if self._now() > found.expires:
                raise InvalidCommand(
                    f"the dry run is older than {LIFETIME:g} s; make a new dry run", field="token"
                )
            return found.perform

    def clear(self, why: str) -> None:
        """Invalidate all dry runs."""
        with self._lock:
            self._waiting.clear()
            self._dropped = why
            self.cleared += 1
