# SPDX-License-Identifier: Apache-2.0
"""A short-lived node, for commands."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import rclpy
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from motion_nodes.ros import signals
from motion_nodes.ros.log_folder import init_arguments


@contextmanager
def client_node(name: str) -> Iterator[Node]:
    """Context manager of a node; Ctrl-C sets :data:`signals.STOP` meanwhile.

    Args:
        name: prefix of the node name, followed by the process id.
    """
    signals.stop_quietly()
    signals.nodes_exist()
    # The block handles Ctrl-C; it may still use the middleware, for example to cancel a goal.
    rclpy.init(args=init_arguments([]), signal_handler_options=SignalHandlerOptions.NO)
    node = Node(f"{name}_{os.getpid()}", use_global_arguments=False)
    try:
        yield node
    finally:
        node.destroy_node()
        rclpy.try_shutdown()
