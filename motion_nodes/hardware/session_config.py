# SPDX-License-Identifier: Apache-2.0
"""Settings of a driver session."""

from __future__ import annotations

from dataclasses import dataclass

from motion_nodes.model.setting import check_settings, setting


@dataclass(frozen=True, kw_only=True)
class SessionConfig:
    """Rules for the motion of a real robot.

    Raises:
        InvalidConfig: a value out of its range.
    """

    auto_enable: bool = setting(
        True,
        doc="Enable the drives as soon as the references agree with the measured positions; false: "
        "only on request.",
    )
    dry_run: bool = setting(False, doc="Read and report, but never enable or move the robot.")
    speed: float = setting(
        1.0,
        doc="Fraction of the velocity limits that the robot may use; below 1 for first motions.",
        gt=0.0,
        le=1.0,
    )
    command_latency: float = setting(
        0.02,
        doc="Delay between the stamp of a reference and its effect. Two periods of the stream "
        "tolerate a message that is one period late.",
        unit="s",
        ge=0.0,
        le=0.5,
    )
    command_timeout: float = setting(
        0.1,
        doc="Time without joint_command after which the robot is braked.",
        unit="s",
        gt=0.0,
        le=10.0,
    )
    max_delay: float = setting(
        0.5,
        doc="Max delay of the references by late cycles of the driver; a longer one is a fault.",
        unit="s",
        gt=0.0,
        le=10.0,
    )
    enable_tolerance: float = setting(
        0.05,
        doc="Max deviation of the references from the measured positions when the drives are "
        "enabled.",
        unit="rad or m",
        gt=0.0,
        le=1.0,
    )
    max_jump: float = setting(
        0.1,
        doc="Max step of a reference in excess of the velocity limits; a larger one is a fault.",
        unit="rad or m",
        gt=0.0,
        le=10.0,
    )
    max_missed_reads: int = setting(5, doc="Max number of consecutive failed reads.", ge=0, le=100)

    def __post_init__(self) -> None:
        """Check the settings."""
        check_settings(self)
