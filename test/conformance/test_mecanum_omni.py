# SPDX-License-Identifier: Apache-2.0
"""Behaviors of mecanum_drive_controller and omni_wheel_drive_controller, over DDS."""

import itertools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from control_msgs.msg import MecanumDriveControllerState
from control_msgs.srv import SetOdometry
from controller_manager_msgs.srv import ListControllers
from geometry_msgs.msg import Twist
from nav_msgs.msg import Odometry
from tf2_msgs.msg import TFMessage

from conformance.base_rig import FREE, Rig, twist, write_base

MECANUM = "mecanum_drive_controller"
OMNI = "omni_wheel_drive_controller"
CORNERS = {"fl": (0.2, 0.3), "fr": (0.2, -0.3), "rl": (-0.2, 0.3), "rr": (-0.2, -0.3)}
RADIUS, SUM, ROBOT = 0.1, 0.5, 0.3
ALL = FREE | {f"linear.y.{n}": math.nan for n in ("max_velocity", "max_acceleration",
                                                   "max_deceleration")}  # fmt: skip


def mecanum(vx: float, vy: float, wz: float) -> list[float]:
    """Return the speeds of fl, fr, rl, rr, by the peer's formula."""
    k = SUM * wz
    return [v / RADIUS for v in (vx - vy - k, vx + vy + k, vx + vy - k, vx - vy + k)]


def omni(count: int, vx: float, vy: float, wz: float, offset: float = 0.0) -> list[float]:
    """Return the speeds of wheels on a circle, by the peer's formula."""
    angles = [offset + math.tau * i / count for i in range(count)]
    return [(math.sin(a) * vx - math.cos(a) * vy - ROBOT * wz) / RADIUS for a in angles]


def circle(count: int) -> dict[str, tuple[str, str]]:
    """Return wheels on a circle, whose axes point outward."""
    return {
        f"w{i}": (f"{ROBOT * math.cos(a)} {ROBOT * math.sin(a)} {RADIUS}",
                  f"{math.cos(a)} {math.sin(a)} 0")
        for i, a in enumerate(math.tau * np.arange(count) / count)
    }  # fmt: skip


@pytest.fixture(scope="module")
def cell(module_suite, module_client, tmp_path_factory):
    """A mecanum base, and omni bases with three, four and five wheels."""
    folder = tmp_path_factory.mktemp("robots")
    angles = {"fl": 45.0, "fr": 135.0, "rl": 135.0, "rr": 45.0}
    robots = {"mec": write_base(
        folder / "mec", "holonomic",
        {"wheels": [{"joint": n, "radius": RADIUS, "roller_angle_deg": a}
                    for n, a in angles.items()]},
        {n: (f"{x} {y} {RADIUS}", "0 1 0") for n, (x, y) in CORNERS.items()},
    )}  # fmt: skip
    for count in (3, 4, 5):
        robots[f"omni{count}"] = write_base(
            folder / f"omni{count}", "holonomic",
            {"wheels": [{"joint": n, "radius": RADIUS} for n in circle(count)],
             "controller": OMNI}, circle(count),
        )  # fmt: skip
    names = {name: MECANUM if name == "mec" else OMNI for name in robots}
    sides = {"front_left": "fl", "front_right": "fr", "rear_left": "rl", "rear_right": "rr"}
    more: dict[str, dict[str, Any]] = {
        "mec": {f"{side}_wheel_command_joint_name": n for side, n in sides.items()}
        | {"kinematics.wheels_radius": RADIUS, "reference_timeout": 0.5,
           "kinematics.sum_of_robot_center_projection_on_X_Y_axis": SUM},
        "omni3": {"wheel_names": ["w0", "w1", "w2"], "robot_radius": ROBOT,
                  "wheel_radius": RADIUS, "wheel_offset": 0.0},
        "omni4": {"diagonal_covariance.pose": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]},
        "omni5": {"open_loop": True},
    }  # fmt: skip
    rigs = {}
    for name, robot in robots.items():
        module_suite.node(
            "holonomic_base", name=names[name], namespace=name, robot=str(robot),
            update_rate=100.0, **more[name],
        )  # fmt: skip
        joints = list(CORNERS) if name == "mec" else list(circle(int(name[-1])))
        topic = "reference" if name == "mec" else "cmd_vel"
        rigs[name] = Rig(module_client, f"/{name}/{names[name]}", joints, topic)
    for name in ("omni4", "mec"):
        module_suite.node("controller_manager", namespace=name, robot=str(robots[name]))
    for rig in rigs.values():
        rig.until(lambda r=rig: r.told, "the first references")
        rig.set(**{k.replace(".", "__"): v for k, v in ALL.items()})
    return SimpleNamespace(
        client=module_client, suite=module_suite, robots=robots, rigs=rigs, **rigs
    )


