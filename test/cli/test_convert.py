# SPDX-License-Identifier: Apache-2.0
"""motion convert, describe and plot."""

import json
import shutil
from xml.etree import ElementTree

import numpy as np
import pytest
from model import xrdf_samples

from motion_nodes.core.robot.files.xrdf_file import read_xrdf
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import to_quat_xyzw
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory
from motion_nodes.core.trajectory.trajectory_plot import curves_of, trajectory_svg

FRANKA = load_robot("franka")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(FRANKA.directory / "franka.urdf", tmp_path)
    shutil.copytree(FRANKA.directory / "meshes", tmp_path / "meshes")
    return tmp_path


@pytest.mark.long
@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("franka.xrdf", ("format_version: 2.0", "world_collision:")),
        ("franka.srdf", ('<group name="arm">', 'name="extended"', "end_effector")),
        ("franka.yaml", ("api_version: 1.0", "rule: fixed")),
        ("franka.yml", ("robot_cfg:", "lock_joints:")),
    ],
)
def test_a_robot_goes_out_and_comes_back(motion, folder, file, words):
    out = motion(f"convert franka {file}")
    assert out.code == 0, out.text
    text = (folder / file).read_text()
    assert all(word in text for word in words)
    back = motion(f"convert {file} back")
    assert back.code == 0, back.text
    robot = load_robot(folder / "back")
    assert robot.name == "back"
    assert robot.group("arm").joints == FRANKA.group("arm").joints
    assert robot.group("gripper").joints == FRANKA.group("gripper").joints
    if file == "franka.srdf":
        assert dict(robot.states["extended"]) == dict(FRANKA.states["extended"])
        assert robot.group("panda_arm").name == "arm"
    else:
        assert robot.spheres == FRANKA.spheres
        assert robot.limits.acceleration[:7].tolist() == FRANKA.limits.acceleration[:7].tolist()
        assert robot.home.tolist() == FRANKA.home.tolist()
    if file != "franka.yaml":
        # Lula's files contain no tools and no self-collision settings.
        assert robot.group("arm").tip == "panda_hand_tcp"
        checks = [CollisionChecker(r, "arm") for r in (robot, FRANKA)]
        folded = [0.0, 1.5, 0.0, -2.9, 0.0, 0.5, 0.0]
        # An SRDF has no spheres: those fitted to the meshes extend some centimetres beyond them.
        if file == "franka.srdf":
            checks = [check.exact for check in checks]
        free = [check.is_free(q) for check in checks for q in (FRANKA.home[:7], folded)]
        assert free == [True, False, True, False]


def test_xrdf_to_xrdf_needs_no_urdf_and_loses_nothing(motion, tmp_path):
    (tmp_path / "crane.xrdf").write_text(xrdf_samples.XRDF)
    done = motion(f"convert {tmp_path}/crane.xrdf {tmp_path}/old.xrdf --format xrdf-1.0")
    assert done.code == 0, done.text
    assert "format_version: 1.0" in (tmp_path / "old.xrdf").read_text()
    assert read_xrdf(tmp_path / "old.xrdf") == read_xrdf(tmp_path / "crane.xrdf")


def test_a_folder_keeps_what_the_modifiers_changed_and_finds_its_meshes(motion, tmp_path):
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "boom.stl").write_text("solid nothing\nendsolid nothing\n")
    mesh = '<visual><geometry><mesh filename="shared/boom.stl"/></geometry></visual>'
    urdf = xrdf_samples.URDF.replace('<link name="boom"/>', f'<link name="boom">{mesh}</link>')
    (tmp_path / "crane.urdf").write_text(urdf)
    (tmp_path / "crane.xrdf").write_text(xrdf_samples.XRDF)
    done = motion(f"convert {tmp_path}/crane.xrdf {tmp_path}/robots/My-Crane")
    assert done.code == 0, done.text
    robot = load_robot(tmp_path / "robots" / "My-Crane")
    assert robot.name == "my_crane"
    assert robot.tree.root == "foot"
    assert "tcp" in robot.tree.links
    (shape,) = robot.tree.links["boom"].visuals
    assert robot.mesh_path(shape.geometry.filename).samefile(tmp_path / "shared" / "boom.stl")
    assert not list((tmp_path / "robots").glob(".*")), "no partial output remains"


