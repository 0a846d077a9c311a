# SPDX-License-Identifier: Apache-2.0
"""Goal and path constraints of planning requests, of joints and poses."""

import dataclasses
import math
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from geometry_msgs.msg import Point, Pose, Quaternion, Vector3
from moveit_msgs.msg import (
    Constraints,
    JointConstraint,
    MoveItErrorCodes,
    OrientationConstraint,
    PositionConstraint,
    VisibilityConstraint,
)
from scipy.spatial.transform import Rotation
from shape_msgs.msg import SolidPrimitive

from motion_nodes.core.planning.planning_problem import JointGoal, PoseGoal
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box
from motion_nodes.core.scene.scene import Scene, Subframe, attached_body, world_object
from motion_nodes.errors import UnknownFrame
from motion_nodes.ros.current_state import RobotFrames
from motion_nodes.ros.messages.constraints import GoalContext
from motion_nodes.ros.messages.moveit_messages import RequestRejected

Codes = MoveItErrorCodes
FRANKA = load_robot("franka")
ARM = FRANKA.group("arm")
KINEMATICS = Kinematics(FRANKA.tree, FRANKA.joint_names, base=FRANKA.base_frame)
ELSEWHERE = np.eye(4)
ELSEWHERE[:3, 3] = (1.0, 2.0, 3.0)
ELSEWHERE[:3, :3] = Rotation.from_rotvec([0.0, 0.0, math.pi / 2.0]).as_matrix()


class Tree:
    """A /tf with one frame beyond those of the robot."""

    def update(self) -> None:
        """Nothing comes."""

    def pose(self, base: str, name: str) -> tuple[np.ndarray, float]:
        if name != "table":
            raise UnknownFrame(name, ("table",))
        return ELSEWHERE, 0.0


@pytest.fixture
def context():
    return GoalContext(FRANKA, ARM, FRANKA.home.copy(), RobotFrames(KINEMATICS, Tree(), ""))


@pytest.fixture
def holding(context):
    """The same with a cup in the hand, 0.1 m ahead and turned; its handle is 0.2 m to its left."""
    X_LO = from_xyz_rpy((0.0, 0.0, 0.1), (0.3, 0.0, 1.2))
    handle = Subframe("handle", from_xyz_rpy((0.0, 0.2, 0.0), (0.0, 0.4, 0.0)))
    held = attached_body(
        dataclasses.replace(world_object("cup", Box((0.1,) * 3)), subframes=(handle,)),
        "panda_hand_tcp",
        X_LO,
    )
    scene = Scene(attached=MappingProxyType({"cup": held}))
    return dataclasses.replace(context, frames=context.frames.in_scene(scene))


def joint(name: str, position: float, below: float = 0.0, above: float = 0.0) -> JointConstraint:
    return JointConstraint(
        joint_name=name, position=position, tolerance_below=below, tolerance_above=above
    )


def region(
    kind: int,
    *sizes: float,
    at: Any = (0.4, 0.0, 0.5),
    frame: str = "",
    link: str = "panda_hand_tcp",
    turned: Any = (0.0, 0.0, 0.0, 1.0),
) -> PositionConstraint:
    x, y, z, w = map(float, turned)
    px, py, pz = map(float, at)
    constraint = PositionConstraint(link_name=link)
    constraint.header.frame_id = frame
    constraint.constraint_region.primitives = [SolidPrimitive(type=kind, dimensions=sizes)]
    constraint.constraint_region.primitive_poses = [
        Pose(position=Point(x=px, y=py, z=pz), orientation=Quaternion(x=x, y=y, z=z, w=w))
    ]
    return constraint


