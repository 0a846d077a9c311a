# SPDX-License-Identifier: Apache-2.0
"""One sentence to a mobile manipulator in MuJoCo: it drives, picks, drives, and puts down."""

from __future__ import annotations

import numpy as np
import pytest
from nodes.lockstep_mobile import LockstepMobile

import motion_nodes as mn
from motion_nodes.extras.robot_setup.derived_robot import mounted_folder
from motion_nodes.extras.tasks.served_task import RulePlanner
from motion_nodes.extras.tasks.task_runner import TaskRunner, TaskStatus

SHELF, TABLE, HEIGHT = (1.3, 0.4), (-0.2, -1.4), 0.5
OBJECTS = (
    f"red_cube:=box:0.05,0.05,0.05:0.1@{SHELF[0]},{SHELF[1]},{HEIGHT + 0.025}",
    f"shelf:=box:0.32,0.32,{HEIGHT}:30@{SHELF[0]},{SHELF[1]},{0.5 * HEIGHT}",
    f"table:=box:0.4,0.4,{HEIGHT}:30@{TABLE[0]},{TABLE[1]},{0.5 * HEIGHT}",
)


@pytest.fixture(scope="module")
def model() -> mn.RobotModel:
    """A Franka on a Nova Carter."""
    folder = mounted_folder("nova_carter", "franka", (0.0, 0.0, 0.422))
    assert mounted_folder("nova_carter", "franka", (0.0, 0.0, 0.422)) == folder, "cached"
    return mn.load_robot(folder)


def test_it_brings_a_cube_from_the_shelf_to_the_table(model) -> None:
    robot = LockstepMobile(model, *OBJECTS)
    plan = RulePlanner().plan("bring the red cube to the table", robot.observe())
    assert [step.skill for step in plan] == ["navigate", "pick", "navigate", "place"]
    drifts, driving = [], []
    contacts = set()

    def each(runner: TaskRunner) -> None:
        truth = robot.world.base_pose("arm")
        contacts.update(c.pair for c in robot.world.contacts() if not c.expected)
        drifts.append(np.linalg.norm(truth[:2, 3] - robot.X_WB[:2, 3]))
        if runner.phase == "drive":
            driving.append(np.abs(robot.positions() - robot.arm.state("home")).max())

    runner = robot.run_task(plan, each)
    assert runner.state is TaskStatus.SUCCEEDED, runner.reason
    assert not [e.text for e in runner.events if "failed" in e.text]
    at = robot.world.object_pose("red_cube")[:3, 3]
    np.testing.assert_allclose(at[:2], TABLE, atol=0.15)
    assert at[2] == pytest.approx(HEIGHT + 0.025, abs=2e-3)
    for name, place in (("shelf", SHELF), ("table", TABLE)):
        X = robot.world.object_pose(name)
        np.testing.assert_allclose(X[:2, 3], place, atol=2e-3, err_msg=f"{name} was moved")
    touched = {name for pair in robot.touched for name in pair}
    assert not touched & {"object:shelf", "object:table"}
    assert not contacts, "the fingers may touch the cube, nothing else"
    assert max(driving) < 0.03, "the arm moved while the base drove"
    assert max(drifts) < 0.05
