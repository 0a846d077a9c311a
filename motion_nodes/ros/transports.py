# SPDX-License-Identifier: Apache-2.0
"""Choice of the middleware's transports: nodes use UDP, also on one machine.

The shared memory of Fast DDS 2.14 couples processes. One that is stopped, starved or killed while
it holds the lock of another one's port delays third processes, and may cut off a pair of them for
good (https://github.com/eProsima/Fast-DDS/issues/5053, 5469). A control loop must not depend on
that. Only processes that handle images keep shared memory beside UDP: it saves copies of megabytes.
With ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST, rmw_fastrtps chooses both transports itself.
"""

from __future__ import annotations

import os

VARIABLE = "FASTDDS_BUILTIN_TRANSPORTS"
"""Environment variable from which Fast DDS reads its transports; others ignore it."""
UDP = "UDPv4?sockets_size=2MB"
"""UDP with room for a burst of fragments; the kernel limits it to ``net.core.rmem_max``."""
CHOSEN = (VARIABLE, "FASTDDS_DEFAULT_PROFILES_FILE", "FASTRTPS_DEFAULT_PROFILES_FILE")
"""Variables by which users choose transports themselves."""


def choose_transports(*, images: bool) -> None:
    """Set the transports of this process, before its first participant is created.

    Args:
        images: whether it publishes or receives images and point clouds.
    """
    if not images and not any(os.environ.get(name) for name in CHOSEN):
        os.environ[VARIABLE] = UDP
