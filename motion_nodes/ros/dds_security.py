# SPDX-License-Identifier: Apache-2.0
"""DDS security is enforced if it is enabled, or the process does not start.

With ``ROS_SECURITY_ENABLE``, ROS 2 runs without security where keys are missing, unless
``ROS_SECURITY_STRATEGY`` is ``Enforce`` (https://design.ros2.org/articles/ros2_dds_security.html).
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from motion_nodes.errors import MotionError


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
