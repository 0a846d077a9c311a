# SPDX-License-Identifier: Apache-2.0
"""motion fk and motion ik: correct numbers, exit codes and error texts."""

import numpy as np
import pytest

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_quat, from_xyz_rpy, to_quat_xyzw

FRANKA = load_robot("franka")
Q = (0.0, 0.0, 0.0, -1.57, 0.0, 1.57, 0.0)


def tip(q, robot=FRANKA):
    full = robot.home.copy()
    full[robot.group("arm").indices] = q
    return Kinematics(robot.tree, base=robot.base_frame).pose(full, robot.group("arm").tip)


def pose_of(data):
    return from_xyz_quat(data["position"], data["quat_xyzw"])


def test_fk_tells_the_pose_that_the_library_tells(motion):
    done = motion("fk franka --joints 0,0,0,-1.57,0,1.57,0 --json")
    assert done.code == 0
    assert done.data["base"] == "panda_link0"
    X = pose_of(done.data["frames"]["panda_hand_tcp"])
    assert np.allclose(X, tip(Q), atol=1e-12)


@pytest.mark.long
def test_fk_in_words_in_degrees_from_another_frame_and_of_all_frames(motion):
    table = motion("fk franka --joints 0,0,0,-90,0,90,45 --degrees")
    assert table.code == 0
    assert "panda_hand_tcp" in table.out
    assert "rpy [deg]" in table.out
    assert "180" in table.out
    inner = motion("fk franka --state ready --frame panda_link5 --base panda_link5 --json").data
    assert np.allclose(inner["frames"]["panda_link5"]["position"], 0.0)
    every = motion("fk jetbot --all --json").data["frames"]
    assert set(every) == set(load_robot("jetbot").tree.frame_names)


def test_fk_of_some_joints_leaves_the_others_at_home(motion):
    done = motion("fk franka --joints panda_joint4=-1.0,panda_joint6=2 --json").data["joints"]
    home = dict(zip(FRANKA.joint_names, FRANKA.home.tolist(), strict=True))
    assert done == home | {"panda_joint4": -1.0, "panda_joint6": 2.0}


@pytest.mark.long
@pytest.mark.parametrize("robot", ["franka", "ur10e"])
def test_ik_brings_the_tip_there(motion, robot):
    model = load_robot(robot)
    done = motion(f"ik {robot} --position 0.5,0.1,0.4 --rpy 3.14,0,0 --seed 1 --json")
    assert done.code == 0
    q = [done.data["joints"][name] for name in model.group("arm").joints]
    assert model.group("arm").limits.within(q)
    X, target = tip(q, model), from_xyz_rpy([0.5, 0.1, 0.4], [3.14, 0.0, 0.0])
    assert np.linalg.norm(X[:3, 3] - target[:3, 3]) <= 1e-3
    assert np.allclose(X[:3, :3], target[:3, :3], atol=0.011)


@pytest.mark.long
def test_equal_seeds_give_equal_answers_and_degrees_are_the_same_pose(motion):
    radians = motion("ik franka --position 0.4,0,0.5 --rpy 3.141592653589793,0,0 --seed 7 --json")
    again = motion("ik franka --position 0.4,0,0.5 --rpy 180,0,0 --degrees --seed 7 --json")
    assert radians.data["joints"] == pytest.approx(again.data["joints"], abs=1e-9)
    near = motion("ik franka --position 0.55,0,0.52 --from 0,0,0,-90,0,90,45 --degrees --json")
    start = np.radians([0, 0, 0, -90, 0, 90, 45])
    assert np.abs(np.array(list(near.data["joints"].values())) - start).max() < 0.2


@pytest.mark.parametrize("robot", ["franka", "ur10e"])
def test_ik_without_a_start_answers_near_the_ready_state(motion, robot):
    model = load_robot(robot)
    ready = model.named_state("ready", "arm")
    X = tip(ready, model)
    x, y, z = X[:3, 3] + [0.0, 0.1, -0.05]
    done = motion(f"ik {robot} --position {x},{y},{z} --json").data
    given = motion(f"ik {robot} --position {x},{y},{z} --from ready --json").data
    assert done["joints"] == given["joints"]
    assert np.abs(np.array(list(done["joints"].values())) - ready).max() < 0.5


