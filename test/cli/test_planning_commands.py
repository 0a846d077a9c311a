# SPDX-License-Identifier: Apache-2.0
"""motion plan, cartesian, bench, batch, reach."""

import csv
import json
from xml.etree import ElementTree

import numpy as np
import pytest

import motion_nodes as mn
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.world import load_scene
from motion_nodes.errors import InvalidCommand, InvalidConfig

FRANKA = load_robot("franka")
ARM = FRANKA.group("arm")
WORLD = """
objects:
  wall: {box: [0.3, 0.04, 0.9], position: [0.5, 0.0, 0.45]}
  floor: {ground: true, position: [0, 0, -0.06]}
"""
LEFT, RIGHT = "0.9,0.4,0,-1.9,0,2.3,0.8", "-0.9,0.4,0,-1.9,0,2.3,0.8"


@pytest.fixture
def world(tmp_path):
    file = tmp_path / "scene.yaml"
    file.write_text(WORLD)
    return file


def tip(q):
    full = FRANKA.home.copy()
    full[ARM.indices] = q
    return Kinematics(FRANKA.tree, base=FRANKA.base_frame).pose(full, ARM.tip)


def test_a_plan_goes_around_what_stands_in_the_way(motion, world, tmp_path):
    out = tmp_path / "motion.json"
    done = motion(f"plan franka --from {LEFT} --to {RIGHT} --world {world} -o {out} --json")
    assert done.code == 0, done.text
    written = json.loads(out.read_text())
    assert written == done.data["trajectory"]
    assert written["joint_names"] == list(ARM.joints)
    times = [point["time_from_start"] for point in written["points"]]
    Q = np.array([point["positions"] for point in written["points"]])
    V = np.array([point["velocities"] for point in written["points"]])
    assert times[0] == 0.0
    assert (np.diff(times) > 0.0).all()
    assert np.allclose(Q[[0, -1]], [[float(x) for x in t.split(",")] for t in (LEFT, RIGHT)])
    assert (np.abs(V) <= ARM.limits.velocity * (1.0 + 1e-9)).all()
    checker = CollisionChecker(FRANKA, "arm", scene=load_scene(world))
    assert checker.are_free(Q).all()
    # The straight line is not free.
    straight = np.linspace(Q[0], Q[-1], 50)
    assert not checker.are_free(straight).all()


def test_a_plan_in_words_with_a_table_as_file(motion, tmp_path):
    out = tmp_path / "motion.csv"
    done = motion(f"plan franka --from {LEFT} --to ready -o {out} --velocity 0.5")
    assert done.code == 0, done.text
    for word in ("path", "retime", "verify", "panda_joint7", "Duration:", str(out)):
        assert word in done.text
    with out.open() as file:
        rows = list(csv.DictReader(file))
    ready = FRANKA.named_state("ready", "arm")
    assert [float(rows[-1][name]) for name in ARM.joints] == pytest.approx(ready.tolist())
    fastest = max(abs(float(row["panda_joint1.velocity"])) for row in rows)
    assert 0.1 < fastest <= 0.5 * ARM.limits.velocity[0] * (1 + 1e-9)


def test_a_plan_to_a_pose(motion):
    command = "plan franka --from ready --to-position 0.5,0.2,0.3 --to-rpy 180,0,0 --degrees --json"
    path = motion(command).data["path"]
    assert np.allclose(tip(path[-1])[:3, 3], [0.5, 0.2, 0.3], atol=1e-3)
    assert np.allclose(tip(path[-1])[:3, 2], [0.0, 0.0, -1.0], atol=0.011)


@pytest.mark.long
def test_what_cannot_be_planned_is_a_no_with_the_reason(motion, world, tmp_path):
    out = tmp_path / "none.json"
    far = motion(f"plan franka --to-position 3,0,0.4 -o {out} --timeout 1")
    assert far.code == 1
    assert "No motion: goal unreachable." in far.text
    assert not out.exists()
    world.write_text(WORLD.replace("[0.5, 0.0, 0.45]", "[0.5, 0.4, 0.45]"))
    inside = motion(f"plan franka --to {LEFT} --world {world} --json")
    assert inside.code == 1
    assert inside.data["status"] == "GOAL_IN_COLLISION"
    assert "wall" in inside.data["reason"]


