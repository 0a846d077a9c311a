# SPDX-License-Identifier: Apache-2.0
"""Journey C: a user at the page and the whole suite behind it, over DDS between processes.

Chromium, the suite's processes, and a ROS client of the test that checks the true motion of the
robots in MuJoCo.
"""

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from browser.chromium import WITHOUT_SHADOWS, Page, chromium_page, spread
from nav_msgs.msg import Odometry
from rclpy.qos import QoSProfile, ReliabilityPolicy
from ros_client import RosClient
from ros_processes import Suite, with_rate
from sensor_msgs.msg import JointState

from motion_nodes.bringup.bringup_config import BringupConfig
from motion_nodes.bringup.compose import nodes_for
from motion_nodes.bringup.node_specs import commands_for
from motion_nodes.core.robot.placement import parse_placements

pytestmark = pytest.mark.timeout(900)

LIVE = "connected"
LOST = "no joint_states"
START = 60.0
"""[s] Longest wait for the suite to be up, on a busy machine with no kernel in the cache."""
TOLERANCE = 0.01
"""[rad or m]"""
STILL = 0.005
"""[m or rad] A base that moved less than this in a second stands."""

SMALL = (900, 600)
"""[pixels] The page is drawn without a graphics card here."""

NEWEST = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)


class Newest:
    """The newest message of a topic."""

    def __init__(self, client: RosClient, kind: Any, topic: str) -> None:
        self.message: Any = None
        client.node.create_subscription(kind, topic, self._take, NEWEST)

    def _take(self, message: Any) -> None:
        self.message = message


class Cell:
    """The running suite: a Franka and a JetBot in MuJoCo, and the page open on them."""

    def __init__(self, page: Page, suite: Suite, client: RosClient) -> None:
        """Start the suite as ``motion up`` does, and open its page."""
        self.page, self.client = page, client
        config = BringupConfig(
            placements=parse_placements(["franka:=franka", "jetbot:=jetbot@0.5,-0.5,1.5708"]),
            viewer_port=0,
            params_file=WITHOUT_SHADOWS,
        )
        specs = [with_rate(spec, 100.0) for spec in nodes_for(config)]
        commands = commands_for(specs, composed=True)
        running = {name: suite.run(command) for name, command in commands.items()}
        self._joints = Newest(client, JointState, "/franka/joint_states")
        self._truth = Newest(client, Odometry, "/jetbot/ground_truth")
        self._odom = Newest(client, Odometry, "/jetbot/diff_drive_controller/odom")
        running["container"].wait_for("in a browser", START)
        found = re.search(r"open (http://\S+) in a browser", running["container"].output)
        assert found is not None
        page.open(found[1])

    def joints(self) -> dict[str, float]:
        """Return the joint positions of MuJoCo's arm [rad or m]."""
        self._joints.message = None
        self.client.wait(lambda: self._joints.message, "joint_states of the Franka")
        return dict(zip(self._joints.message.name, self._joints.message.position, strict=True))

    def base(self) -> tuple[float, float, float]:
        """Return the pose of MuJoCo's base: x, y [m], yaw [rad]."""
        return self._pose(self._truth)

    def odometry(self) -> tuple[float, float, float]:
        """Return the pose of the base by odometry: x, y [m], yaw [rad]."""
        return self._pose(self._odom)

    def wait(self, condition: Callable[[], Any], what: str, within: float = 20.0) -> None:
        """Wait for a condition of the page or the robots."""
        try:
            self.client.wait(condition, what, within)
        except AssertionError as error:
            raise AssertionError(f"{error}; the page says: {self.page.text()!r:.600}") from None

    def wait_for_status(self, robot: str, text: str) -> None:
        """Wait until the page shows a text for a robot."""
        self.wait(lambda: text in self.status(robot), f"the page says '{text}' of {robot}", START)

    def status(self, robot: str) -> str:
        """Return the text in the panel of a robot."""
        return str(
            self.page.driver.find_element(
                "xpath",
                "//div[contains(@class, 'Paper')]"
                f"[./div[starts-with(normalize-space(text()), '{robot}')]]",
            ).text
        )

    def wait_for_joints(self, goal: dict[str, float]) -> None:
        """Wait until MuJoCo's arm is at a goal."""
        self.wait(self.is_at(goal), f"the arm is at {goal}")

    def is_at(self, goal: dict[str, float]) -> Callable[[], bool]:
        """Return the condition that MuJoCo's arm is at a goal."""
        return lambda: max(abs(self.joints()[name] - goal[name]) for name in goal) < TOLERANCE

    def stands(self) -> bool:
        """Return whether MuJoCo's base stands still for a second."""
        before = self.base()
        self.client.spin(1.0)
        return float(np.abs(np.subtract(self.base(), before)).max()) < STILL

    def _pose(self, newest: Newest) -> tuple[float, float, float]:
        newest.message = None
        self.client.wait(lambda: newest.message, "the pose of the JetBot")
        p, q = newest.message.pose.pose.position, newest.message.pose.pose.orientation
        return p.x, p.y, math.atan2(2 * (q.w * q.z + q.x * q.y), 1 - 2 * (q.y**2 + q.z**2))


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """One Chromium; skips before anything else is started if there is none."""
    with chromium_page(tmp_path_factory.mktemp("chromium"), *SMALL) as opened:
        yield opened


@pytest.fixture(scope="module")
def cell(page, module_suite, module_client):
    """The suite shared by all tests of this file; none depends on another one."""
    return Cell(page, module_suite, module_client)


@pytest.fixture(autouse=True)
def _both_live(cell):
    """Wait before each test until both robots are connected."""
    for robot in ("franka", "jetbot"):
        cell.wait_for_status(robot, LIVE)


def moved(start: tuple[float, float, float], end: tuple[float, float, float]) -> float:
    """Return the displacement of a base along its initial heading [m]."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    return math.cos(start[2]) * dx + math.sin(start[2]) * dy


def test_page_shows_both_robots(cell, tmp_path):
    image = cell.page.canvas().astype(int)
    assert spread(image) > 10.0
    # Only the arm has dark parts, only the JetBot is green.
    red, green, blue = (image[..., channel] for channel in range(3))
    assert (image.max(axis=-1) < 60).mean() > 0.001
    assert ((green > red + 30) & (green > blue + 60)).sum() > 50
    assert LOST not in cell.page.text()
    assert spread(cell.page.screenshot(tmp_path / "page.png")) > 10.0


@pytest.mark.parametrize(("joint", "value"), [("panda_joint1", 0.6), ("panda_joint4", -1.9)])
def test_slider_moves_the_arm_in_mujoco(cell, joint, value):
    before = cell.joints()
    label = joint.removeprefix("panda_")
    cell.page.set_slider(label, value, "franka")
    cell.wait_for_joints({joint: value})
    # It stays there, and no other joint moved.
    cell.client.spin(0.5)
    cell.wait_for_joints(before | {joint: value})
    assert cell.page.slider_value(label, "franka") == pytest.approx(value)


def test_held_button_drives_and_release_stops(cell):
    page, start, believed = cell.page, cell.base(), cell.odometry()
    with page.held("Forward", "jetbot"):
        cell.wait(lambda: moved(start, cell.base()) > 0.1, "the base goes forward")
    cell.wait(cell.stands, "the base stands after the release", 5.0)
    assert moved(believed, cell.odometry()) == pytest.approx(moved(start, cell.base()), abs=0.02)