def test_of_several_solutions_the_closest_to_the_start_is_printed(motion):
    """UR10e: of up to eight solutions for a pose, the one 0.2 rad from the start in each joint."""
    q = np.array([0.4, -1.3, 1.6, -1.9, -1.4, 0.2])
    model = load_robot("ur10e")
    X = tip(q, model)
    position, quat, near = (
        ",".join(str(float(x)) for x in values) for values in (X[:3, 3], to_quat_xyzw(X), q + 0.2)
    )
    done = motion(
        f"ik ur10e --position {position} --quat {quat} --from {near} --tolerance 1e-6 "
        "--angle-tolerance 1e-5 --json"
    )
    np.testing.assert_allclose(list(done.data["joints"].values()), q, atol=1e-3)


def test_out_of_reach_is_a_no_with_the_reason(motion):
    done = motion("ik franka --position 3,0,0.4")
    assert done.code == 1
    assert "No solution." in done.out
    assert "reaches 1.090 m at most" in done.text
    data = motion("ik franka --position 3,0,0.4 --json")
    assert data.code == 1
    assert (data.data["success"], data.data["status"]) == (False, "OUT_OF_REACH")


def test_with_a_world_only_free_solutions_count(motion, tmp_path):
    scene = tmp_path / "scene.yaml"
    scene.write_text("objects: {block: {sphere: 0.3, position: [0.5, 0, 0.4]}}\n")
    done = motion(f"ik franka --position 0.5,0,0.4 --world {scene} --timeout 0.2 --json")
    assert done.code == 1
    assert "block" in done.data["reason"]


WRONG = [
    ("fk frank", "Did you mean 'franka'"),
    ("fk franka --joints 0,0", "--joints needs 7 numbers (joints: panda_joint1"),
    ("fk franka --joints 0,0,0,nan,0,0,0", "--joints: 'nan' is not a finite number"),
    ("fk franka --joints a=1", "joint 'a' is not in the group"),
    ("fk franka --joints panda_jont4=1", "Did you mean 'panda_joint4'"),
    ("fk franka --state redy", "Did you mean 'ready'"),
    ("fk franka --frame panda_hnd", "Did you mean 'panda_hand'"),
    ("fk franka --group arn", "Did you mean 'arm'"),
    ("ik franka", "--position x,y,z [m] is required"),
    ("ik franka --position 0.5,0", "--position needs 3 numbers (metres); given: 2"),
    ("ik franka --position 0.5,0,inf", "'inf' is not a finite number"),
    ("ik franka --position 0.5,0,0.4 --quat 0,0,0,0", "--quat is zero"),
    ("ik franka --position 0.5,0,0.4 --quat 0,0,0,1 --rpy 0,0,0", "give only one of"),
    ("ik franka --position 0.5,0,0.4 --from 0,0,0,0,0,0,0", "panda_joint4 is 0, allowed is"),
    ("ik franka --position 0.5,0,0.4 --solver magic", "there is no IK solver 'magic'"),
    ("ik franka --position 0.5,0,0.4 --seed -1", "random_seed is -1"),
    ("ik franka --position 0.5,0,0.4 --tolerance 0", "position tolerance is 0"),
    ("ik franka --group gripper --position 0,0,0", "has no base and tip"),
    ("ik jetbot --position 0,0,0", "has no base and tip"),
    ("ik franka --position 0.5,0,0.4 --world nothere.yaml", "cannot be read"),
]


@pytest.mark.long
@pytest.mark.parametrize(("command", "words"), WRONG, ids=[c for c, _ in WRONG])
def test_wrong_use_is_one_line_of_words_and_exit_code_2(motion, command, words):
    done = motion(command)
    assert done.code == 2
    assert words in done.err
    assert done.out == ""
    assert len(done.err.strip().splitlines()) == 1
