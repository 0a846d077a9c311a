# SPDX-License-Identifier: Apache-2.0
"""Three kinds of base go to poses and along paths in MuJoCo, over DDS between processes."""

import math
import shutil
from pathlib import Path
from typing import Any

import pytest
from geometry_msgs.msg import TransformStamped
from joint_client import Call
from long_params import shortened
from nav_msgs.msg import Odometry
from navigation_client import ABORTED, CANCELED, SUCCEEDED, Codes, NavigationClient, pose_of
from ros_client import RosClient, values_of
from std_srvs.srv import SetBool, Trigger
from visualization_msgs.msg import MarkerArray

from motion_nodes.core.navigation.planar_geometry import Pose2
from motion_nodes.core.robot.loader import load_robot

pytestmark = pytest.mark.timeout(900)
ROBOTS = {
    "jet": ("jetbot", "diff_drive_controller"),
    "kaya": ("kaya", "mecanum_drive_controller"),
    "car": ("leatherback", "ackermann_steering_controller"),
}


class Rover:
    """One robot: its navigator, odometry and ground truth."""

    def __init__(self, client: RosClient, name: str) -> None:
        self.client, self.name = client, name
        self.controller = ROBOTS[name][1]
        self.navigator = NavigationClient(client, name)
        self.odom = client.listen(Odometry, f"/{name}/{self.controller}/odom")
        self.truth = client.listen(Odometry, f"/{name}/ground_truth")

    @property
    def pose(self) -> Pose2:
        return pose_of(self.odom.newest)

    def go(self, goal: Pose2) -> Call:
        """Send a goal in the odometry frame."""
        return self.navigator.go(goal, f"{self.name}/odom")

    @property
    def speed(self) -> float:
        return abs(self.odom.newest.twist.twist.linear.x)

    def clear(self) -> None:
        self.odom.clear()
        self.truth.clear()
        self.client.wait(lambda: self.odom and self.truth, "odometry")

    def under_way(self, goal: Pose2 | None = None) -> Call:
        """Send a goal, by default 3 m ahead, and wait until the robot moves."""
        self.clear()
        call = self.go(goal or self.pose.compose(Pose2(3.0)))
        assert call.accepted()
        self.client.wait(lambda: self.speed > 0.2, "motion")
        return call

    def arrived(self, goal: Pose2) -> None:
        """Wait until odometry is at the goal."""
        near, turned = (0.1, 0.25) if self.name == "car" else (0.04, 0.05)
        try:
            self.client.wait(lambda: self.pose.distance(goal) <= near, f"arrival at {goal}")
        except AssertionError as error:
            raise AssertionError(f"{error}; odometry says {self.pose}") from None
        assert abs(math.remainder(self.pose.yaw - goal.yaw, math.tau)) <= turned

    def rests(self) -> None:
        self.clear()
        self.client.wait(lambda: self.speed < 0.01, "rest")

    def pause(self, paused: bool) -> None:
        self.client.call(SetBool, "/mujoco_sim/pause", SetBool.Request(data=paused))


BOX = "box:=box:0.12,0.2,0.3:20@60,60,0.15"
"""Far away from all other tests."""


def jetbot_with_a_scanner(folder: Path) -> Path:
    """Return the folder of a JetBot with a laser scanner on top."""
    shutil.copytree(load_robot("jetbot").directory, folder)
    urdf, yaml = folder / "jetbot.urdf", folder / "robot.yaml"
    link = (
        '<link name="laser"/><joint name="laser_joint" type="fixed"><parent link="base_link"/>'
        '<child link="laser"/><origin xyz="-0.02 0 0.13"/></joint></robot>'
    )
    urdf.write_text(urdf.read_text().replace("</robot>", link))
    scanner = "laser_scanners: [{link: laser, range_min: 0.05, rate: 10.0, noise: 0.005}]\n"
    yaml.write_text(yaml.read_text() + scanner)
    return folder


