# SPDX-License-Identifier: Apache-2.0
"""Settings of the driver of Universal Robots."""

from __future__ import annotations

from dataclasses import dataclass

from motion_nodes.model.setting import check_settings, setting


@dataclass(frozen=True)
class UniversalRobotsSettings:
    """The block ``hardware.settings``."""

    joints: tuple[str, ...] = ()
    """The six joints from the base on; empty: those of the arm."""
    model: str = ""
    """Required model of the controller, such as UR5e; empty: the robot's name, if it is a model."""
    rate: float = setting(
        250.0,
        doc="Rate of the commands; the program on the controller moves the arm at its own rate.",
        unit="Hz",
        ge=20.0,
        le=500.0,
    )
    lookahead_time: float = setting(
        0.05, doc="Argument of servoj: smooths the motion.", unit="s", ge=0.03, le=0.2
    )
    gain: float = setting(500.0, doc="Argument of servoj: stiffness.", ge=100.0, le=2000.0)
    deceleration: float = setting(
        4.0,
        doc="Deceleration when commands stop or the arm is held.",
        unit="rad/s^2",
        gt=0.0,
        le=40.0,
    )
    max_silence: float = setting(
        0.05,
        doc="Time for which a moving arm continues with its last velocity without a command; then "
        "it brakes.",
        unit="s",
        ge=0.01,
        le=0.5,
    )
    link_timeout: float = setting(
        0.1, doc="Time without data after which the link is lost.", unit="s", ge=0.01, le=1.0
    )
    power_on: bool = False
    """Power the arm on and release its brakes when it is enabled; false: on the pendant."""
    rtde_port: int = setting(30004, doc="TCP port of RTDE.", ge=1, le=65535)
    script_port: int = setting(30002, doc="TCP port that accepts URScript.", ge=1, le=65535)
    dashboard_port: int = setting(
        29999, doc="TCP port of the dashboard server; 0: not used.", ge=0, le=65535
    )

    def __post_init__(self) -> None:
        """Check the settings."""
        check_settings(self)
