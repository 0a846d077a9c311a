# SPDX-License-Identifier: Apache-2.0
"""Takes the docs' pictures of running programs in a browser.

    .venv/bin/python tools/take_pictures.py                 all pictures, into docs/pictures
    .venv/bin/python tools/take_pictures.py --only demo     one picture

Pictures of the page alone are taken by its tests (``test/browser/pictures.py``); ``make pictures``
takes all.

Needs Debian's chromium and chromium-driver, selenium and Pillow, like the browser tests.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import math
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "test")]

import numpy as np  # noqa: E402
import rclpy  # noqa: E402
from geometry_msgs.msg import Pose, TwistStamped  # noqa: E402
from moveit_msgs.action import MoveGroup  # noqa: E402
from moveit_msgs.msg import CollisionObject, ObjectColor, PlanningScene  # noqa: E402
from nav_msgs.msg import Odometry  # noqa: E402
from rclpy.action import ActionClient  # noqa: E402
from rclpy.node import Node  # noqa: E402
from rclpy.signals import SignalHandlerOptions  # noqa: E402
from sensor_msgs.msg import JointState  # noqa: E402
from shape_msgs.msg import SolidPrimitive  # noqa: E402

from motion_nodes.core.robot.poses import from_xyz_rpy  # noqa: E402
from motion_nodes.nodes.demo.base import SquareDrive  # noqa: E402
from motion_nodes.ros import qos  # noqa: E402
from motion_nodes.ros.clients.move_client import pose_constraints  # noqa: E402

chromium = importlib.import_module("browser.chromium")
"""The browser harness of the tests."""
pictures = importlib.import_module("browser.pictures")
Page: TypeAlias = Any
"""Its page."""

SIZE = (1200, 800)
"""[pixels]"""
START = 60.0
"""Timeout of waits [s]."""
DOMAIN = "77"
"""ROS domain, separate from other robots."""


class Program:
    """A running ``motion`` command, its page, and a ROS client."""

    def __init__(self, arguments: Sequence[str], log: Path) -> None:
        """Start the command."""
        self._log = log
        command = [str(Path(sys.executable).parent / "motion"), *arguments, "--port", "8377"]
        with log.open("wb") as file:
            self._process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
        self.node = Node("take_pictures", use_global_arguments=False)
        self._newest: dict[str, Any] = {}

    def address(self) -> str:
        """Wait until the page is served, and return its address."""
        found: list[str] = []

        def said() -> bool:
            found[:] = re.findall(r"[Oo]pen (http://\S+) in a browser", self._log.read_text())
            return bool(found)

        self.wait(said, "the page is served", START)
        return found[0]

    def hear(self, kind: Any, topic: str) -> Callable[[], Any]:
        """Subscribe, wait for the first message, and return a function that returns the newest."""
        self.node.create_subscription(
            kind, topic, lambda m: self._newest.update({topic: m}), qos.NEWEST
        )
        self.wait(lambda: topic in self._newest, f"messages on {topic}", START)
        return lambda: self._newest[topic]

    def wait(self, condition: Callable[[], bool], what: str, within: float) -> None:
        """Process messages until a condition holds.

        Raises:
            SystemExit: timeout, or the program ended.
        """
        end = time.monotonic() + within
        while not condition():
            if time.monotonic() > end or self._process.poll() is not None:
                sys.exit(f"timeout: {what}; output of the program:\n{self._log.read_text()}")
            rclpy.spin_once(self.node, timeout_sec=0.05)

    def close(self) -> None:
        """Stop the command."""
        self.node.destroy_node()
        self._process.send_signal(signal.SIGINT)
        self._process.wait(30.0)


@contextlib.contextmanager
def program_and_page(arguments: Sequence[str]) -> Iterator[tuple[Program, Page]]:
    """Start a ``motion`` command and open its page in Chromium."""
    with tempfile.TemporaryDirectory() as folder:
        program = Program(arguments, Path(folder) / "log")
        try:
            with chromium.chromium_page(Path(folder), *SIZE) as page:
                page.driver.get(program.address())
                page.wait_for_text("connected", START)
                page.close_notices()
                yield program, page
        finally:
            program.close()


def pan_and_zoom(page: Page, right: int, down: int, notches: int) -> None:
    """Pan by pixels with the right mouse button, and zoom with the wheel."""
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.actions.action_builder import ActionBuilder
    from selenium.webdriver.common.actions.mouse_button import MouseButton
    from selenium.webdriver.common.actions.wheel_input import ScrollOrigin

    x, y = SIZE[0] // 3, SIZE[1] // 2
    mouse: Any = ActionBuilder(page.driver)
    mouse.pointer_action.move_to_location(x, y).pointer_down(MouseButton.RIGHT)
    mouse.pointer_action.move_to_location(x + right, y + down).pointer_up(MouseButton.RIGHT)
    mouse.perform()
    for _ in range(notches):
        origin = ScrollOrigin.from_viewport(x, y)
        ActionChains(page.driver).scroll_from_origin(origin, 0, -120).perform()


def demo(path: Path) -> None:
    """Both robots in motion: the arm follows its target, the base drives around its square."""
    with program_and_page(["demo"]) as (program, page):
        arm = program.hear(JointState, "/franka/joint_states")
        base = program.hear(Odometry, "/jetbot/ground_truth")

        def place() -> tuple[float, float]:
            p = base().pose.pose.position
            return p.x, p.y

        start = place()
        program.wait(lambda: math.dist(place(), start) > 0.5, "the base is under way", START)
        program.wait(lambda: math.dist(place(), start) < 0.2, "it was around", 2 * START)
        page.tab("Target", "franka")
        program.wait(lambda: max(map(abs, arm().velocity)) > 0.2, "the arm moves", START)
        page.screenshot(path)


def franka(path: Path) -> None:
    """The arm, moved by a joint command."""
    goal = {"panda_joint1": -0.15, "panda_joint2": 0.0, "panda_joint4": -2.0, "panda_joint6": 2.1}
    with program_and_page(["up", "franka:=franka"]) as (program, page):
        arm = program.hear(JointState, "/franka/joint_states")
        out = program.node.create_publisher(
            JointState, "/franka/joint_trajectory_controller/reference", qos.STREAM
        )
        program.wait(lambda: out.get_subscription_count() > 0, "the controller listens", START)

        def there() -> bool:
            now = dict(zip(arm().name, arm().position, strict=True))
            return all(abs(now[joint] - value) < 0.01 for joint, value in goal.items())

        out.publish(JointState(name=list(goal), position=list(goal.values())))
        program.wait(there, "the arm is there", START)
        page.wait_until_drawn()
        page.screenshot(path)


def jetbot_square(path: Path) -> None:
    """The base on the last side of its square, with the trail of the previous sides."""
    with program_and_page(["up", "jetbot:=jetbot@0,0,3.1416"]) as (program, page):
        odom = program.hear(Odometry, "/jetbot/diff_drive_controller/odom")
        out = program.node.create_publisher(
            TwistStamped, "/jetbot/diff_drive_controller/cmd_vel", qos.STREAM
        )
        program.wait(lambda: out.get_subscription_count() > 0, "the controller listens", START)
        pan_and_zoom(page, 20, 100, 6)
        square = SquareDrive(1.0, speed=0.3, turn_rate=1.5)

        def drive() -> bool:
            p, q = odom().pose.pose.position, odom().pose.pose.orientation
            twist = square.step(p.x, p.y, 2.0 * math.atan2(q.z, q.w))
            message = TwistStamped()
            message.twist.linear.x, message.twist.angular.z = twist.vx, twist.wz
            out.publish(message)
            return square.leg == 6 and p.y < 0.6

        program.wait(drive, "the last but one side is half done", START)
        page.screenshot(path)


def boxes() -> PlanningScene:
    """Return a wall and a table in front of the arm, as a planning scene diff."""
    message = PlanningScene(is_diff=True)
    message.robot_state.is_diff = True
    for name, size, place, rgb in (
        ("wall", (0.04, 0.3, 0.5), (0.5, 0.0, 0.25), (0.55, 0.6, 0.75)),
        ("table", (0.5, 1.0, 0.04), (0.65, 0.0, 0.05), (0.75, 0.7, 0.6)),
    ):
        item = CollisionObject(id=name, operation=CollisionObject.ADD)
        item.header.frame_id = "panda_link0"
        item.primitives = [SolidPrimitive(type=SolidPrimitive.BOX, dimensions=list(size))]
        item.primitive_poses = [Pose()]
        item.pose.position.x, item.pose.position.y, item.pose.position.z = place
        message.world.collision_objects.append(item)
        colour = ObjectColor(id=name)
        colour.color.r, colour.color.g, colour.color.b, colour.color.a = (*rgb, 0.8)
        message.object_colors.append(colour)
    return message


def viewer(path: Path) -> None:
    """A plan around a wall: ghost on the path, search tree, spheres coloured by distance."""
    start = {"panda_joint1": -0.6, "panda_joint2": 0.35, "panda_joint4": -1.9}
    plain = ["--params-file", chromium.WITHOUT_SHADOWS]
    with program_and_page(["up", "franka:=franka", *plain]) as (program, page):
        node = program.node
        arm = program.hear(JointState, "/franka/joint_states")
        out = node.create_publisher(
            JointState, "/franka/joint_trajectory_controller/reference", qos.STREAM
        )
        scenes = node.create_publisher(PlanningScene, "/franka/planning_scene", qos.SCENES)
        planner = ActionClient(node, MoveGroup, "/franka/move_action")
        program.wait(
            lambda: (
                out.get_subscription_count() > 0
                and scenes.get_subscription_count() > 0
                and planner.server_is_ready()
            ),
            "controller and planner listen", START,
        )  # fmt: skip
        scenes.publish(boxes())
        out.publish(JointState(name=list(start), position=list(start.values())))

        def there() -> bool:
            now = dict(zip(arm().name, arm().position, strict=True))
            return all(abs(now[joint] - value) < 0.01 for joint, value in start.items())

        program.wait(there, "the arm is beside the wall", START)
        page.tab("Scene", "franka")
        page.check("Collision spheres", True)
        page.tab("Plan", "franka")
        page.check("Search tree", True)
        time.sleep(2.0)
        X = from_xyz_rpy((0.55, 0.38, 0.3), (np.pi, 0.0, 0.0))
        goal = MoveGroup.Goal()
        goal.request.group_name = "arm"
        goal.request.goal_constraints = [pose_constraints("panda_hand_tcp", "panda_link0", X)]
        goal.planning_options.plan_only = True
        planner.send_goal_async(goal)
        page.wait_for_text("Time [s]", START)
        page.check("Play", False)
        page.set_slider("Time", 1.0)
        page.wait_until_drawn()
        page.screenshot(path)
        planner.destroy()


def spheres(path: Path) -> None:
    """The sphere editor, with one sphere of the hand selected."""
    with tempfile.TemporaryDirectory() as folder:
        program = Program(["spheres", "franka", "--no-shadows"], Path(folder) / "log")
        try:
            with chromium.chromium_page(Path(folder), *SIZE) as page:
                page.open(program.address())
                page.wait_for_text("of the surface", START)
                page.wait_until_drawn()
                page.screenshot(path)
        finally:
            program.close()


def shelf(path: Path) -> None:
    """The plot of the motion in the tutorial about the shelf, by its commands."""
    page_of_it = (ROOT / "docs" / "tutorials" / "plan_around_a_shelf.md").read_text()
    scene = re.search(r"```yaml\n(.*?)```", page_of_it, re.DOTALL)
    commands = re.findall(r"^motion (plan .*|plot .*)$", page_of_it, re.MULTILINE)
    if scene is None or len(commands) != 2:
        sys.exit("the tutorial does not have the commands of this picture")
    motion = str(Path(sys.executable).parent / "motion")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "shelf.yaml").write_text(scene[1])
        for command in commands:
            subprocess.run([motion, *shlex.split(command)], cwd=folder, check=True)
        with chromium.chromium_page(Path(folder), *SIZE) as page:
            page.driver.get((Path(folder) / "shelf.svg").as_uri())
            root = page.driver.find_element("tag name", "svg")
            page.resize(*(math.ceil(float(root.get_attribute(x))) for x in ("width", "height")))
            page.driver.save_screenshot(str(path))


PICTURES: dict[str, Callable[[Path], None]] = {
    "viewer": viewer,
    "spheres": spheres,
    "shelf": shelf,
    "demo": demo,
    "franka": franka,
    "jetbot_square": jetbot_square,
}


def main() -> None:
    """Take the selected pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=sorted(PICTURES), action="append")
    parser.add_argument("--folder", type=Path, default=ROOT / "docs" / "pictures")
    chosen = parser.parse_args()
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    os.environ["ROS_DOMAIN_ID"] = DOMAIN
    chosen.folder.mkdir(parents=True, exist_ok=True)
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    try:
        for name in chosen.only or PICTURES:
            with tempfile.TemporaryDirectory() as folder:
                whole = Path(folder) / f"{name}.png"
                PICTURES[name](whole)
                path = chosen.folder / f"{name}.webp"
                pictures.write_picture(pictures.read_picture(whole), path)
            print(f"{path}: {path.stat().st_size / 1000:.0f} kB")
    finally:
        rclpy.try_shutdown()


if __name__ == "__main__":
    main()