def turn(x: float = 0.0, y: float = 0.0, z: float = 0.0, w: float = 1.0, *,
         within: Any = (0.01, 0.02, 0.03), euler: bool = False, frame: str = "",
         link: str = "panda_hand_tcp") -> OrientationConstraint:  # fmt: skip
    constraint = OrientationConstraint(
        link_name=link, orientation=Quaternion(x=x, y=y, z=z, w=w), parameterization=1 - euler
    )
    constraint.header.frame_id = frame
    constraint.absolute_x_axis_tolerance = float(within[0])
    constraint.absolute_y_axis_tolerance = float(within[1])
    constraint.absolute_z_axis_tolerance = float(within[2])
    return constraint


def pose(place: Any = None, orientation: Any = None) -> Constraints:
    return Constraints(
        position_constraints=[place] if place else [],
        orientation_constraints=[orientation] if orientation else [],
    )


def refusal(context: GoalContext, *alternatives: Constraints) -> tuple[int, str]:
    with pytest.raises(RequestRejected) as caught:
        context.goals(alternatives)
    return caught.value.code, str(caught.value)


SPHERE, BOX, CYLINDER, CONE = (
    SolidPrimitive.SPHERE, SolidPrimitive.BOX, SolidPrimitive.CYLINDER, SolidPrimitive.CONE,
)  # fmt: skip


# ---- joints


def test_joint_constraints_become_a_goal_with_tolerances(context):
    wanted = {name: 0.1 * i - 0.5 for i, name in enumerate(ARM.joints)}
    wanted["panda_joint4"], wanted["panda_joint6"] = -1.5, 1.0
    (goal,) = context.goals(
        [Constraints(joint_constraints=[joint(n, v, 0.01, 0.02) for n, v in wanted.items()])]
    )
    assert isinstance(goal, JointGoal)
    assert goal.q == pytest.approx(list(wanted.values()))
    assert np.array(goal.below) == pytest.approx([0.01] * 7)
    assert np.array(goal.above) == pytest.approx([0.02] * 7)


def test_joints_that_are_not_named_may_end_anywhere(context):
    (goal,) = context.goals([Constraints(joint_constraints=[joint("panda_joint1", 1.0)])])
    q, below, above = np.array(goal.q), np.array(goal.below), np.array(goal.above)
    assert q[0] == 1.0
    assert below[0] == above[0] == 0.0
    assert q[1:] == pytest.approx(context.start[1:])
    assert (q - below)[1:] == pytest.approx(ARM.limits.lower[1:])
    assert (q + above)[1:] == pytest.approx(ARM.limits.upper[1:])


def test_constraints_of_one_joint_are_all_kept(context):
    both = [joint("panda_joint1", 1.0, 0.3, 0.3), joint("panda_joint1", 0.6, 0.2, 0.2)]
    (goal,) = context.goals([Constraints(joint_constraints=both)])
    assert goal.q[0] - goal.below[0] == pytest.approx(0.7)
    assert goal.q[0] + goal.above[0] == pytest.approx(0.8)
    both[1] = joint("panda_joint1", 0.0, 0.1, 0.1)
    code, text = refusal(context, Constraints(joint_constraints=both))
    assert code == Codes.INVALID_GOAL_CONSTRAINTS
    assert "panda_joint1 contradict" in text


def test_a_tolerance_that_leads_out_of_the_limits_is_cut(context):
    upper = ARM.limits.upper[0]
    (goal,) = context.goals(
        [Constraints(joint_constraints=[joint("panda_joint1", upper + 0.01, 0.1, 0.1)])]
    )
    assert goal.q[0] == upper
    assert goal.above[0] == 0.0
    assert goal.below[0] == pytest.approx(0.09)
    (goal,) = context.goals([Constraints(joint_constraints=[joint("panda_joint1", 9.0)])])
    assert goal.q[0] == 9.0, "the planner reports that it is outside the limits"


def test_joints_of_other_groups_must_be_where_they_are_wanted(context):
    here = [joint("panda_joint1", 0.5), joint("panda_finger_joint1", 0.04)]
    (goal,) = context.goals([Constraints(joint_constraints=here)])
    assert len(goal.q) == 7
    here[1].position = 0.01
    code, text = refusal(context, Constraints(joint_constraints=here))
    assert code == Codes.INVALID_GOAL_CONSTRAINTS
    assert "panda_finger_joint1" in text
    assert "group 'arm'" in text


