# SPDX-License-Identifier: Apache-2.0
"""Mimic and passive joints: groups, limits, kinematics, dynamics, formats."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
from model.robot_samples import ARM, BASE, INERTIAL, changed, joint, link, urdf, write_robot
from raised_errors import about

from motion_nodes.core.ik.chain import IkChain
from motion_nodes.core.ik.problem import IkRequest, IkSettings
from motion_nodes.core.ik.solvers import make_solver
from motion_nodes.core.robot.configurations import Followers, NamedJoints, leader_values
from motion_nodes.core.robot.files.srdf_file import srdf
from motion_nodes.core.robot.files.xrdf_file import xrdf_text
from motion_nodes.core.robot.files.xrdf_robot import xrdf_of
from motion_nodes.core.robot.import_robot import write_robot_folder
from motion_nodes.core.robot.inverse_dynamics import InverseDynamics, Payload
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.limits import JointLimits, of_members
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.robot_yaml import LimitsDescription
from motion_nodes.core.robot.urdf import read_urdf
from motion_nodes.core.trajectory.timed_path import PathEfforts
from motion_nodes.errors import InvalidCommand, InvalidConfig, InvalidDescription

LIFT = Path(__file__).parent.parent / "variety" / "lift_column.urdf"
JOINTS = ("lift_lower", "j0", "j1", "j2", "j3", "j4")
SRDF = """<robot name="lift_column">
  <group name="arm"><chain base_link="{}" tip_link="{}"/></group>
</robot>"""
XRDF = """
format: xrdf
format_version: 1.0
default_joint_positions: {lift_lower: 0.1, j1: 0.3}
cspace:
  joint_names: [lift_lower, j0, j1, j2, j3, j4]
  acceleration_limits: [1.0, 5.0, 5.0, 5.0, 5.0, 5.0]
  jerk_limits: [50.0, 100.0, 100.0, 100.0, 100.0, 100.0]
