# SPDX-License-Identifier: Apache-2.0
"""Choice of the middleware's transports: nodes use UDP, also on one machine.

The shared memory of Fast DDS 2.14 couples processes. One that is stopped, starved or killed while
it holds the lock of another one's port delays third processes, and may cut off a pair of them for
good (https://github.com/eProsima/Fast-DDS/issues/5053, 5469). A control loop must not depend on
that. Only processes that handle images keep shared memory beside UDP: it saves copies of megabytes.

DDS security is enforced if it is enabled, or the process does not start. With
``ROS_SECURITY_ENABLE``, ROS 2 runs without security where keys are missing, unless
``ROS_SECURITY_STRATEGY`` is ``Enforce`` (https://design.ros2.org/articles/ros2_dds_security.html).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from motion_nodes.errors import MotionError

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


def check_security(environment: Mapping[str, str] | None = None) -> None:
    """Reject settings that enable security without enforcing it.

    Args:
        environment: environment variables; None for those of this process.

    Raises:
        MotionError: security is enabled without keys, or is not enforced.
    """
    variables = os.environ if environment is None else environment
    if variables.get("ROS_SECURITY_ENABLE", "").lower() != "true":
        return
    if variables.get("ROS_SECURITY_STRATEGY") != "Enforce":
        raise MotionError(
            "ROS_SECURITY_ENABLE is true, but ROS_SECURITY_STRATEGY is not 'Enforce': nodes "
            "without keys would run unprotected. Set it to Enforce, or the former to false."
        )
    if not variables.get("ROS_SECURITY_KEYSTORE"):
        raise MotionError(
            "ROS_SECURITY_ENABLE is true, but ROS_SECURITY_KEYSTORE names no key store; make one "
            "with 'ros2 security create_keystore', or set ROS_SECURITY_ENABLE to false."
        )


def explained(text: str) -> str:
    """Return an error text of the middleware, with a hint if it is built without security."""
    if "security libraries" not in text:
        return text
    return (
        f"{text}. The Fast DDS of the PyPI wheels is built without DDS security: run the suite in "
        "an apt installation of ROS 2, or set ROS_SECURITY_ENABLE to false (docs/security.md)"
    )