@pytest.mark.parametrize(
    ("constraint", "word"),
    [
        (joint("panda_joint8", 0.0), "panda_joint8"),
        (joint("panda_joint1", math.nan), "nan"),
        (joint("panda_joint1", 0.0, -0.1, 0.1), "not negative"),
        (joint("panda_joint1", 0.0, math.inf, 0.1), "finite"),
    ],
)
def test_bad_joint_constraints(context, constraint, word):
    code, text = refusal(context, Constraints(joint_constraints=[constraint]))
    assert code == Codes.INVALID_GOAL_CONSTRAINTS
    assert word in text


# ---- poses


def test_a_sphere_and_an_orientation_are_a_pose_with_tolerances(context):
    (goal,) = context.goals(
        [pose(region(SPHERE, 0.02), turn(x=1.0, w=0.0, within=(0.2, 0.3, 0.4)))]
    )
    assert isinstance(goal, PoseGoal)
    assert goal.link == "panda_hand_tcp"
    assert goal.X_LT is None
    X = np.array(goal.X_BT)
    assert X[:3, 3] == pytest.approx([0.4, 0.0, 0.5])
    assert X[:3, :3] == pytest.approx(np.diag([1.0, -1.0, -1.0]))
    assert goal.tolerance.position == 0.02
    assert goal.tolerance.orientation == (0.2, 0.3, 0.4)


def test_of_small_tolerances_a_part_is_left_to_control(context):
    (goal,) = context.goals([pose(region(SPHERE, 0.001), turn(within=(0.01, 0.02, 0.5)))])
    assert goal.tolerance.position == pytest.approx(1e-5)
    assert goal.tolerance.orientation == pytest.approx((1e-4, 2e-4, 0.5))


def test_frames_are_looked_up(context):
    (goal,) = context.goals(
        [pose(region(SPHERE, 0.01, at=(1.0, 0.0, 0.0), frame="table"), turn(frame="table"))]
    )
    X = np.array(goal.X_BT)
    assert X[:3, 3] == pytest.approx([1.0, 3.0, 3.0])
    assert X[:3, :3] == pytest.approx(ELSEWHERE[:3, :3])
    code, text = refusal(context, pose(region(SPHERE, 0.01, frame="shelf")))
    assert code == Codes.FRAME_TRANSFORM_FAILURE
    assert "shelf" in text


def test_an_empty_link_is_the_tip_and_unknown_ones_are_refused(context):
    (goal,) = context.goals([pose(region(SPHERE, 0.01, link=""))])
    assert goal.link == "panda_hand_tcp"
    assert math.isinf(goal.tolerance.orientation)
    code, text = refusal(context, pose(region(SPHERE, 0.01, link="panda_hnd")))
    assert code == Codes.INVALID_LINK_NAME
    assert "Did you mean 'panda_hand'" in text


def test_only_an_orientation_leaves_the_position_free(context):
    (goal,) = context.goals([pose(orientation=turn())])
    assert math.isinf(goal.tolerance.position)
    assert np.array(goal.X_BT)[:3, 3] == pytest.approx(
        KINEMATICS.pose(FRANKA.home, "panda_hand_tcp")[:3, 3]
    )


def test_the_point_of_a_link_that_is_meant(context):
    place = region(SPHERE, 0.01)
    place.target_point_offset = Vector3(x=0.0, y=0.0, z=0.1)
    (goal,) = context.goals([pose(place)])
    assert np.array(goal.X_LT)[:3, 3] == pytest.approx([0.0, 0.0, 0.1])
    place.target_point_offset.z = math.nan
    assert refusal(context, pose(place))[0] == Codes.INVALID_GOAL_CONSTRAINTS


