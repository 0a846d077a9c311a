# SPDX-License-Identifier: Apache-2.0
"""Modes and errors of a Franka robot, with remedies.

Source: Franka Robotics, "Franka Control Interface documentation", libfranka ``errors.h``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

RESET = "remove the cause, then reset"
_ERRORS = {
    "joint_position_limits_violation": "move the joint back by hand in guiding mode, then reset",
    "cartesian_position_limits_violation": "move the arm back by hand in guiding mode, then reset",
    "self_collision_avoidance_violation": "move the arm apart by hand in guiding mode, then reset",
    "joint_velocity_violation": "a joint was too fast; near its ends an FR3 permits less: lower "
    "--speed, then reset",
    "cartesian_velocity_violation": "the tool was too fast: lower --speed, then reset",
    "joint_reflex": "a joint met an external torque above torque_threshold: free the arm; are the "
    "hand and payload right in Desk? Then reset",
    "cartesian_reflex": "the tool met an external force above force_threshold: free the arm; are "
    "the hand and payload right in Desk? Then reset",
    "communication_constraints_violation": "the computer or the network was late: use a kernel "
    "with PREEMPT_RT and a cable without a switch, then reset",
    "power_limit_violation": "the motion needs too much power: lower --speed, then reset",
    "controller_torque_discontinuity": "lower the stiffness, then reset",
    "tau_j_range_violation": "a joint is overloaded: is the payload right in Desk? Then reset",
    "instability_detected": "lower the stiffness, then reset",
}
_MODES = {
    "UserStopped": "the robot is stopped by a person: release the emergency stop or the enabling "
    "switch, and activate FCI in Desk",
    "Guiding": "the robot is guided by hand",
    "Other": "the robot is not ready: unlock the joints and activate FCI in Desk",
}
_STARTING = "AutomaticErrorRecovery"


def errors_in(text: object) -> tuple[str, ...]:
    """Return the names of errors in libfranka's text, such as ``["joint_reflex"]``."""
    return tuple(dict.fromkeys(re.findall(r'"(\w+)"', str(text))))


def error_faults(errors: Iterable[str]) -> tuple[str, ...]:
    """Return errors as text, with remedies.

    Args:
        errors: names of libfranka's errors.
    """
    return tuple(f"{name}: {_ERRORS.get(name, RESET)}" for name in errors)


def mode_fault(mode: str) -> str:
    """Return why a mode prevents motion; empty if it does not.

    Args:
        mode: name of libfranka's RobotMode.
    """
    if mode == "Reflex":
        return f"the robot has braked by a reflex: {RESET}"
    if mode == _STARTING:
        return "the robot recovers from an error"
    return _MODES.get(mode, "")


def control_fault(text: str) -> str:
    """Return why a motion ended, from the text of libfranka's exception."""
    found = error_faults(errors_in(text))
    if found:
        return ", ".join(found)
    first = text.replace("libfranka: ", "").splitlines()[0].strip() if text.strip() else ""
    return f"the robot ended the control: {first or 'no reason given'}; {RESET}"


def error_text(error: BaseException) -> str:
    """Return the text of an exception of franky."""
    return str(error).replace("libfranka: ", "").strip() or type(error).__name__
