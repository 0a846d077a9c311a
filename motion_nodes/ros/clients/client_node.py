# SPDX-License-Identifier: Apache-2.0
"""A node for commands that ask or listen for a while, and end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import rclpy
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from motion_nodes.ros import signals


@contextmanager
def client_node(name: str) -> Iterator[Node]:
    """Make a node for as long as the block lasts; Ctrl-C sets :data:`signals.STOP` meanwhile.

    Args:
        name: beginning of its name; several processes may use the same.
    """
    signals.stop_quietly()
    signals.nodes_exist()
    # Ctrl-C ends what the block does; the middleware may still be needed to say so.
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    node = Node(f"{name}_{os.getpid()}", use_global_arguments=False)
    try:
        yield node
    finally:
        node.destroy_node()
        rclpy.try_shutdown()
