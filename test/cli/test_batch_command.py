# SPDX-License-Identifier: Apache-2.0
"""``motion batch``: many poses of a file at once."""

from __future__ import annotations

import numpy as np
import pytest

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot

FRANKA = load_robot("franka")
POSES = [(0.5, 0.0, 0.4), (0.4, 0.2, 0.5), (0.45, -0.3, 0.3)]


@pytest.fixture
def poses(tmp_path):
    file = tmp_path / "poses.csv"
    rows = "".join(f"{x},{y},{z},1,0,0,0\n" for x, y, z in POSES)
    file.write_text(f"x,y,z,qx,qy,qz,qw\n{rows}")
    return file


def test_poses_of_a_file_are_solved(motion, poses):
    done = motion(f"batch franka {poses} --json")
    assert done.code == 0
    assert done.data["solved"] == len(POSES)
    kinematics = Kinematics(FRANKA.tree, FRANKA.joint_names, base=FRANKA.base_frame)
    for row, xyz in zip(done.data["poses"], POSES, strict=True):
        q = FRANKA.home.copy()
        q[:7] = row["positions"]
        assert np.allclose(kinematics.pose(q, "panda_hand_tcp")[:3, 3], xyz, atol=2e-3)


def test_a_pose_out_of_reach_is_named_and_the_exit_code_is_1(motion, poses):
    poses.write_text(poses.read_text() + "3,0,0.4,1,0,0,0\n")
    done = motion(f"batch franka {poses}")
    assert done.code == 1
    assert "3 of 4" in done.text


def test_plans_to_the_poses_of_a_file(motion, poses):
    done = motion(f"batch franka {poses} --plan-from home --json")
    assert done.code == 0
    assert all(row["duration"] > 0.0 and len(row["path"]) > 1 for row in done.data["poses"])


@pytest.mark.parametrize(
    "content",
    ["", "x,y,z\n", "0.5,0,0.4\n", "nan,0,0.4,1,0,0,0\n", "0.5,0,0.4,0,0,0,0\n", "a,b,c,d,e,f,g\n"],
)
def test_invalid_files_are_refused(motion, tmp_path, content):
    file = tmp_path / "poses.csv"
    file.write_text(content)
    assert motion(f"batch franka {file}").code == 2
    assert motion(f"batch franka {tmp_path / 'none.csv'}").code == 2