def test_a_urdf_that_cannot_be_used_is_mended_and_that_is_told(motion, tmp_path):
    broken = 'effort="40"/>'
    assert broken in xrdf_samples.URDF
    file = xrdf_samples.write_pair(tmp_path, "crane.xrdf", xrdf_samples.XRDF)
    (tmp_path / "crane.urdf").write_text(xrdf_samples.URDF.replace(broken, 'effort="0"/>'))
    refused = motion(f"describe {file}")
    assert refused.code == 2
    assert "joint 'lift': limit effort is 0" in refused.err
    done = motion(f"convert {file} {tmp_path}/crane")
    assert done.code == 0, done.text
    assert "limits.effort guessed" in done.err
    assert load_robot(tmp_path / "crane").limits.select(["lift"]).effort[0] > 0.0


def test_robots_of_other_systems_work_in_all_commands(motion, tmp_path):
    file = xrdf_samples.write_pair(tmp_path, "crane.xrdf", xrdf_samples.XRDF)
    assert motion(f"fk {file} --json").data["frames"].keys() == {"tcp"}
    assert "group arm: 2 joints, foot to tcp" in motion(f"describe {file}").out
    assert motion(f"ik {file} --position 0.4,0.3,0.4 --tolerance 0.5").code == 0


@pytest.mark.parametrize("robot", ["franka", "kaya", "leatherback"])
def test_describe_for_machines(motion, robot):
    data = motion(f"describe {robot} --json").data
    model = load_robot(robot)
    assert list(data["joints"]) == list(model.joint_names)
    assert data["groups"].keys() == model.groups.keys()
    assert data["frames"] == list(model.tree.frame_names)
    for k, joint in enumerate(data["joints"].values()):
        assert joint["velocity"] == model.limits.velocity[k]


WRONG = [
    ("convert frank a.xrdf", "Did you mean 'franka'"),
    ("convert franka a.txt", "'a.txt' is not a known format"),
    ("convert franka a.xrdf --format xrfd", "Did you mean 'xrdf'"),
    ("convert franka there.xrdf", "already exists; use --force to overwrite it"),
    ("convert franka robots", "is already a robot folder"),
    ("convert jetbot a.xrdf", "jetbot has no group with base and tip"),
    ("convert franka a.xrdf --group arn", "Did you mean 'arm'"),
    ("convert franka no/where/a.xrdf", "cannot be written: No such file or directory"),
    ("convert nothing.xrdf robots", "robot 'nothing.xrdf' is not known"),
    ("convert lonely.xrdf robots", "lonely.urdf or a single URDF must lie beside it"),
    ("convert lonely.xrdf there.xrdf/a --urdf crane.urdf", "cannot be written"),
    ("convert lonely.xrdf full --urdf crane.urdf", "full exists already; nothing was written"),
    ("convert lonely.xrdf robots --urdf gone.urdf", "gone.urdf: there is no such file"),
]


@pytest.mark.parametrize(("command", "words"), WRONG, ids=[c for c, _ in WRONG])
def test_wrong_use_writes_nothing(motion, tmp_path, monkeypatch, command, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.xrdf").write_text("mine")
    (tmp_path / "lonely.xrdf").write_text(xrdf_samples.XRDF)
    (tmp_path / "full").mkdir()
    if "--urdf crane.urdf" in command:
        (tmp_path / "crane.urdf").write_text(xrdf_samples.URDF)
    before = sorted(tmp_path.rglob("*"))
    done = motion(command)
    assert done.code == 2
    assert words in done.err
    assert len(done.err.strip().splitlines()) <= 2
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "there.xrdf").read_text() == "mine"


ARM = FRANKA.group("arm").joints
HOME = FRANKA.home[FRANKA.indices(ARM)]
SVG = "{http://www.w3.org/2000/svg}"
WAY = [HOME.tolist(), (HOME + 0.2).tolist(), (HOME + 0.3 * np.eye(7)[0]).tolist()]


def points(**fields):
    return json.dumps(
        {
            "joint_names": list(ARM),
            "points": [
                {name: values[i] for name, values in fields.items()} for i in range(len(WAY))
            ],
        }
    )


def rows(*names, times=None):
    head = ",".join((["time"] if times else []) + list(names))
    lines = [[*([times[i]] if times else []), *row] for i, row in enumerate(WAY)]
    return "\n".join([head, *(",".join(map(str, line)) for line in lines)])


def tool_path():
    from motion_nodes.core.ik.chain import IkChain

    chain = IkChain.of_group(FRANKA, "arm")
    X = chain.kinematics.pose(HOME, chain.tip)
    return (
        f"task_space:\n  start: {{position: {X[:3, 3].tolist()}, "
        f"quat_xyzw: {to_quat_xyzw(X).tolist()}}}\n"
        f"  pieces:\n    - translation: {{position: {(X[:3, 3] + [0, 0.1, 0]).tolist()}}}\n"
    )


