# SPDX-License-Identifier: Apache-2.0
"""A small car written to a folder, with either axle steered or driven."""

from pathlib import Path
from typing import Any

import yaml

WHEELBASE, FRONT_TRACK, REAR_TRACK = 0.32, 0.24, 0.26
FRONT_RADIUS, REAR_RADIUS = 0.05, 0.06
STEERING = ("steer_left", "steer_right")
FRONT, REAR = ("front_left", "front_right"), ("rear_left", "rear_right")
_INERTIAL = (
    '<inertial><mass value="{mass}"/>'
    '<inertia ixx="{i}" ixy="0" ixz="0" iyy="{i}" iyz="0" izz="{i}"/></inertial>'
)


def write_car(folder: Path, **changes: Any) -> Path:
    """Write robot.yaml and URDF of a robot named after its folder, and return the folder.

    Args:
        folder: destination; its name is the robot's.
        changes: ``steered`` (front or rear), ``driven`` (joints; other wheels roll freely),
            ``rear_axle_x`` [m], ``limit`` of the steering joints [rad], ``steering_axis``,
            ``wheel_axis``, and fields of the block ``base``.
    """
    steered = changes.pop("steered", "front")
    driven = changes.pop("driven", FRONT + REAR)
    free = [name for name in FRONT + REAR if name not in driven]
    folder.mkdir(parents=True)
    (folder / "car.urdf").write_text(_urdf(steered, changes))
    base = {
        "wheelbase": WHEELBASE,
        "front_track_width": FRONT_TRACK,
        "rear_track_width": REAR_TRACK,
        "front_wheel_radius": FRONT_RADIUS,
        "rear_wheel_radius": REAR_RADIUS,
        "steering_joint_names": list(STEERING),
        "steered_axle": steered,
        "linear": {"x": {"max_velocity": 2.0, "max_acceleration": 4.0}},
        "angular": {"z": {"max_velocity": 4.0, "max_acceleration": 20.0}},
    }
    for axle, names in (("front", FRONT), ("rear", REAR)):
        if set(names) <= set(driven):
            base[f"{axle}_wheel_names"] = list(names)
    (folder / "robot.yaml").write_text(
        yaml.safe_dump(
            {
                "format": 1,
                "name": folder.name,
                "kind": "ackermann",
                "urdf": "car.urdf",
                "frames": {"base": "base_link", "odom": "odom"},
                "base": base | changes,
                "drives": [
                    {"joints": list(STEERING), "mode": "position", "stiffness": 20.0,
                     "damping": 1.0},
                    {"joints": list(driven), "mode": "velocity", "damping": 0.5},
                ],
                "passive_joints": free,
                "limits": {"acceleration": dict.fromkeys((*STEERING, *driven), 200.0)},
                "sources": {"base": "chosen", "drives": "chosen", "limits": "chosen"},
            }
        )
    )  # fmt: skip
    return folder


def write_tricycle(folder: Path, *, rear: int = 2, driven: str = "rear", **base: Any) -> Path:
    """Write a robot with one steered front wheel, and return its folder.

    Args:
        folder: destination; its name is the robot's.
        rear: number of rear wheels: 2, or 1 for a bicycle.
        driven: axle with the driven wheels.
        base: fields of the block ``base``.
    """
    folder.mkdir(parents=True)
    behind = REAR[:rear] if rear == 2 else ("rear",)
    wheels = {"front": ("front",), "rear": behind}
    end = '<limit velocity="100" effort="2"/>'
    links, joints = [_link("base_link", 3.0, 0.02), _link("steer_link", 0.1, 1e-4)], []
    limit = '<limit lower="-1.2" upper="1.2" velocity="8" effort="5"/>'
    place = f"{WHEELBASE} 0 {FRONT_RADIUS}"
    joints.append(_joint("steer", "revolute", "base_link", place, "0 0 1", limit))
    ys = (0.5 * REAR_TRACK, -0.5 * REAR_TRACK) if rear == 2 else (0.0,)
    places = [("front", "steer_link", "0 0 0")]
    places += [
        (name, "base_link", f"0 {y} {REAR_RADIUS}") for name, y in zip(behind, ys, strict=True)
    ]
    for name, parent, place in places:
        links.append(_link(f"{name}_link", 0.2, 3e-4))
        joints.append(_joint(name, "continuous", parent, place, "0 1 0", end))
    (folder / "car.urdf").write_text(f'<robot name="car">{"".join(links)}{"".join(joints)}</robot>')
    tracks = {"rear_track_width": REAR_TRACK} if rear == 2 else {}
    block = {
        "wheelbase": WHEELBASE,
        "front_wheel_radius": FRONT_RADIUS,
        "rear_wheel_radius": REAR_RADIUS,
        "steering_joint_names": ["steer"],
        f"{driven}_wheel_names": list(wheels[driven]),
        "linear": {"x": {"max_velocity": 2.0, "max_acceleration": 4.0}},
        "angular": {"z": {"max_velocity": 4.0, "max_acceleration": 20.0}},
    }
    free = [name for end in wheels if end != driven for name in wheels[end]]
    (folder / "robot.yaml").write_text(yaml.safe_dump({
        "format": 1,
        "name": folder.name,
        "kind": "ackermann",
        "urdf": "car.urdf",
        "frames": {"base": "base_link", "odom": "odom"},
        "base": block | tracks | base,
        "drives": [
            {"joints": ["steer"], "mode": "position", "stiffness": 20.0, "damping": 1.0},
            {"joints": list(wheels[driven]), "mode": "velocity", "damping": 0.5},
        ],
        "passive_joints": free,
        "limits": {"acceleration": dict.fromkeys(("steer", *wheels[driven]), 200.0)},
        "sources": {"base": "chosen", "drives": "chosen", "limits": "chosen"},
    }))  # fmt: skip
    return folder


def _urdf(steered: str, changes: dict[str, Any]) -> str:
    rear_x, limit = changes.pop("rear_axle_x", 0.0), changes.pop("limit", 0.6)
    steering_axis = changes.pop("steering_axis", "0 0 1")
    wheel_axis = changes.pop("wheel_axis", "0 1 0")
    links = [_link("base_link", 3.0, 0.02)]
    joints = []
    for axle, names, x, track, radius in (
        ("front", FRONT, rear_x + WHEELBASE, FRONT_TRACK, FRONT_RADIUS),
        ("rear", REAR, rear_x, REAR_TRACK, REAR_RADIUS),
    ):
        for name, steer, y in zip(names, STEERING, (0.5 * track, -0.5 * track), strict=True):
            parent, place = "base_link", f"{x} {y} {radius}"
            if axle == steered:
                links.append(_link(f"{steer}_link", 0.1, 1e-4))
                end = f'<limit lower="{-limit}" upper="{limit}" velocity="8" effort="5"/>'
                joints.append(_joint(steer, "revolute", parent, place, steering_axis, end))
                parent, place = f"{steer}_link", "0 0 0"
            links.append(_link(f"{name}_link", 0.2, 3e-4))
            end = '<limit velocity="100" effort="2"/>'
            joints.append(_joint(name, "continuous", parent, place, wheel_axis, end))
    return f'<robot name="car">{"".join(links)}{"".join(joints)}</robot>'


def _link(name: str, mass: float, inertia: float) -> str:
    return f'<link name="{name}">{_INERTIAL.format(mass=mass, i=inertia)}</link>'


def _joint(name: str, kind: str, parent: str, place: str, axis: str, end: str) -> str:
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{name}_link"/>'
        f'<origin xyz="{place}"/><axis xyz="{axis}"/>{end}</joint>'
    )
