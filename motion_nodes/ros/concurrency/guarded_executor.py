# SPDX-License-Identifier: Apache-2.0
"""An executor that continues after exceptions of callbacks.

rclpy's executor raises the exceptions of callbacks from ``spin``. An exception while a message or
request is taken, such as for a text that is not UTF-8, leaves its callback group permanently
busy: the node's services never respond again.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

from rclpy._rclpy_pybind11 import InvalidHandle
from rclpy.logging import get_logger

from motion_nodes.ros.concurrency.lean_executor import LeanExecutor


class GuardedExecutor(LeanExecutor):
    """Logs exceptions of callbacks to their node's logger, and continues to spin.

    MemoryError, and exceptions that are not an Exception, are still raised.
    """

    def _make_handler(
        self, entity: Any, node: Any, take_from_wait_list: Callable[[Any], Any]
    ) -> Any:
        """Create a handler that does not raise; overrides rclpy's (same in Jazzy and Kilted)."""

        def take(taken: Any) -> Any:
            try:
                work = take_from_wait_list(taken)
            except (MemoryError, InvalidHandle):
                raise
            except Exception as error:
                _report(node, entity, "a message cannot be read", error)
                return None
            return None if work is None else guarded(work)

        def guarded(work: Callable[[], Any]) -> Callable[[], Any]:
            async def run() -> None:
                try:
                    await work()
                except (MemoryError, InvalidHandle):
                    raise
                except Exception as error:
                    _report(node, entity, "a callback failed", error)

            return run

        return super()._make_handler(entity, node, take)  # type: ignore[misc]


def _report(node: Any, entity: Any, what: str, error: Exception) -> None:
    logger = get_logger("motion_nodes") if node is None else node.get_logger()
    names = (getattr(entity, name, None) for name in ("srv_name", "topic_name", "topic", "name"))
    name = next((str(n) for n in names if n), type(entity).__name__)
    text = "".join(traceback.format_exception(error))
    logger.error(f"{what} ({name}):\n{text}")