FILES = {
    "waypoints.json": points(positions=WAY),
    "waypoints.csv": rows(*ARM),
    "trajectory.yaml": points(positions=WAY, time_from_start=[0.0, 1.0, 2.0]),
    "trajectory.csv": rows(*ARM, times=[0.0, 1.0, 2.0]),
    "joints.yaml": f"c_space: {{start: {WAY[0]}, waypoints: {WAY[1:]}}}",
    "tool.yaml": tool_path(),
}


@pytest.mark.parametrize("name", FILES)
def test_a_picture_has_a_curve_for_each_joint_in_each_panel(motion, tmp_path, name):
    file, picture = tmp_path / name, tmp_path / "picture.svg"
    file.write_text(FILES[name])
    done = motion("plot", "franka", str(file), "-o", str(picture))
    assert done.code == 0, done.text
    page = ElementTree.parse(picture).getroot()
    curves = page.findall(f".//{SVG}g/{SVG}polyline")
    # Positions and three panels with two limits each, and the tool from two sides.
    assert len(curves) == 4 * len(ARM) + 3 * 2 + 2
    words = " ".join(e.text or "" for e in page.iter(f"{SVG}text"))
    assert all(joint in words for joint in ARM)
    if name.startswith("trajectory"):
        assert "2 s" in done.text


def test_the_picture_says_which_share_of_a_limit_is_used(motion, tmp_path):
    file, picture = tmp_path / "way.json", tmp_path / "way.html"
    file.write_text(FILES["waypoints.json"])
    assert motion("plot", "franka", str(file), "-o", str(picture), "--velocity", "0.5").code == 0
    text = picture.read_text()
    assert text.startswith("<!DOCTYPE html>")
    shares = [float(word.split(">")[-1]) for word in text.split(" % of")[:-1]]
    assert len(shares) == 3 * len(ARM)
    speeds = shares[0::3]
    assert max(speeds) == pytest.approx(50.0, abs=0.1)
    assert np.max(shares) < 100.1


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("none.json", None, "cannot be read"),
        ("empty.csv", "", "is empty"),
        ("short.csv", "panda_joint1,panda_joint2\n1\n", "each row must have 2 numbers"),
        ("other.yaml", "a: 1", "neither joint_names and points nor one of"),
        ("some.json", '{"joint_names": ["panda_joint1"], "points": [{}]}', "no positions found"),
        ("one.csv", "panda_joint1\n0\n", "needs at least 2"),
        ("who.json", '{"joint_names": ["elbow"], "points": [{"positions": [0]}]}', "elbow"),
        ("nan.csv", "panda_joint1\n0\nnan\n", "waypoint 1 has nan"),
        ("late.csv", "time,panda_joint1\n1,0\n0,1\n", "is not after"),
    ],
)  # fmt: skip
def test_files_that_cannot_be_drawn_are_told_and_nothing_is_written(
    motion, tmp_path, name, content, words
):
    file, picture = tmp_path / name, tmp_path / "picture.svg"
    if content is not None:
        file.write_text(content)
    done = motion("plot", "franka", str(file), "-o", str(picture))
    assert done.code == 2
    assert words in done.text
    assert not picture.exists()


def test_a_picture_of_another_kind_is_refused(motion, tmp_path):
    done = motion("plot", "franka", str(tmp_path / "way.json"), "-o", "way.gif")
    assert done.code == 2
    assert "must end in .svg or .html" in done.text


def test_points_close_to_each_other_are_drawn_and_nothing_between_them():
    """A step of acceleration, which a spline through the points would overshoot."""
    times = np.arange(0.0, 0.2, 0.01)
    a = np.where(times < 0.1, 2.0, -2.0)[:, None]
    v = np.concatenate(([[0.0]], np.cumsum(a[:-1] * 0.01, axis=0)))
    q = np.concatenate(([[0.0]], np.cumsum(v[:-1] * 0.01 + 0.5 * a[:-1] * 1e-4, axis=0)))
    curves = curves_of(JointTrajectory(("j",), times, q, v, a))
    assert curves.times.tolist() == times.tolist()
    assert np.array_equal(curves.accelerations, a)
    sparse = curves_of(JointTrajectory(("j",), 10.0 * times, q, v, a))
    assert len(sparse.times) > len(times)


def test_a_single_point_is_drawn():
    still = np.zeros((1, 2))
    curves = curves_of(JointTrajectory(("a", "b"), np.zeros(1), still, still, still))
    assert not curves.jerks.any()
    wide = np.ones(2)
    limits = JointLimits(("a", "b"), -wide, wide, wide, wide, wide, wide)
    text = trajectory_svg(curves, limits)
    assert text.count("<polyline") >= 8
    assert "nan" not in text