def test_a_box_is_kept_along_its_own_axes(context):
    half = math.sqrt(0.5)
    place = region(BOX, 0.2, 0.06, 0.04, turned=(0.0, 0.0, half, half))
    (goal,) = context.goals([pose(place)])
    assert goal.tolerance.position == pytest.approx((0.1, 0.03, 0.02))
    assert np.array(goal.X_BT)[:3, :3] == pytest.approx(ELSEWHERE[:3, :3])
    # With an orientation the axes are those of the goal: x of the box is its y.
    (goal,) = context.goals([pose(place, turn())])
    assert goal.tolerance.position == pytest.approx((0.03, 0.1, 0.02))
    # Axes that do not match: the inscribed sphere, with a note.
    (goal,) = context.goals([pose(place, turn(z=math.sin(0.2), w=math.cos(0.2)))])
    assert goal.tolerance.position == pytest.approx(0.02)
    assert any("inscribed sphere" in note for note in context.notes)


def test_a_cylinder_holds_the_box_that_is_used(context):
    (goal,) = context.goals([pose(region(CYLINDER, 0.2, 0.05))])
    x, y, z = goal.tolerance.position
    assert math.hypot(x, y) == pytest.approx(0.05)
    assert z == pytest.approx(0.1)


def test_a_pose_and_joints_are_one_goal(context):
    both = pose(region(SPHERE, 0.02), turn())
    both.joint_constraints = [joint("panda_joint3", 0.5, 0.1, 0.2)]
    (goal,) = context.goals([both])
    assert isinstance(goal, PoseGoal)
    q, below, above = goal.joints.q, goal.joints.below, goal.joints.above
    assert (q - below)[2] == pytest.approx(0.4)
    assert (q + above)[2] == pytest.approx(0.7)
    assert (q - below)[3] == pytest.approx(ARM.limits.lower[3])
    both.joint_constraints = [joint("panda_finger_joint1", 0.04)]
    (goal,) = context.goals([both])
    assert goal.joints is None, "the joint of another group is at its goal"


def test_several_primitives_and_several_goals_are_alternatives(context):
    place = region(SPHERE, 0.01)
    more = region(SPHERE, 0.01, at=(0.3, 0.3, 0.3)).constraint_region
    place.constraint_region.primitives += more.primitives
    place.constraint_region.primitive_poses += more.primitive_poses
    goals = context.goals(
        [pose(place), Constraints(joint_constraints=[joint("panda_joint1", 1.0)])]
    )
    assert [type(goal) for goal in goals] == [PoseGoal, PoseGoal, JointGoal]
    assert np.array(goals[1].X_BT)[:3, 3] == pytest.approx([0.3, 0.3, 0.3])
    _, text = refusal(context, pose(place), Constraints())
    assert text.startswith("goal 2 of 2: ")


@pytest.mark.parametrize(
    "constraints",
    [
        Constraints(),
        pose(region(CONE, 0.1, 0.1)),
        pose(region(SPHERE)),
        pose(region(SPHERE, -0.1)),
        pose(region(BOX, 0.1, 0.1)),
        pose(PositionConstraint(link_name="panda_hand")),
        pose(region(SPHERE, 0.1, at=(math.nan, 0.0, 0.0))),
        pose(region(SPHERE, 0.1), turn(w=0.0)),
        pose(region(SPHERE, 0.1), turn(within=(-0.1, 0.1, 0.1))),
        pose(orientation=turn(within=(4.0, 4.0, 4.0))),
        Constraints(position_constraints=[region(SPHERE, 0.1), region(SPHERE, 0.2)]),
        Constraints(orientation_constraints=[turn(), turn()]),
        Constraints(visibility_constraints=[VisibilityConstraint()]),
        Constraints(joint_constraints=[joint("panda_finger_joint1", 0.04)]),
    ],
)
def test_what_cannot_be_understood_is_refused(context, constraints):
    code, text = refusal(context, constraints)
    assert code == Codes.INVALID_GOAL_CONSTRAINTS
    assert len(text) > 20


# ---- path constraints