@pytest.fixture(autouse=True)
def at_rest(cell):
    for rig in cell.rigs.values():
        rig.stop()


MOTIONS = ((0.5, 0.0, 0.0), (0.0, 0.4, 0.0), (0.0, 0.0, 0.8), (0.3, -0.2, 0.5))


def test_mecanum_kinematics(cell):
    for vx, vy, wz in (*MOTIONS, (10.0, 5.0, 3.0)):
        cell.mec.until_speeds(mecanum(vx, vy, wz), lambda a=(vx, wz, vy): cell.mec.send(*a))


@pytest.mark.parametrize("count", [3, 4, 5])
def test_omni_kinematics(cell, count):
    rig = cell.rigs[f"omni{count}"]
    for vx, vy, wz in MOTIONS:
        rig.until_speeds(omni(count, vx, vy, wz), lambda a=(vx, wz, vy): rig.send(*a))


def test_timeouts(cell):
    for name, speeds in (("mec", mecanum(0.5, 0, 0)), ("omni4", omni(4, 0.5, 0, 0))):
        rig = cell.rigs[name]
        rig.until_speeds(speeds, lambda r=rig: r.send(0.5, age=0.0))
        rig.rest()
        rig.wheels.keep_on(0.2, lambda r=rig: r.send(0.5, age=5.0))
        assert not any(rig.speeds())


def test_one_cycle(cell):
    mec = cell.mec
    mec.set(reference_timeout=0.0)
    mec.wheels.commands.clear()
    mec.send(0.5)
    mec.wheels.keep_on(0.4)
    moved = [any(m.velocity) for m in mec.wheels.commands.messages]
    assert 1 <= sum(moved) <= 3
    mec.set(reference_timeout=0.5)


def test_limits(cell):
    mec = cell.mec
    mec.set(clip_axes=True)
    for axis, command in (("linear.x", (1.0, 0.0, 0.0)), ("linear.y", (0.0, 0.0, 1.0)),
                          ("angular.z", (0.0, 1.0, 0.0))):  # fmt: skip
        vx, wz, vy = command
        for rate in (2.0, 5.0):
            mec.set(**{f"{axis.replace('.', '__')}__max_acceleration": rate})
            mec.wheels.commands.clear()
            mec.until_speeds(mecanum(vx, vy, wz), lambda c=command: mec.send(*c))
            full = abs(mecanum(vx, vy, wz)[1])
            rising = [abs(m.velocity[1]) for m in mec.wheels.commands.messages]
            steps = [b - a for a, b in itertools.pairwise(rising) if 0 < a and b < full]
            assert np.median(steps) == pytest.approx(0.01 * rate * full, rel=0.05)
            mec.set(**{f"{axis.replace('.', '__')}__max_acceleration": math.nan})
            mec.stop()
    mec.set(linear__x__max_velocity=0.5)
    mec.until_speeds(mecanum(0.5, 1.0, 0.0), lambda: mec.send(1.0, 0.0, 1.0))
    mec.set(clip_axes=False)
    mec.until_speeds(mecanum(0.5, 0.5, 0.0), lambda: mec.send(1.0, 0.0, 1.0))
    mec.set(linear__x__max_velocity=math.nan)