def test_straight_lines_are_straight(motion):
    done = motion("cartesian franka --from ready --by 0,0,-0.2 --by 0,0.2,0 --json")
    assert done.code == 0
    assert done.data["fraction"] == 1.0
    Q = np.array([point["positions"] for point in done.data["trajectory"]["points"]])
    places = np.array([tip(q)[:3, 3] for q in Q])
    start = places[0]
    assert np.allclose(places[-1] - start, [0.0, 0.2, -0.2], atol=1e-3)
    # Along one edge or the other; the corner is rounded by less than 2 mm.
    off = np.minimum(np.abs(places[:, 1] - start[1]), np.abs(places[:, 2] - start[2] + 0.2))
    assert np.hypot(off, places[:, 0] - start[0]).max() < 3e-3


def test_lines_to_poses_and_a_slow_tip(motion):
    pose = tip(FRANKA.named_state("ready", "arm"))
    x, y, z = pose[:3, 3]
    slow = motion(f"cartesian franka --to {x},{y},{z - 0.1},180,0,0 --degrees --speed 0.05 --json")
    assert slow.code == 0, slow.text
    points = slow.data["trajectory"]["points"]
    assert points[-1]["time_from_start"] > 0.1 / 0.05
    assert np.allclose(tip(points[-1]["positions"])[:3, 2], [0, 0, -1], atol=1e-3)


def test_a_line_that_ends_early_says_where_and_why(motion):
    done = motion("cartesian franka --by 1,0,0")
    assert done.code == 1
    assert "The path is incomplete: at" in done.text
    assert "% of the path" in done.text


def test_bench_measures_all_rows(motion):
    done = motion("bench franka --seconds 0.02 --json")
    assert done.code == 0
    names = [row["what"] for row in done.data["results"]]
    assert names[:3] == ["forward kinematics", "Jacobian", "inverse kinematics"]
    assert all(0.0 < row["median"] <= row["p95"] for row in done.data["results"])
    assert done.data["results"][2]["successes"] == done.data["results"][2]["calls"]
    assert "median [us]" in motion("bench franka --seconds 0.01").out


WRONG = [
    ("plan franka", "give --to (named state or joint positions) or --to-position"),
    ("plan franka --to ready --to-position 0.4,0,0.4", "both are given"),
    ("plan franka --to-rpy 0,0,0", "--to-position x,y,z [m] is required"),
    ("plan franka --to 0,0,0,0,0,0,0", "panda_joint4 is 0, allowed is"),
    ("plan franka --to ready --planner rtt", "there is no planner 'rtt'"),
    ("plan franka --to ready --timeout nan", "--timeout is nan s"),
    ("plan franka --to ready --velocity 2", "velocity_scaling is 2"),
    ("plan franka --to ready -o plan.txt", "must end in .csv or .json"),
    ("plan franka --to ready -o /no/where/plan.csv", "the folder /no/where does not exist"),
    ("plan franka --to ready --world {bad}", "objects.post.cylinder: is missing the field"),
    ("plan franka --to ready --world {two}", "needs one shape of box"),
    ("plan franka --to ready --world {none}", "Did you mean 'box'"),
    ("plan franka --group gripper --to-position 0,0,0", "has no tip"),
    ("cartesian franka", "give a target: --to x,y,z or --by dx,dy,dz"),
    ("cartesian franka --by 0,0", "--by needs 3 numbers"),
    ("cartesian franka --to 0,0,0,0", "--to needs 3 or 6 or 7 numbers"),
    ("cartesian franka --to 0.4,0,0.4,0,0,0,0", "the quaternion is zero"),
    ("cartesian franka --by 0,0,-0.1 --step 0", "max_step is 0"),
    ("cartesian franka --by 0,0,-0.1 --speed 0", "max_speed is 0"),
    ("bench franka --seconds 0", "--seconds is 0"),
    ("bench jetbot", "has no tip; only arms can be measured"),
]