def test_path_constraints_that_hold_anyway_are_omitted(context):
    assert context.path_constraints(Constraints()) == ()
    limits = ARM.limits
    wide = joint("panda_joint1", 0.0, -limits.lower[0] + 0.1, limits.upper[0] + 0.1)
    still = joint("panda_finger_joint1", 0.04, 0.01, 0.01)
    any_turn = turn(within=(4.0, 4.0, 4.0))
    given = Constraints(joint_constraints=[wide, still], orientation_constraints=[any_turn])
    assert context.path_constraints(given) == ()


def test_path_constraints_become_regions(context):
    given = Constraints(
        joint_constraints=[joint("panda_joint1", 0.1, 0.5, 0.6)],
        position_constraints=[region(CYLINDER, 0.4, 0.1), region(SPHERE, 0.3)],
        orientation_constraints=[turn(within=(0.1, 0.2, 4.0))],
    )
    band, cylinder, ball, rotation = context.path_constraints(given)
    assert (band.lower, band.upper) == pytest.approx((-0.4, 0.7))
    assert cylinder.shape == "cylinder"
    assert (cylinder.upper[0], cylinder.lower[2], cylinder.upper[2]) == (0.1, -0.2, 0.2)
    assert (ball.shape, ball.upper[0]) == ("ball", 0.3)
    assert rotation.rotation == "rotation_vector"
    assert rotation.upper[3:] == (0.1, 0.2, math.inf)
    several = region(BOX, 0.2, 0.2, 0.2)
    several.constraint_region.primitives *= 2
    several.constraint_region.primitive_poses *= 2
    (union,) = context.path_constraints(Constraints(position_constraints=[several]))
    assert len(union.regions) == 2


def test_a_region_without_a_pose_is_refused(context):
    """It would be at the origin of its frame: with an object's frame, in the middle of it."""
    bare = region(SPHERE, 0.1)
    bare.constraint_region.primitive_poses = []
    given = [Constraints(position_constraints=[bare])]
    for read in (lambda: context.goals(given), lambda: context.path_constraints(given[0])):
        with pytest.raises(RequestRejected, match="primitive_poses"):
            read()


@pytest.mark.parametrize("axis", range(3))
def test_a_visibility_constraint_becomes_a_line_of_sight(context, axis):
    """The sensor on the hand looks along z, y or x of its frame."""
    sight = VisibilityConstraint(target_radius=0.1, cone_sides=4, max_view_angle=0.5)
    sight.sensor_view_direction = axis
    sight.sensor_pose.header.frame_id = "panda_hand"
    (found,) = context.path_constraints(Constraints(visibility_constraints=[sight]))
    assert found.sensor_on_link
    assert (found.max_view_angle, found.max_range_angle) == (0.5, math.inf)
    assert np.asarray(found.X_LP)[:3, 2] == pytest.approx(np.eye(3)[2 - axis])
    assert context.notes, "a note that occlusion is not checked"


@pytest.mark.parametrize(
    "kinds",
    [
        {"position_constraints": [region(CONE, 0.1, 0.1)]},
        {"position_constraints": [PositionConstraint(link_name="panda_hand")]},
        {"orientation_constraints": [turn(within=(-0.1, 0.1, 0.1))]},
        {"visibility_constraints": [VisibilityConstraint()]},
        {"joint_constraints": [joint("panda_joint1", 0.0, -0.5, 0.5)]},
        {"joint_constraints": [joint("panda_finger_joint1", 0.0)]},
    ],
)
def test_invalid_path_constraints_are_refused(context, kinds):
    with pytest.raises(RequestRejected) as caught:
        context.path_constraints(Constraints(**kinds))
    assert caught.value.code == Codes.INVALID_GOAL_CONSTRAINTS


