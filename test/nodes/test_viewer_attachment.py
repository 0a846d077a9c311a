# SPDX-License-Identifier: Apache-2.0
"""The viewer node attaches and detaches objects, and scales motions to named states."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from moveit_msgs.msg import AttachedCollisionObject, CollisionObject, PlanningScene
from nodes.viewer_cell import FRANKA, NAMES, box, objects, tell, viewer_cell
from raised_errors import about
from ros_client import RELIABLE
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from motion_nodes.errors import InvalidCommand
from motion_nodes.extras.viewer.ui_commands import MotionScaling
from motion_nodes.nodes.viewer import viewer_planning
from motion_nodes.nodes.viewer.viewer_planning import attachment_diff
from motion_nodes.nodes.viewer.viewer_robot import scaled_motion

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def cell(ros, module_client):
    """A viewer of an arm, and an owner of its scene."""
    with viewer_cell(module_client) as opened:
        # The scene is requested again after its first message.
        follower = opened.node._watched["left"].planning.follower
        opened.client.wait(lambda: follower.synchronised, "the whole scene")
        before = follower._requested_at
        opened.client.repeat(
            lambda: tell(opened),
            lambda: follower._requested_at > before and follower.synchronised,
            "it once more",
        )
        yield opened


TOOL = "panda_hand_tcp"


@pytest.fixture
def notes(cell, monkeypatch):
    """Texts of the page's notifications."""
    found: list[str] = []
    monkeypatch.setattr(cell.page, "notify", lambda _, text: found.append(text))
    return found


@pytest.fixture
def standing(cell):
    """The viewer knows that the arm is at home."""
    states = cell.client.publisher(JointState, "/left/joint_states", RELIABLE)
    state = cell.node._watched["left"].state
    cell.client.repeat(
        lambda: states.publish(JointState(name=NAMES, position=FRANKA.home.tolist())),
        lambda: np.allclose(state.position, FRANKA.home),
        "the state",
    )


@pytest.fixture
def part(cell):
    """There is an object ``part`` in the world."""
    scene = cell.node._watched["left"].planning.follower
    cell.client.repeat(
        lambda: tell(cell, box("part", 0.5)), lambda: "part" in scene.scene.objects, "the part"
    )


def applied(cell: SimpleNamespace, change: AttachedCollisionObject) -> None:
    """Publish a change as the owner of the scene does; it gives the shapes of an attached body."""
    message = PlanningScene(is_diff=True)
    message.robot_state.is_diff = True
    message.robot_state.attached_collision_objects = [change]
    cell.scenes.publish(message)


def test_an_object_is_attached_and_detached_by_diffs_of_the_scene(cell, notes, standing, part):
    heard = cell.client.listen(PlanningScene, "/left/planning_scene")
    planning = cell.node._watched["left"].planning
    cell.client.wait(planning._changes.get_subscription_count, "the owner")
    cell.checked.clear()
    cell.page.on_attach("left", "part", TOOL)
    message = cell.client.wait(lambda: heard.newest, "the diff")
    assert message.is_diff
    assert message.robot_state.is_diff
    assert not message.world.collision_objects
    (change,) = message.robot_state.attached_collision_objects
    assert (change.link_name, change.object.id) == (TOOL, "part")
    assert change.object.operation == CollisionObject.ADD
    assert {"panda_hand", "panda_leftfinger", "panda_rightfinger"} <= set(change.touch_links)
    assert "panda_link6" not in change.touch_links
    # MoveIt takes the shapes of the object in the world, at its present pose.
    assert not [*change.object.primitives, *change.object.meshes, *change.object.planes]
    applied(cell, change)
    cell.client.wait(lambda: "part" in planning.follower.scene.attached, "it is attached")
    # It moves with the tool.
    cell.client.wait(lambda: f"/{TOOL}/" in objects(cell)["part"].name, "it is below the tool")
    cell.client.wait(lambda: cell.checked, "the robot is checked with it")
    heard.clear()
    cell.page.on_attach("left", "part", "")
    message = cell.client.wait(lambda: heard.newest, "the diff")
    (change,) = message.robot_state.attached_collision_objects
    assert message.robot_state.is_diff
    assert (change.object.id, change.object.operation) == ("part", CollisionObject.REMOVE)
    applied(cell, change)
    cell.client.wait(lambda: "part" in planning.follower.scene.objects, "it is in the world")
    assert notes == []


def test_collisions_of_an_attached_object_are_reported(cell, notes, standing, part):
    planning, validity = (getattr(cell.node._watched["left"], n) for n in ("planning", "validity"))
    q = FRANKA.home.copy()
    q[0] = 1.5  # where the service of this test reports a collision
    q[7] = FRANKA.limits.upper[7] + 1e-5  # as measured; no collision with a limit
    for _ in range(2):
        validity.check_carried(cell.page, "part", q)
        cell.client.wait(lambda: notes, "the notification")
        (text,) = notes
        assert "'part' attached" in text
        assert "panda_hand and table are in collision" in text
        assert FRANKA.limits.within(list(cell.checked[-1].values()))
        notes.clear()
    assert planning.tried(attachment_diff(FRANKA, "part", TOOL), FRANKA.home) == []