def test_mecanum_topics(cell):
    mec, client = cell.mec, cell.client
    states = client.listen(MecanumDriveControllerState, f"{mec.node}/controller_state")
    odometry = client.listen(Odometry, f"{mec.node}/odometry")
    transforms = client.listen(TFMessage, f"{mec.node}/tf_odometry")
    plain = client.publisher(Twist, f"{mec.node}/reference_unstamped")

    def seen(vx: float, vy: float, wz: float) -> bool:
        m = states.newest
        if m is None:
            return False
        reference = m.reference_velocity
        fl, fr, rl, rr = mecanum(vx, vy, wz)
        return np.allclose(
            (m.front_left_wheel_velocity, m.front_right_wheel_velocity,
             m.back_left_wheel_velocity, m.back_right_wheel_velocity,
             reference.linear.x, reference.linear.y, reference.angular.z),
            (fl, fr, rl, rr, vx, vy, wz), 0.0, 1e-6,
        )  # fmt: skip

    for vx, vy, wz in ((0.0, 0.3, 0.0), (0.0, -0.3, 0.0), (0.0, 0.0, 0.6), (0.1, 0.2, 0.0)):
        mec.until(lambda a=(vx, vy, wz): seen(*a), "the state",
                  lambda a=(vx, wz, vy): plain.publish(twist(*a)))  # fmt: skip
    mec.until(lambda: odometry and transforms, "odometry")
    assert max(map(abs, mec.pose[:2])) < 5.0


def test_odometry(cell):
    turn = 1.0
    path = (1.5, 0.5, turn)
    s, c = math.sin(turn) / turn, (1.0 - math.cos(turn)) / turn
    end = (s * path[0] - c * path[1], c * path[0] + s * path[1], turn)
    for name, turned in (("mec", mecanum(*path)), ("omni4", omni(4, *path))):
        rig = cell.rigs[name]
        request = SetOdometry.Request(yaw=0.0)
        assert cell.client.call(SetOdometry, f"{rig.node}/set_odometry", request).success
        rig.place((0.0, 0.0, 0.0))
        for joint, angle in zip(rig.joints, turned, strict=True):
            rig.wheels.angles[joint] += float(angle)
        rig.place(end)
        request = SetOdometry.Request(x=5.0, y=-2.0, yaw=0.5 * math.pi)
        assert cell.client.call(SetOdometry, f"{rig.node}/set_odometry", request).success
        rig.place((5.0, -2.0, 0.5 * math.pi))
        rig.until(lambda r=rig: r.pose[1] > -1.97, "y", lambda r=rig: r.send(0.5))
        assert rig.pose[0] == pytest.approx(5.0, abs=1e-6)


def test_open_loop_and_covariances(cell):
    five = cell.omni5

    def told() -> bool:
        m = five.odometry.newest
        seen = m.twist.twist if m else Twist()
        return np.allclose((seen.linear.x, seen.linear.y, seen.angular.z), (0.4, 0.1, 0.3))

    five.until(told, "the command", lambda: five.send(0.4, 0.3, 0.1))
    four, mec = cell.omni4, cell.mec
    twists = [0.6, 0.5, 0.4, 0.3, 0.2, 0.1]
    mec.set(pose_covariance_diagonal=[0.1, 0.2, 0.3, 0.4, 0.5, 0.6],
            twist_covariance_diagonal=twists)  # fmt: skip
    for rig in (four, mec):
        rig.odometry.clear()
        rig.until(lambda r=rig: r.odometry, "odometry")
        diagonal = np.diag(np.reshape(rig.odometry.newest.pose.covariance, (6, 6)))
        assert diagonal.tolist() == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    diagonal = np.diag(np.reshape(mec.odometry.newest.twist.covariance, (6, 6)))
    assert diagonal.tolist() == twists