@pytest.fixture(scope="module", params=shortened(ROBOTS))
def rover(request, module_suite, module_client, tmp_path_factory):
    """One robot after the other, each in its own simulation; the JetBot has a scanner."""
    name, robot, objects = request.param, ROBOTS[request.param][0], ()
    if name == "jet":
        robot = str(jetbot_with_a_scanner(tmp_path_factory.mktemp("robots") / "jetbot"))
        objects = (BOX,)
    processes = module_suite.bring_up(f"{name}:={robot}", objects=objects, rate=100.0)
    rover = Rover(module_client, name)
    module_client.wait(lambda: rover.odom and rover.truth, "odometry", within=60.0)
    rover.navigator.wait_for()
    # Simulated time runs at double speed, to halve the waiting; a car needs timely commands.
    factor = 1.0 if name == "car" else 2.0
    assert module_client.set_parameters("/mujoco_sim", real_time_factor=factor).successful
    # At double speed the default timeout of 0.5 s is 0.25 s, too short under load.
    node = rover.navigator.node
    assert module_client.set_parameters(node, odom_timeout=2.0).successful
    yield rover
    rover.navigator.close()
    for process in processes.values():
        process.stop()


def test_to_a_pose_and_back(rover):
    rover.clear()
    start = rover.pose
    for goal in (start.compose(Pose2(2.0, 1.0, 1.0)), start):
        status, result = rover.go(goal).result(within=90.0)
        assert status == SUCCEEDED, result.error_msg
        rover.arrived(goal)


@pytest.mark.long
def test_it_drives_around_a_box(rover):
    """MuJoCo reports no contacts."""
    if rover.name != "jet":
        pytest.skip("it has no scanner")
    client = rover.client
    node = rover.navigator.node
    assert client.set_parameters(node, obstacles__blocked_timeout=0.5).successful
    put = client.publisher(TransformStamped, "/mujoco_sim/move_object")
    objects = client.listen(MarkerArray, "/mujoco_sim/objects")
    rover.clear()
    start, truth = rover.pose, pose_of(rover.truth.newest)
    goal = start.compose(Pose2(1.6, 0.0, 0.0))
    place = truth.compose(Pose2(0.7, 0.0, 0.0))

    def there() -> bool:
        markers = objects.newest.markers if objects else ()
        at = [m.pose.position for m in markers if m.ns == "box"]
        return bool(at) and math.hypot(at[0].x - place.x, at[0].y - place.y) < 0.05

    # The first request may precede discovery.
    client.repeat(lambda: place_box(put, place), there, "the box on the path", rate=1.0)
    call = rover.go(goal)
    status, result = call.result(within=120.0)
    assert status == SUCCEEDED, result.error_msg
    assert call.feedback[-1].feedback.number_of_recoveries >= 1
    rover.arrived(goal)
    contacts = values_of(client.diagnostics("/mujoco_sim"))
    assert contacts["contacts"] == "0", contacts["contact pairs"]
    place_box(put, Pose2(60.0, 60.0))


def place_box(publisher: Any, pose: Pose2) -> None:
    """Move the box in the world."""
    message = TransformStamped(child_frame_id="box")
    t, q = message.transform.translation, message.transform.rotation
    t.x, t.y, t.z = pose.x, pose.y, 0.15
    q.z, q.w = math.sin(0.5 * pose.yaw), math.cos(0.5 * pose.yaw)
    publisher.publish(message)


def test_only_approaches_of_its_kind(rover):
    bad = "straight" if rover.name == "car" else "dubins" if rover.name == "kaya" else "teleport"
    answer = rover.client.set_parameters(rover.navigator.node, approach=bad)
    assert not answer.successful
    assert bad in answer.reason


def test_cancel_while_time_stands(rover):
    call = rover.under_way()
    rover.pause(True)
    rover.client.spin(1.0)
    assert not call.done
    assert call.cancel()
    assert call.result()[0] == CANCELED
    rover.pause(False)
    rover.rests()


@pytest.mark.long
def test_a_reset_of_the_simulation_aborts(rover):
    call = rover.under_way()
    rover.client.call(Trigger, "/mujoco_sim/reset")
    status, result = call.result()
    assert (status, result.error_code) == (ABORTED, Codes.UNKNOWN)
    assert "time jumped" in result.error_msg
    rover.rests()
    assert rover.go(rover.pose.compose(Pose2(0.5))).result(30.0)[0] == SUCCEEDED
