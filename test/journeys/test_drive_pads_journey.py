# SPDX-License-Identifier: Apache-2.0
"""Bases of every kind driven from the page: Chromium, the whole suite, and MuJoCo behind it."""

import math
import re
from typing import Any

import numpy as np
import pytest
from browser.chromium import WITHOUT_SHADOWS, Page, chromium_page
from nav_msgs.msg import Odometry
from rclpy.qos import QoSProfile, ReliabilityPolicy
from ros_client import RosClient
from ros_processes import Suite, with_rate
from sensor_msgs.msg import JointState

from motion_nodes.bringup.bringup_config import BringupConfig
from motion_nodes.bringup.compose import nodes_for
from motion_nodes.bringup.node_specs import commands_for
from motion_nodes.core.robot.placement import parse_placements

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

START = 60.0
"""[s] Longest wait for the suite and its page on a busy machine."""
SMALL = (800, 600)
"""[pixels] The page is drawn without a graphics card here."""
ROBOTS = {"carter": "nova_carter@0,1,0", "kaya": "kaya@0,0,0.5", "car": "leatherback@0,-1,0"}
NEWEST = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)


class Cell:
    """The running suite, and the page open on it."""

    def __init__(self, page: Page, suite: Suite, client: RosClient) -> None:
        self.page, self.client = page, client
        self._newest: dict[str, Any] = {}
        for name in ROBOTS:
            self._hear(Odometry, f"/{name}/ground_truth")
            self._hear(JointState, f"/{name}/joint_states")
        words = [f"{name}:={robot}" for name, robot in ROBOTS.items()]
        config = BringupConfig(
            placements=parse_placements(words), viewer_port=0, params_file=WITHOUT_SHADOWS
        )
        commands = commands_for(
            [with_rate(spec, 100.0) for spec in nodes_for(config)], composed=True
        )
        self.processes = {name: suite.run(command) for name, command in commands.items()}
        container = self.processes["container"]
        container.wait_for("in a browser", START)
        found = re.search(r"open (http://\S+) in a browser", container.output)
        assert found is not None
        # Not page.open(): with three robots, a picture at rest takes too long.
        page.driver.get(found[1])
        self.wait(lambda: page.text().count("connected") == len(ROBOTS), "all are connected")

    def _hear(self, kind: Any, topic: str) -> None:
        def take(message: Any) -> None:
            self._newest[topic] = message

        self.client.node.create_subscription(kind, topic, take, NEWEST)

    def newest(self, topic: str) -> Any:
        """Return a new message of a topic."""
        self._newest.pop(topic, None)
        return self.client.wait(lambda: self._newest.get(topic), f"a message on {topic}")

    def wait(self, condition: Any, what: str, within: float = START) -> None:
        self.client.wait(condition, what, within)

    def pose(self, name: str) -> tuple[float, float, float]:
        """Return the true pose of a robot: x, y [m], yaw [rad]."""
        message = self.newest(f"/{name}/ground_truth").pose.pose
        p, q = message.position, message.orientation
        return p.x, p.y, math.atan2(2 * (q.w * q.z + q.x * q.y), 1 - 2 * (q.y**2 + q.z**2))

    def moved(self, name: str, start: tuple[float, float, float]) -> tuple[float, float, float]:
        """Return the displacement of a robot: forward and to the left [m], yaw [rad]."""
        x, y, yaw = self.pose(name)
        c, s = math.cos(start[2]), math.sin(start[2])
        dx, dy = x - start[0], y - start[1]
        return c * dx + s * dy, c * dy - s * dx, math.remainder(yaw - start[2], math.tau)

    def stands(self, name: str) -> bool:
        """Return whether a robot stands still for half a second."""
        start = self.pose(name)
        self.client.spin(0.5)
        return max(map(abs, self.moved(name, start))) < 0.003

    def shown_angles(self) -> tuple[float, float]:
        """Return the wheel angles that the page shows [rad]."""
        found = re.search(
            r"Wheel angles: left ([-+\d.?]+)(?: rad)?, right ([-+\d.?]+)", self.page.text()
        )
        assert found is not None, self.page.text()
        return float(found[1].replace("?", "nan")), float(found[2].replace("?", "nan"))


@pytest.fixture(scope="module")
def cell(tmp_path_factory, module_suite, module_client):
    """The suite and page shared by all tests of this file; skips without Chromium."""
    with chromium_page(tmp_path_factory.mktemp("chromium"), *SMALL) as page:
        yield Cell(page, module_suite, module_client)


@pytest.mark.long
def test_a_holonomic_base_slides(cell):
    for button, sign in (("Slide left", 1.0), ("Slide right", -1.0)):
        start = cell.pose("kaya")
        with cell.page.held(button, "kaya"):
            cell.wait(
                lambda start=start, sign=sign: sign * cell.moved("kaya", start)[1] > 0.1, button
            )
        ahead, _, turned = cell.moved("kaya", start)
        assert abs(ahead) < 0.03
        assert abs(turned) < 0.05
        cell.wait(lambda: cell.stands("kaya"), "the base stands after the release")


@pytest.mark.long
def test_a_base_with_casters_drives_and_turns(cell):
    start = cell.pose("carter")
    with cell.page.held("Forward", "carter"):
        cell.wait(lambda: cell.moved("carter", start)[0] > 0.2, "it goes forward")
    cell.wait(lambda: cell.stands("carter"), "the base stands after the release")
    start = cell.pose("carter")
    with cell.page.held("Right", "carter"):
        cell.wait(lambda: cell.moved("carter", start)[2] < -0.3, "it turns to the right")
    cell.wait(lambda: cell.stands("carter"), "the base stands after the release")


@pytest.mark.long
def test_a_car_shows_its_wheel_angles_and_obeys_them(cell):
    start = cell.pose("car")
    with cell.page.held("Left", "car"):
        cell.wait(lambda: min(cell.shown_angles()) > 0.17, "the page shows wheels to the left")
        cell.wait(lambda: cell.moved("car", start)[2] > 0.3, "the car goes round to the left")
        # The inner wheel turns more, and the page shows the angles of joint_states.
        left, right = cell.shown_angles()
        assert left > right

        def page_is_right() -> bool:
            message = cell.newest("/car/joint_states")
            joints = dict(zip(message.name, message.position, strict=True))
            measured = [joints[f"Knuckle__Upright__Front_{side}"] for side in ("Left", "Right")]
            return bool(np.abs(np.subtract(measured, cell.shown_angles())).max() < 0.035)

        cell.wait(page_is_right, "the page to show what is measured")
    cell.wait(lambda: cell.stands("car"), "the car stands after the release")


def test_a_car_reverses_to_either_side(cell):
    start = cell.pose("car")
    with cell.page.held("Back right", "car"):
        cell.wait(lambda: max(cell.shown_angles()) < -0.17, "the page shows wheels to the right")
        cell.wait(lambda: cell.moved("car", start)[0] < -0.15, "the car goes back")
    # Backward with the wheels to the right, the car yaws to the left.
    assert cell.moved("car", start)[2] > 0.05
    cell.wait(lambda: cell.stands("car"), "the car stands after the release")


def test_the_suite_ends_cleanly(cell):
    """The last test: it stops the suite."""
    for process in cell.processes.values():
        assert process.stop() == 0
