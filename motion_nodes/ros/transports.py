# SPDX-License-Identifier: Apache-2.0
"""Choice of the middleware's transports: nodes use UDP, also on one machine.

The shared memory of Fast DDS 2.14 couples processes. One that is stopped, starved or killed while
it holds the lock of another one's port delays third processes, and may cut off a pair of them for
good (https://github.com/eProsima/Fast-DDS/issues/5053, 5469). A control loop must not depend on
that. Only processes that handle images keep shared memory beside UDP: it saves copies of megabytes.
"""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "FASTDDS_BUILTIN_TRANSPORTS"
"""Environment variable from which Fast DDS reads its transports; others ignore it."""
UDP = "UDPv4?sockets_size=2MB"
"""UDP with room for a burst of fragments; the kernel limits it to ``net.core.rmem_max``."""
PROFILES = ("FASTRTPS_DEFAULT_PROFILES_FILE", "FASTDDS_DEFAULT_PROFILES_FILE")
"""Environment variables of the profiles of Fast DDS 2 and 3."""
CHOSEN = (VARIABLE, *PROFILES)
"""Variables by which users choose transports themselves."""
RANGE = "ROS_AUTOMATIC_DISCOVERY_RANGE"
"""Environment variable of ROS 2: the hosts whose participants are discovered."""
LOOPBACK = Path(__file__).with_name("loopback_transport.xml")
"""Profile of Fast DDS: UDP on the loopback interface only."""
SUITE = Path(__file__).with_name("suite_profile.xml")
"""Profile of Fast DDS: participants find each other within 0.5 instead of 3 s; endpoints allocate
samples on demand."""


def choose_transports(*, images: bool) -> None:
    """Set the transports of this process, before its first participant is created.

    With the discovery range LOCALHOST, rmw_fastrtps would always add shared memory. The profile
    :data:`LOOPBACK` restricts participants to this machine instead.

    Args:
        images: whether it publishes or receives images and point clouds.
    """
    if images or any(os.environ.get(name) for name in CHOSEN):
        return
    fast_dds = os.environ.get("RMW_IMPLEMENTATION", "") in ("", "rmw_fastrtps_cpp")
    peers = os.environ.get("ROS_STATIC_PEERS")
    if fast_dds and os.environ.get(RANGE) == "LOCALHOST" and not peers:
        os.environ.update(dict.fromkeys(PROFILES, str(LOOPBACK)), **{RANGE: "SUBNET"})
        return
    os.environ[VARIABLE] = UDP
    if fast_dds:
        os.environ.update(dict.fromkeys(PROFILES, str(SUITE)))
