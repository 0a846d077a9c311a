# SPDX-License-Identifier: Apache-2.0
"""Parameters of the task server."""

from __future__ import annotations

import dataclasses

from motion_nodes.extras.tasks.world_state import STAND_OFF
from motion_nodes.ros.node import FramedParams
from motion_nodes.ros.parameters import param


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskServerParams(FramedParams):
    """Parameters of the task server."""

    update_rate: float = param(
        50.0, doc="Update rate of the loop that advances skills.", unit="Hz", gt=0.0, le=500.0,
        read_only=True,
    )  # fmt: skip
    group: str = param("arm", doc="Planning group that executes skills.", read_only=True)
    gripper: str = param("gripper", doc="Group of the fingers.", read_only=True)
    detector: str = param(
        "/mujoco_sim/objects",
        doc="MarkerArray topic with the poses of detected objects, one marker each, named by its "
        "namespace, in the world; empty: only objects of the planning scene are known.",
        read_only=True,
    )
    placement: tuple[float, ...] = param(
        (0.0, 0.0, 0.0),
        doc="Pose of the robot's base, of a mobile one its odometry frame, in the frame of the "
        "detector: x, y, yaw.", unit="m and rad", read_only=True,
    )  # fmt: skip
    places: tuple[str, ...] = param(
        (), doc="Places that a mobile base drives to, each as NAME:=X,Y[,YAW] in the frame of the "
        "detector: kitchen:=2.0,1.5,1.57.", unit="m and rad", read_only=True,
    )  # fmt: skip
    stand_off: float = param(
        STAND_OFF, doc="Distance of a mobile base from an object that it drives to.", unit="m",
        ge=0.1, le=10.0,
    )  # fmt: skip
    grip_effort: float = param(
        30.0, doc="Max effort of each finger that holds an object; 0: that of the drives.",
        unit="N or N m", ge=0.0, le=1e4,
    )  # fmt: skip
    check_grasp: bool = param(
        True,
        doc="Fail a grasp if the fingers close entirely; false for simulations without contacts.",
    )
    confirm: bool = param(False, doc="Wait for ~/confirm before a plan is executed.")
    retries: int = param(1, doc="Number of further attempts of a failed skill.", ge=0, le=100)
    plans: int = param(3, doc="Max number of plans of a task.", ge=1, le=100)