def test_path_constraints_in_a_moving_frame_are_relative_to_its_link(context):
    """As with the tools of two arms: the region is fixed in the link of its frame."""
    moving = [turn(frame="panda_link5"), region(SPHERE, 0.1, frame="panda_link5")]
    given = Constraints(position_constraints=moving[1:], orientation_constraints=moving[:1])
    ball, rotation = context.path_constraints(given)
    assert {ball.reference_link, rotation.reference_link} == {"panda_link5"}
    assert ball.X_BR[:3, 3] == pytest.approx((0.4, 0.0, 0.5))
    assert rotation.X_BR == pytest.approx(np.eye(4), abs=1e-12)
    own = Constraints(orientation_constraints=[turn(frame="panda_hand_tcp")])
    with pytest.raises(RequestRejected, match="panda_hand_tcp"):
        context.path_constraints(own)


def test_constraints_of_two_links_are_one_goal(context):
    two = region(BOX, 0.1, 0.1, 0.1)
    two.constraint_region.primitives *= 2
    two.constraint_region.primitive_poses *= 2
    goals = context.goals([pose(two, turn(link="panda_link5"))])
    assert [[p.link for p in goal.poses] for goal in goals] == [
        ["panda_hand_tcp", "panda_link5"]
    ] * 2
    joints = [joint("panda_joint1", 0.1, 0.5, 0.5)]
    both = pose(region(SPHERE, 0.1), turn(link="panda_link5"))
    both.joint_constraints = joints
    (goal,) = context.goals([both])
    assert goal.joints.q[0] == pytest.approx(0.1)
    both.orientation_constraints.append(turn(link="panda_link5"))
    assert "panda_link5" in refusal(context, both)[1]


# ---- subframes of attached objects


def handle_of(goal_link: str, X_LT: Any, q: np.ndarray) -> np.ndarray:
    return KINEMATICS.pose(q, goal_link) @ X_LT


def test_a_goal_for_a_subframe_is_one_for_its_link_with_the_frame_in_it(holding):
    position = region(SolidPrimitive.SPHERE, 0.001, link="cup/handle")
    turned = OrientationConstraint(link_name="cup/handle", orientation=Quaternion(w=1.0))
    goals = holding.goals(
        [Constraints(position_constraints=[position], orientation_constraints=[turned])]
    )
    X_BF = holding.frames.pose("cup/handle", holding.q)
    assert goals[0].link == "panda_hand_tcp"
    assert np.allclose(handle_of(goals[0].link, goals[0].X_LT, holding.q), X_BF)
    only = holding.goals([Constraints(orientation_constraints=[turned])])[0]
    assert np.allclose(handle_of(only.link, only.X_LT, holding.q), X_BF)


def test_a_frame_of_the_held_object_is_a_frame_of_goals(holding):
    goal = holding.goals(
        [Constraints(position_constraints=[region(SolidPrimitive.SPHERE, 0.001, frame="cup")])]
    )[0]
    X_BF = holding.frames.pose("cup", holding.q)
    assert np.allclose(np.asarray(goal.X_BT)[:3, 3], (X_BF @ [0.4, 0.0, 0.5, 1.0])[:3])


def test_path_constraints_hold_for_subframes(holding):
    turned = OrientationConstraint(link_name="cup/handle", orientation=Quaternion(w=1.0))
    turned.absolute_x_axis_tolerance = turned.absolute_y_axis_tolerance = 0.1
    turned.absolute_z_axis_tolerance = 4.0
    (found,) = holding.path_constraints(Constraints(orientation_constraints=[turned]))
    X_BF = holding.frames.pose("cup/handle", holding.q)
    assert np.allclose(handle_of(found.link, found.X_LT, holding.q), X_BF)


@pytest.mark.parametrize("name", ["cup/rim", "cup/", "bowl/handle", "handle"])
def test_unknown_subframes_are_refused(holding, name):
    position = region(SolidPrimitive.SPHERE, 0.001, link=name)
    with pytest.raises(RequestRejected) as refusal:
        holding.goals([Constraints(position_constraints=[position])])
    assert refusal.value.code == Codes.INVALID_LINK_NAME