def test_prefixes(cell):
    def frames(rig: Rig) -> tuple[str, str]:
        newest = rig.odometry.newest
        return newest.header.frame_id, newest.child_frame_id

    for name in ("mec", "omni4"):
        rig = cell.rigs[name]
        for prefix, before in (("a", "a/"), ("~", f"{name}/"), ("", "")):
            rig.set(tf_frame_prefix=prefix)
            rig.until(lambda r=rig, b=before: frames(r) == (f"{b}odom", f"{b}base_link"), before)


def test_lifecycle(cell):
    for name, speeds in (("mec", mecanum(1.0, 0, 0)), ("omni4", omni(4, 1.0, 0, 0))):
        rig = cell.rigs[name]
        rig.set(linear__x__max_acceleration=4.0)
        rig.until_speeds(speeds, lambda r=rig: r.send(1.0))
        assert cell.client.change_state(rig.node, "deactivate")
        rig.until(lambda r=rig: not any(r.speeds()), "rest")
        assert cell.client.change_state(rig.node, "activate")
        rig.rest()
        rig.wheels.commands.clear()
        rig.until_speeds(speeds, lambda r=rig: r.send(1.0))
        first = next(m for m in rig.wheels.commands.messages if any(m.velocity))
        assert np.abs(first.velocity).max() < 0.2 * np.abs(speeds).max()
        rig.set(linear__x__max_acceleration=math.nan)


def test_joints(cell):
    bad = (
        ("omni3", {"wheel_names": ["w0", "w1"], "robot_radius": 0.3}),
        ("mec", {"front_left_wheel_command_joint_name": "fr"}),
    )
    for name, changes in bad:
        node = cell.suite.node(
            "holonomic_base", namespace="bad", robot=str(cell.robots[name]), **changes
        )
        assert node.exit_code() == 1
    cell.suite.node(
        "holonomic_base", namespace="state", robot=str(cell.robots["mec"]), update_rate=100.0,
        front_left_wheel_state_joint_name="encoder",
    )  # fmt: skip
    rig = Rig(cell.client, f"/state/{MECANUM}", list(CORNERS))
    rig.wheels.without = ("fl",)
    rig.wheels.also = {"encoder": 0.0}
    rig.until(lambda: rig.odometry, "odometry by the encoder")
    cell.suite.node(
        "holonomic_base", namespace="swap", robot=str(cell.robots["mec"]), update_rate=100.0,
        front_left_wheel_command_joint_name="fr", front_right_wheel_command_joint_name="fl",
        peer_defaults=True,
    )  # fmt: skip
    # The left wheels are now fr and rl.
    rig = Rig(cell.client, f"/swap/{MECANUM}", list(CORNERS), "reference")
    rig.until(lambda: rig.told, "the first references")
    rig.until(
        lambda: rig.told["fr"][1] < -0.1 and rig.told["rl"][1] < -0.1
        and rig.told["fl"][1] > 0.1 and rig.told["rr"][1] > 0.1,
        "a left turn", lambda: rig.send(0.0, 0.5),
    )  # fmt: skip


def test_interfaces(cell):
    for space, name, kind, wheels in (
        ("omni4", OMNI, "OmniWheelDriveController", [f"w{i}" for i in range(4)]),
        ("mec", MECANUM, "MecanumDriveController", sorted(CORNERS)),
    ):
        answer = cell.client.call(ListControllers, f"/{space}/controller_manager/list_controllers")
        (found,) = [c for c in answer.controller if c.name == name]
        assert sorted(found.claimed_interfaces) == [f"{wheel}/velocity" for wheel in wheels]
        assert found.type == f"{name}/{kind}"


def test_references_of_others(cell):
    for name, speeds in (("mec", mecanum(0.2, 0, 0)), ("omni4", omni(4, 0.2, 0, 0))):
        rig = cell.rigs[name]
        other = Rig(cell.client, rig.node, rig.joints, "reference")
        rig.until_speeds(speeds, lambda o=other: o.send(0.2))