@pytest.mark.parametrize(
    ("name", "link", "text"),
    [
        ("prat", TOOL, "part"),
        ("part", "panda_hand_tpc", TOOL),
        ("part", "", "not attached"),
    ],
)
def test_what_cannot_be_attached_is_named_and_not_sent(
    cell, notes, standing, part, name, link, text
):
    heard = cell.client.listen(PlanningScene, "/left/planning_scene")
    cell.page.on_attach("left", name, link)
    cell.client.wait(lambda: notes, "the notification")
    assert text in notes[0]
    assert heard.newest is None


def test_an_owner_that_does_not_attach_is_reported(cell, notes, standing, part, monkeypatch):
    monkeypatch.setattr(viewer_planning, "CONFIRMATION_TIMEOUT", 0.3)
    heard = cell.client.listen(PlanningScene, "/left/planning_scene")
    planning = cell.node._watched["left"].planning
    cell.client.wait(planning._changes.get_subscription_count, "the owner")
    cell.page.on_attach("left", "part", TOOL)
    cell.client.wait(lambda: notes, "the notification")
    assert "'part' was not attached" in notes[0]
    assert heard.newest is not None


def test_without_a_state_nothing_is_attached(cell):
    planning = cell.node._watched["left"].planning
    unknown = np.full(len(NAMES), np.nan)
    (text,) = planning.tried(attachment_diff(FRANKA, "part", TOOL), unknown)
    assert "state" in text


def test_named_states_are_scaled_by_the_page(cell, notes, standing):
    commands = cell.client.listen(JointState, "/left/joint_trajectory_controller/reference")
    trajectories = cell.client.listen(
        JointTrajectory, "/left/joint_trajectory_controller/joint_trajectory"
    )
    cell.client.repeat(
        lambda: cell.page.on_named_state("left", "extended"), lambda: commands.newest, "a command"
    )
    assert trajectories.newest is None, "at full speed it is a command of positions"
    commands.clear()
    panel = cell.page._scaling
    try:
        panel.velocity.value = 20.0
        message = cell.client.repeat(
            lambda: cell.page.on_named_state("left", "extended"),
            lambda: trajectories.newest,
            "a trajectory",
        )
    finally:
        panel.velocity.value = 100.0
    assert commands.newest is None
    (point,) = message.points
    assert dict(zip(message.joint_names, point.positions, strict=True)) == FRANKA.states["extended"]
    assert not any(point.velocities)
    seconds = point.time_from_start.sec + 1e-9 * point.time_from_start.nanosec
    names = list(message.joint_names)
    distance = np.abs(np.array(point.positions) - FRANKA.home[FRANKA.indices(names)])
    peaks = 15.0 / 8.0 * distance / seconds  # of a quintic from rest to rest
    assert (peaks / FRANKA.limits.select(names).velocity).max() == pytest.approx(0.2, rel=1e-3)


HOME = dict(zip(NAMES, FRANKA.home.tolist(), strict=True))


class TestScaledMotion:
    """One point at rest: the controller interpolates from its references by a quintic."""

    @pytest.mark.parametrize("velocity", [0.05, 0.3, 1.0])
    @pytest.mark.parametrize("acceleration", [0.05, 0.3, 1.0])
    def test_velocity_and_acceleration_are_within_the_scaled_limits(self, velocity, acceleration):
        for state in ("extended", "transport"):
            goal = FRANKA.states[state]
            scaling = MotionScaling(velocity, acceleration)
            message = scaled_motion(FRANKA, goal, HOME, scaling)
            given = message.points[0].time_from_start
            T = given.sec + 1e-9 * given.nanosec
            limits = FRANKA.limits.select(tuple(goal))
            d = np.array([goal[n] - HOME[n] for n in goal])[:, None]
            s = np.linspace(0.0, 1.0, 4001)
            speeds = np.abs(d * (30 * s**4 - 60 * s**3 + 30 * s**2) / T).max(axis=1)
            turns = np.abs(d * (120 * s**3 - 180 * s**2 + 60 * s) / T**2).max(axis=1)
            assert (speeds <= 1.0001 * velocity * limits.velocity).all()
            assert (turns <= 1.0001 * acceleration * limits.acceleration).all()

    def test_unknown_positions(self):
        home = HOME | {"panda_joint3": math.nan}
        with pytest.raises(InvalidCommand, check=about("panda_joint3")):
            scaled_motion(FRANKA, FRANKA.states["extended"], home, MotionScaling(0.5))
        missing = {n: q for n, q in HOME.items() if n != "panda_joint3"}
        with pytest.raises(InvalidCommand, check=about("panda_joint3")):
            scaled_motion(FRANKA, FRANKA.states["extended"], missing, MotionScaling(0.5))

    def test_where_the_robot_is_already_it_takes_a_moment(self):
        message = scaled_motion(FRANKA, HOME, HOME, MotionScaling(0.05, 0.05))
        assert 0 < message.points[0].time_from_start.nanosec < 1e9