@pytest.mark.long
@pytest.mark.parametrize(("command", "words"), WRONG, ids=[c for c, _ in WRONG])
def test_wrong_use_is_told_in_one_line(motion, tmp_path, command, words):
    for name, text in (
        ("bad", "objects: {post: {cylinder: {radius: 0.1}}}"),
        ("two", "objects: {post: {sphere: 0.1, box: [1, 1, 1]}}"),
        ("none", "objects: {post: {bux: [1, 1, 1]}}"),
    ):
        (tmp_path / f"{name}.yaml").write_text(text)
        command = command.replace("{" + name + "}", str(tmp_path / f"{name}.yaml"))
    done = motion(command)
    assert done.code == 2
    assert words in done.err
    assert len(done.err.strip().splitlines()) == 1


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


FRANKA_REACH = mn.load_robot("franka")
ARM_REACH = FRANKA_REACH["arm"]
DOWN = np.diag([1.0, -1.0, -1.0])


def test_a_map_agrees_with_the_reach_of_the_arm():
    """By the data sheet: nothing beyond 0.855 m from the shoulder plus the length of the hand."""
    found = mn.reachability_map(ARM_REACH, "xz", step=0.2, directions=12)
    assert found.share.shape == (len(found.second), len(found.first))
    x, z = np.meshgrid(found.first, found.second)
    distance = np.hypot(x, z - 0.333)
    assert not found.share[distance > 0.855 + 0.22].any()
    assert found.share[(distance > 0.4) & (distance < 0.6) & (z > 0.2)].min() > 0.5
    blocked = mn.World()
    blocked.add("shelf", mn.Box(3.0, 3.0, 0.1), mn.pose(xyz=(0.0, 0.0, 1.3)))
    fewer = mn.reachability_map(ARM_REACH, "xz", step=0.2, directions=12, world=blocked)
    assert (fewer.share <= found.share + 1e-9).all()
    assert fewer.share.sum() < found.share.sum()


def test_one_orientation_is_that_of_inverse_kinematics():
    found = mn.reachability_map(ARM_REACH, "xy", 0.3, step=0.25, orientation=DOWN)
    assert set(np.unique(found.share)) == {0.0, 1.0}
    for row, y in zip(found.share, found.second, strict=True):
        for share, x in zip(row, found.first, strict=True):
            X = np.eye(4)
            X[:3, :3], X[:3, 3] = DOWN, (x, y, 0.3)
            if np.hypot(x, y) < 0.6:
                assert bool(share) == ARM_REACH.ik(X).success, (x, y)


def test_what_cannot_be_mapped():
    for error, fields in (
        (InvalidCommand, {"plane": "zx"}),
        (InvalidCommand, {"step": 0.0}),
        (InvalidCommand, {"step": 1e-4}),
        (InvalidCommand, {"offset": np.nan}),
        (InvalidCommand, {"directions": 0}),
        (InvalidCommand, {"orientation": 2.0 * DOWN}),
    ):
        with pytest.raises(error):
            mn.reachability_map(ARM_REACH, **fields)
    with pytest.raises(InvalidConfig):
        mn.reachability_map(FRANKA_REACH["gripper"])


def test_the_picture_shows_a_cell_for_each_point_that_is_reached(motion, tmp_path):
    picture = tmp_path / "reach.svg"
    done = motion("reach", "franka", "--step", "0.3", "--directions", "4", "-o", str(picture))
    assert done.code == 0, done.text
    drawn = ElementTree.parse(picture).getroot().iter()
    cells = [e for e in drawn if {"x", "fill"} <= set(e.keys()) and "stroke" not in e.keys()]
    cells = [e for e in cells if e.tag.endswith("rect")]
    assert f"{len(cells)} of " in done.text
    assert motion("reach", "franka", "-o", "reach.gif").code != 0
    assert "Did you mean 'xz'" in motion("reach", "franka", "--plane", "xzz").text
