# SPDX-License-Identifier: Apache-2.0
"""A base and an arm combined into one robot, with the values of both."""

import numpy as np
import pytest

import motion_nodes as mn
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.errors import InvalidConfig
from motion_nodes.extras.robot_setup.mounted_arm import ArmMount, mount_arm

pytestmark = pytest.mark.long

XYZ, RPY = (-0.03, 0.0, 0.2), (0.0, 0.0, 0.4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder of an OpenMANIPULATOR-X on a TurtleBot3."""
    made = tmp_path_factory.mktemp("robots") / "both"
    mount_arm("turtlebot3_burger", "open_manipulator_x", ArmMount(XYZ, RPY), output=made)
    return made


def test_numbers_are_those_of_base_and_arm(folder):
    both, base, arm = map(mn.load_robot, (str(folder), "turtlebot3_burger", "open_manipulator_x"))
    robot, parts = both.description, (base.description, arm.description)
    assert both.name == "turtlebot3_burger_open_manipulator_x"
    assert robot.kind == parts[0].kind
    assert set(both.joint_names) == {*base.joint_names, *arm.joint_names}
    for part in parts:
        names = part.joint_names
        for field in ("lower", "upper", "velocity", "effort", "acceleration", "jerk"):
            ours, theirs = getattr(robot.limits.select(names), field), getattr(part.limits, field)
            np.testing.assert_array_equal(ours, theirs, err_msg=field)
        assert [robot.drive(n) for n in names] == [part.drive(n) for n in names]
        for state in part.state_names:
            columns = [n for n in names if n in part.states[state]]
            assert {n: robot.states[state][n] for n in columns} == {
                n: part.states[state][n] for n in columns
            }
        assert part.spheres.items() <= robot.spheres.items()
    assert both.base.wheels_from_twist(0.1, 0.0, 0.4) == pytest.approx(
        base.base.wheels_from_twist(0.1, 0.0, 0.4)
    )


def test_poses_of_the_tool_are_in_the_base_frame(folder):
    both, arm = mn.load_robot(str(folder)), mn.load_robot("open_manipulator_x")
    assert both["arm"].base == both.description.base_frame
    rng = np.random.default_rng(0)
    for q in rng.uniform(-0.5, 0.5, (5, len(arm["arm"].joint_names))):
        np.testing.assert_allclose(
            both["arm"].fk(q), from_xyz_rpy(XYZ, RPY) @ arm["arm"].fk(q), atol=1e-9
        )


def test_the_arm_keeps_clear_of_the_base(folder):
    both = mn.load_robot(str(folder))
    arm = both["arm"]
    assert arm.collision_free(arm.state("home"))
    samples = np.random.default_rng(1).uniform(arm.limits.lower, arm.limits.upper, (300, 4))
    tools = arm.fk_batch(samples)[:, :3, 3]
    inside = (tools[:, 2] < 0.12) & (np.hypot(tools[:, 0], tools[:, 1]) < 0.05)
    down = samples[inside]
    assert len(down), "no sample reaches into the base"
    assert not any(arm.collision_free(q) for q in down)


@pytest.mark.long
@pytest.mark.parametrize(
    ("base", "arm", "mount", "field"),
    [
        ("franka", "ur5e", {}, "base"),
        ("jetbot", "kaya", {}, "arm"),
        ("jetbot", "franka", {"link": "deck"}, "link"),
        ("ur5e", "ur10e", {}, "base"),
        ("nova_carter", "ur5e", {}, "link"),
        ("nova_carter", "franka", {"xyz": (-0.3, 0.0, -0.3)}, "at"),
        ("jetbot", "franka", {"xyz": (0.0, np.nan, 0.0)}, "at"),
        ("jetbot", "franka", {"xyz": (0.0, 0.0, 11.0)}, "at"),
    ],
)
def test_what_cannot_be_one_robot(tmp_path, base, arm, mount, field):
    with pytest.raises(InvalidConfig) as error:
        mount_arm(base, arm, ArmMount(**({"xyz": (0.0, 0.0, 0.1)} | mount)), output=tmp_path / "r")
    assert error.value.field == field
    assert not (tmp_path / "r").exists()
