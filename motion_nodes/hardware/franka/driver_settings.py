# SPDX-License-Identifier: Apache-2.0
"""Settings of the driver of Franka arms."""

from __future__ import annotations

from dataclasses import dataclass

from motion_nodes.model.setting import check_settings, setting


@dataclass(frozen=True)
class FrankaSettings:
    """The block ``hardware.settings``.

    Raises:
        InvalidConfig: a value out of its range.
    """

    joints: tuple[str, ...] = ()
    """The seven joints from the base on; empty: those of the arm that are revolute."""
    fingers: tuple[str, ...] = ()
    """The two joints of the hand; empty: those of the gripper, if there are two."""
    hand: bool = True
    """Connect to the Franka Hand; false: no hand, its joints are not reported."""
    rate: float = setting(
        250.0,
        doc="Rate of the references; torques are computed from the last one at 1 kHz.",
        unit="Hz",
        ge=20.0,
        le=1000.0,
    )
    stiffness: tuple[float, float, float, float, float, float, float] = setting(
        (600.0, 600.0, 600.0, 600.0, 250.0, 150.0, 50.0),
        doc="Stiffness of the joints.",
        unit="N m/rad",
        gt=0.0,
        le=2000.0,
    )
    damping: tuple[float, float, float, float, float, float, float] = setting(
        (40.0, 50.0, 40.0, 40.0, 12.0, 10.0, 5.0),
        doc="Damping of the joints; higher values cause oscillations where cycles of 1 ms are "
        "late.",
        unit="N m s/rad",
        ge=0.0,
        le=200.0,
    )
    integral_gain: float = setting(
        1.0,
        doc="Integral gain: rate at which position errors shift the targets, against friction and "
        "an inexact payload; 0: off.",
        unit="1/s",
        ge=0.0,
        le=10.0,
    )
    integral_torque: float = setting(
        4.0, doc="Max joint torque of that shift.", unit="N m", ge=0.0, le=20.0
    )
    torque_threshold: float = setting(
        20.0, doc="External torque of a joint that stops the robot.", unit="N m", gt=0.0, le=100.0
    )
    force_threshold: float = setting(
        30.0, doc="External force at the tool that stops the robot.", unit="N", gt=0.0, le=100.0
    )
    link_timeout: float = setting(
        0.2, doc="Time without a new state after which the link is lost.", unit="s", ge=0.01, le=5.0
    )
    realtime: str = setting(
        "auto",
        doc="Real-time scheduling of the 1 kHz loop: enforce, ignore, or auto: enforce on a kernel "
        "with PREEMPT_RT.",
        one_of=("auto", "enforce", "ignore"),
    )
    grasp_force: float = setting(
        20.0, doc="Force of the hand when it closes.", unit="N", gt=0.0, le=140.0
    )

    def __post_init__(self) -> None:
        """Check the settings."""
        check_settings(self)