tool_frames: [tool0]
"""


def written(folder: Path, name: str, text: str) -> Robot:
    file = folder / name
    file.write_text(text)
    return load_robot(file, LIFT)


@pytest.fixture
def lift(tmp_path):
    return written(tmp_path, "lift.srdf", SRDF.format("base_link", "tool0"))


@pytest.mark.parametrize("name", ["lift.srdf", "lift.xrdf"])
def test_formats_keep_base_and_tip_there_and_back(tmp_path, name):
    text = SRDF.format("base_link", "tool0") if name.endswith("srdf") else XRDF
    robot = written(tmp_path, name, text)
    robots = [robot, written(tmp_path, "again.srdf", srdf(robot, ()))]
    if name.endswith("xrdf"):  # an SRDF has no limits
        robots.append(written(tmp_path, "again.xrdf", xrdf_text(xrdf_of(robot, ()))))
    for each in robots:
        arm = each.group("arm")
        assert (arm.base, arm.tip, arm.joints) == ("base_link", "tool0", JOINTS)
        assert each.joint_names == JOINTS


def test_a_robot_yaml_may_name_the_tip(tmp_path, lift):
    description = dataclasses.replace(
        lift.description,
        name="lift",
        limits=LimitsDescription({"lift_lower": 2.0, "lift_upper": 1.0}, {"lift_upper": 30.0}),
        sources={**lift.description.sources, "limits": "test"},
    )
    write_robot_folder(tmp_path / "lift", description, lift.urdf, {})
    robot = load_robot(tmp_path / "lift")
    assert (robot.group("arm").tip, robot.group("arm").joints) == ("tool0", JOINTS)
    # Limits of a mimic joint are limits of its leader.
    assert (robot.limits.acceleration[0], robot.limits.jerk[0]) == (1.0, 30.0)
    file = tmp_path / "lift" / "robot.yaml"
    file.write_text(file.read_text().replace("[lift_lower, j0", "[lift_lower, lift_upper, j0", 1))
    with pytest.raises(InvalidDescription, match="'lift_upper'.*mimics 'lift_lower'; name that"):
        load_robot(tmp_path / "lift")


def test_the_column_of_the_lift_is_two(lift):
    kinematics = Kinematics(lift.tree, lift.joint_names, base=lift.base_frame)
    rng = np.random.default_rng(0)
    for q in rng.uniform(0.0, 0.25, (10, 6)):
        J = kinematics.jacobian(q, "tool0")
        np.testing.assert_allclose(J[:, 0], [0, 0, 2, 0, 0, 0], atol=1e-12)
        np.testing.assert_allclose(kinematics.jacobian(q, "stage1")[2, 0], 1.0)
        step = np.array([1e-3, 0, 0, 0, 0, 0])
        rise = kinematics.pose(q + step, "tool0") - kinematics.pose(q, "tool0")
        assert rise[2, 3] == pytest.approx(2e-3)


@pytest.mark.parametrize("solver", ["damped_least_squares", "jacobian_transpose"])
def test_inverse_kinematics_moves_both_stages(lift, solver):
    chain = IkChain.of_group(lift, "arm")
    kinematics = Kinematics(lift.tree, lift.joint_names, base=lift.base_frame)
    limits, rng = lift.group("arm").limits, np.random.default_rng(1)
    ik = make_solver(chain, solver, IkSettings(timeout=5.0))
    for _ in range(5):
        q = rng.uniform(limits.lower, limits.upper)
        q[3] = abs(q[3]) + 0.3  # away from the stretched elbow
        X = kinematics.pose(q, "tool0")
        found = ik.solve(IkRequest(X, seed=limits.clip(q + rng.normal(0.0, 0.05, 6))))
        assert found.success, found.reason
        np.testing.assert_allclose(kinematics.pose(found.q, "tool0"), X, atol=2e-3)
        assert limits.within(found.q)


def test_closed_forms_refuse_in_words(lift):
    with pytest.raises(InvalidConfig, match="lift_lower"):
        make_solver(IkChain.of_group(lift, "arm"), "analytic")


def test_gravity_of_the_leader_includes_its_members(lift):
    dynamics = InverseDynamics(lift.tree)
    above = {name: lift.tree.links[name].inertial for name in lift.tree.frame_names}
    masses = {name: own.mass for name, own in above.items() if own is not None}
    first = masses.pop("stage1")
    del masses["base_link"]
    expected = 9.80665 * (first + 2.0 * sum(masses.values()))
    q = np.array([0.1, 0.3, 0.2, 0.4, 0.1, 0.0])
    assert dynamics.gravity(q)[0] == pytest.approx(expected)
    # Kinetic energy: the first stage moves once, everything above twice as fast.
    M = dynamics.terms(q, np.zeros(6)).inertia
    assert M[0, 0] == pytest.approx(first + 4.0 * sum(masses.values()))


def test_efforts_of_all_members_are_limited(tmp_path):
    """The upper stage carries what is above it; the drive of the leader moves both stages."""
    text, at_rest = LIFT.read_text(), np.array([[0.1, 0.0, 0.0, 0.0, 0.0, 0.0]])
    head, tail = text.split('<joint name="lift_upper"')
    weak = head + '<joint name="lift_upper"' + tail.replace('effort="600"', 'effort="{}"', 1)
    masses = [own.mass for own in (link.inertial for link in read_urdf(LIFT).links.values()) if own]
    carried = 9.80665 * (sum(masses) - 20.0 - 4.0)  # without base and lower stage
    for payload in (None, Payload("tool0", 1.5)):
        load = carried + (0.0 if payload is None else 1.5 * 9.80665)
        for share, holds in ((1.01, True), (0.99, False)):
            file = tmp_path / f"{holds}{load:.0f}.urdf"
            file.write_text(weak.format(share * load))
            (tmp_path / "lift.srdf").write_text(SRDF.format("base_link", "tool0"))
            robot = load_robot(tmp_path / "lift.srdf", file)
            efforts = PathEfforts(robot, JOINTS, robot.home, payload=payload)
            assert efforts.count == 7
            text = efforts.overload(at_rest)[1]
            assert text == "" if holds else text.startswith("lift_upper needs"), text


def test_in_order_of_the_formulas_of_two_stages():
    """A follower of a follower, with offsets and a negative multiplier."""
    text = LIFT.read_text().replace(
        "</robot>",
        '<link name="flap"/><joint name="flap_joint" type="revolute"><parent link="tool0"/>'
        '<child link="flap"/><axis xyz="1 0 0"/>'
        '<limit lower="-1" upper="1" velocity="0.2" effort="1"/>'
        '<mimic joint="lift_upper" multiplier="-4" offset="0.5"/></joint></robot>',
    )
    tree = read_urdf(text)
    law = tree.joints["flap_joint"].mimic
    assert law is not None
    assert (law.joint, law.multiplier, law.offset) == ("lift_lower", -4.0, 0.5)
    limits = JointLimits.of_tree(tree)
    # -1 <= 0.5 - 4 q <= 1 and 0 <= q <= 0.25; 4 v <= 0.2.
    assert (limits.lower[0], limits.upper[0]) == (0.0, 0.25)
    assert limits.velocity[0] == pytest.approx(0.05)
    assert tree.variables("base_link", "flap") == JOINTS
    followers = Followers(tree)
    q = np.array([0.1, 0, 0, 0, 0, 0])
    np.testing.assert_allclose(followers.positions(q), [0.1, 0.1])
    np.testing.assert_allclose(followers.rates(q), [0.1, -0.4])


@pytest.mark.parametrize("multiplier", [1.0, -1.0, 0.5, -2.5])
@pytest.mark.parametrize("offset", [0.0, 0.03])
def test_limits_keep_all_members_within_theirs(multiplier, offset):
    low, high = sorted((0.05 * multiplier + offset, 0.2 * multiplier + offset))
    old = LIFT.read_text()
    before = (
        '<limit lower="0" upper="0.25" velocity="0.3" effort="600"/>'
        '<mimic joint="lift_lower" multiplier="1" offset="0"/>'
    )
    assert before in old
    text = old.replace(
        before,
        f'<limit lower="{low!r}" upper="{high!r}" velocity="0.1" effort="600"/>'
        f'<mimic joint="lift_lower" multiplier="{multiplier}" offset="{offset}"/>',
    )
    tree = read_urdf(text)
    limits = JointLimits.of_tree(tree)
    assert (limits.lower[0], limits.upper[0]) == (pytest.approx(0.05), pytest.approx(0.2))
    assert limits.velocity[0] == pytest.approx(min(0.3, 0.1 / abs(multiplier)))
    acceleration = of_members(tree, {"lift_lower": 2.0, "lift_upper": 1.0})
    assert acceleration[0] == pytest.approx(min(2.0, 1.0 / abs(multiplier)))
    chain = IkChain(tree, "base_link", "tool0")
    np.testing.assert_allclose((chain.lower[0], chain.upper[0]), (0.05, 0.2))


def test_ranges_without_a_common_point_are_refused():
    text = LIFT.read_text().replace('multiplier="1" offset="0"', 'multiplier="1" offset="0.9"')
    with pytest.raises(InvalidDescription, match="'lift_upper' mimics 'lift_lower'.*-0.9 to -0.65"):
        JointLimits.of_tree(read_urdf(text))


def test_a_leader_outside_the_chain_is_said(tmp_path, lift, caplog):
    with pytest.raises(InvalidDescription, match="'lift_upper' between stage1 and tool0 mimics"):
        lift.tree.variables("stage1", "tool0")
    other = written(tmp_path, "other.srdf", SRDF.format("stage1", "tool0"))
    assert other.group("arm").tip is None
    assert "mimics 'lift_lower', which is not between them" in caplog.text


def test_agreeing_values_are_reduced_to_the_leader(lift):
    joints = NamedJoints(lift.tree, ("j1", "lift_upper", "lift_lower", "elsewhere"))
    assert joints.names == ("j1", "lift_lower", "elsewhere")
    np.testing.assert_allclose(joints.positions([1.0, 0.2, 0.2, 5.0]), [1.0, 0.2, 5.0])
    np.testing.assert_allclose(joints.rates([[1.0, 0.2, 0.2, 5.0]]), [[1.0, 0.2, 5.0]])
    # Virtual work: both members push.
    np.testing.assert_allclose(joints.efforts([1.0, 20.0, 30.0, 5.0]), [1.0, 50.0, 5.0])
    assert leader_values(lift.tree, {"lift_upper": 0.1}) == {"lift_lower": pytest.approx(0.1)}
    assert NamedJoints(lift.tree, JOINTS).trivial


@pytest.mark.parametrize("upper", [0.201, 0.3, -0.2, math.inf])
def test_a_disagreement_names_both_values(lift, upper):
    if upper == 0.201:
        upper = 0.2011
    with pytest.raises(InvalidCommand, match="lift_upper is given as .*lift_lower as 0.2"):
        leader_values(lift.tree, {"lift_lower": 0.2, "lift_upper": upper})


def test_measured_states_may_have_play_and_missing_values_are_not_compared(lift):
    given = {"lift_lower": 0.2, "lift_upper": 0.203}
    assert leader_values(lift.tree, given, measured=True) == {"lift_lower": 0.2}
    joints = NamedJoints(lift.tree, ("lift_lower", "lift_upper"))
    np.testing.assert_allclose(joints.positions([0.2, math.nan], missing=True), [0.2])
    np.testing.assert_allclose(joints.positions([math.nan, 0.2], missing=True), [0.2])
    # Where every value is needed, the caller rejects the leader.
    assert np.isnan(joints.positions([0.2, math.nan])).all()
    assert np.isnan(joints.positions([math.nan, 0.2])).all()


WHEEL = '<limit velocity="9" effort="1"/>'
CART = urdf(
    "".join(link(name, INERTIAL) for name in "alrsc"),
    joint("j1", "continuous", "a", "l", WHEEL)
    + joint("j2", "continuous", "a", "r", WHEEL)
    + joint("swivel", "continuous", "a", "s", '<axis xyz="0 0 1"/>')
    + joint("caster", "continuous", "s", "c", '<axis xyz="0 1 0"/>'),
)
PASSIVE = {**BASE, "passive_joints": ["swivel", "caster"]}


def load(folder: Path, description: dict[str, object] = PASSIVE, text: str = CART) -> Robot:
    write_robot(folder, description, text)
    return load_robot(folder)


def test_passive_joints_are_joints_with_a_drive_that_does_nothing(tmp_path):
    robot = load(tmp_path)
    assert robot.joint_names == ("j1", "j2", "swivel", "caster")
    assert robot.passive_joints == ("swivel", "caster")
    for name in robot.passive_joints:
        drive = robot.drive(name)
        assert drive.passive
        assert drive.gains() == drive.gains("position") == drive.gains("velocity") == (0.0, 0.0)
    assert not any(robot.drive(name).passive for name in ("j1", "j2"))


def test_no_controller_leads_them(tmp_path):
    robot = load(tmp_path)
    assert robot.arm_joints == ()
    assert robot.base_joints == ("j1", "j2")
    arm = changed(ARM, "drives.0.joints", ["j1"])
    arm = changed(arm, "drives.0.stiffness", 10.0)
    arm = {**changed(arm, "groups", {}), "passive_joints": ["j2"]}
    write_robot(tmp_path / "arm", arm)
    assert load_robot(tmp_path / "arm").arm_joints == ("j1",)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("passive_joints", ["swivel"], "drives"),
        ("passive_joints", ["swivel", "castor"], "passive_joints"),
        ("passive_joints", ["swivel", "caster", "caster"], "passive_joints"),
        ("passive_joints", ["swivel", "caster", "j2"], "base"),
        ("drives.0.joints", ["j1", "j2", "swivel"], "drives[0].joints"),
        ("groups", {"all": {"joints": ["j1", "caster"]}}, "groups.all.joints"),
    ],
)
def test_each_fault_is_named(path, value, message, tmp_path):
    with pytest.raises(InvalidDescription, check=about(message)):
        load(tmp_path, changed(PASSIVE, path, value))
