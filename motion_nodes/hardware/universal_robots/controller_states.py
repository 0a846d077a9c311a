# SPDX-License-Identifier: Apache-2.0
"""States of a controller of Universal Robots, with remedies.

Source: Universal Robots, "Real-Time Data Exchange (RTDE) Guide" and the e-Series user manual.
"""

from __future__ import annotations

RUNNING = 7
"""Robot mode: powered, brakes released."""
ROBOT_MODES = {
    -1: "NO_CONTROLLER", 0: "DISCONNECTED", 1: "CONFIRM_SAFETY", 2: "BOOTING", 3: "POWER_OFF",
    4: "POWER_ON", 5: "IDLE", 6: "BACKDRIVE", RUNNING: "RUNNING", 8: "UPDATING_FIRMWARE",
}  # fmt: skip

STOPPED, PLAYING = 1, 2
"""Runtime states."""
RUNTIME_STATES = {0: "STOPPING", STOPPED: "STOPPED", PLAYING: "PLAYING", 3: "PAUSING", 4: "PAUSED",
                  5: "RESUMING"}  # fmt: skip

PROTECTIVE_STOP = 3
_WORKING = (1, 2)
_SAFETY = {
    PROTECTIVE_STOP: ("PROTECTIVE_STOP", "remove the cause, wait 5 s, then reset"),
    4: ("RECOVERY", "move the arm back within its limits on the pendant"),
    5: ("SAFEGUARD_STOP", "clear the safeguarded area, then reset"),
    6: ("SYSTEM_EMERGENCY_STOP", "release the emergency stop of the system, then reset"),
    7: ("ROBOT_EMERGENCY_STOP", "release the emergency stop button, then reset"),
    8: ("VIOLATION", "restart the safety system on the pendant"),
    9: ("FAULT", "restart the safety system on the pendant; see its log"),
    10: ("VALIDATE_JOINT_ID", "follow the pendant"),
    11: ("UNDEFINED_SAFETY_MODE", "see the pendant"),
    12: ("AUTOMATIC_MODE_SAFEGUARD_STOP", "clear the safeguarded area, then reset"),
    13: ("SYSTEM_THREE_POSITION_ENABLING_STOP", "press the enabling device half, then reset"),
}


def safety_fault(status: int) -> str:
    """Return a safety status as text; empty if motion is permitted."""
    if status in _WORKING:
        return ""
    name, advice = _SAFETY.get(status, (f"safety status {status}", "see the pendant"))
    return f"{name}: {advice}"


def mode_name(mode: int) -> str:
    """Return the vendor's name of a robot mode."""
    return ROBOT_MODES.get(mode, f"robot mode {mode}")


def runtime_name(state: int) -> str:
    """Return the vendor's name of a runtime state."""
    return RUNTIME_STATES.get(state, f"runtime state {state}")
