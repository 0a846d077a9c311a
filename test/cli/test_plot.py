# SPDX-License-Identifier: Apache-2.0
"""motion plot: pictures from files of all kinds."""

import json
from xml.etree import ElementTree

import numpy as np
import pytest

from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import to_quat_xyzw
from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory
from motion_nodes.core.trajectory.trajectory_plot import curves_of, trajectory_svg

FRANKA = load_robot("franka")
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
