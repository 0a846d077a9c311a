# SPDX-License-Identifier: Apache-2.0
"""Results show themselves: one or many by shape, short texts, figures, files, the page."""

import copy
import importlib.util
import json
from xml.etree import ElementTree

import numpy as np
import pytest
from mcap.reader import make_reader
from mcap.writer import Writer

import motion_nodes as mn
from motion_nodes.core.trajectory.splice import point_to_point
from motion_nodes.errors import (
    InvalidCommand,
    InvalidConfig,
    InvalidDescription,
    UnknownFrame,
    UnknownGroup,
    UnknownJoint,
    UnknownState,
)


@pytest.fixture(scope="module")
def arm():
    return mn.load_robot("franka")["arm"]


@pytest.fixture(scope="module")
def results(arm):
    plan, X = arm.plan("home", "extended"), arm.fk(arm.random(30, seed=1))
    found = arm.ik(X)
    share = np.linspace(0.0, 1.0, 6).reshape(3, 2)
    grid = mn.ReachabilityMap("yz", 0.25, np.array([0.0, 0.1]), np.array([-0.1, 0.0, 0.1]), share)
    return {
        "plan": plan, "points": plan.trajectory, "path": plan.motion, "one": arm.ik(X[0]),
        "none": arm.ik(mn.pose(xyz=(9.0, 0.0, 0.0))), "many": found, "map": grid,
    }  # fmt: skip


KINDS = ("plan", "points", "path", "one", "none", "many", "map")


def test_the_shape_says_whether_it_is_one_or_many(arm):
    Q = arm.random(6, seed=2)
    for function in (arm.fk, arm.jacobian, arm.collision_free):
        every = function(Q)
        np.testing.assert_allclose(every, [function(q) for q in Q], atol=1e-12)
        assert len(function(Q[:0])) == 0
    X = arm.fk(Q)
    np.testing.assert_array_equal(arm.ik(X, "ready").q, arm.ik_batch(X, arm.state("ready")).q)
    plans = arm.plan("home", X[:2])
    assert [type(plan) for plan in plans] == [mn.MotionPlan] * 2
    for plan, alone in zip(plans, (arm.plan("home", x) for x in X[:2]), strict=True):
        np.testing.assert_array_equal(plan.path, alone.path)
    assert len(arm.plan(["home", "ready"], "extended")) == 2
    assert isinstance(arm.plan("home", (mn.JointGoal(Q[0]), mn.JointGoal(Q[1]))), mn.MotionPlan)


def test_a_named_state_stands_for_its_positions(arm):
    q = arm.state("ready")
    np.testing.assert_array_equal(arm.fk("ready"), arm.fk(q))
    np.testing.assert_array_equal(arm.fk("ready", "panda_hand"), arm.fk(q, "panda_hand"))
    np.testing.assert_array_equal(arm.jacobian("ready"), arm.jacobian(q))
    assert arm.collision_free("ready")
    assert arm.problems("ready") == ()
    for call in (arm.fk, arm.jacobian, arm.collision_free, arm.problems):
        with pytest.raises(UnknownState, match="Did you mean 'ready'"):
            call("redy")


@pytest.mark.parametrize("kind", ["points", "path", "between states"])
def test_a_motion_is_sampled_at_one_time_or_many(arm, kind):
    path = arm.time_parameterize([arm.state("ready"), arm.state("ready") + 0.3])
    later = point_to_point(arm.state("ready"), arm.state("ready") + 0.1, arm.limits)
    motion = {"points": path.as_points(0.01), "path": path, "between states": later}[kind]
    times = np.linspace(-0.1, motion.end_time + 0.1, 7)
    many = motion.sample(times)
    for k, time in enumerate(times):
        for whole, one in zip(many, motion.sample(time), strict=True):
            np.testing.assert_array_equal(whole[k], one)
    assert motion.sample([]).position.shape == (0, 7)
    np.testing.assert_array_equal(motion.sample(0).position, motion.sample(0.0).position)


def test_what_one_looks_for_at_a_robot_is_said_to_be_at_its_groups():
    robot = mn.load_robot("franka")
    with pytest.raises(AttributeError, match=r"robot\['arm'\]\.fk"):
        robot.fk("ready")
    with pytest.raises(AttributeError, match=r"robot\['gripper'\]"):
        _ = robot.gripper
    with pytest.raises(AttributeError, match="no attribute 'nothing'$"):
        _ = robot.nothing
    assert copy.copy(robot).name == "franka"
    with pytest.raises(UnknownGroup):
        robot[0]
    with pytest.raises(UnknownFrame, match="Did you mean 'panda_hand'"):
        robot["arm"].fk("ready", "hand")


def test_a_world_names_its_objects():
    world = mn.World()
    world.add("ball", mn.Sphere(0.1), mn.pose(xyz=(1.0, 0.0, 0.0)))
    assert list(world) == ["ball"]
    assert "ball" in world
    assert world["ball"].X_WO[0, 3] == 1.0
    assert mn.World(), "an empty one counts as given"


@pytest.mark.parametrize(
    "q", [np.zeros((2, 3, 7)), np.zeros((5, 6)), [0.0] * 6, [[0.0], [1.0, 2.0]], 3, None]
)
def test_errors_name_the_shapes(arm, q):
    for function in (arm.fk, arm.jacobian, arm.collision_free):
        with pytest.raises(InvalidCommand, match=r"\(7,\), or \(m, 7\)"):
            function(q)


def test_what_many_cannot_have_is_refused(arm):
    Q = arm.random(2, seed=3)
    for call in (
        lambda: arm.ik(arm.fk(Q), locked={"panda_joint1": 0.0}),
        lambda: arm.plan("home", Q, constraints=[mn.JointBand("panda_joint1", 0.0, 1.0)]),
    ):
        with pytest.raises(InvalidCommand):
            call()


@pytest.mark.parametrize("kind", KINDS)
def test_texts_are_short_and_say_what_one_looks_for(results, kind):
    text = repr(results[kind])
    assert len(text) < 400
    assert "array" not in text
    facts = {"plan": f"{results['plan'].duration:.4g} s", "points": "points", "path": "7 joints",
             "one": f"{results['one'].q[0]:.4g}", "many": "30 of 30", "map": "2 x 3"}  # fmt: skip
    assert facts.get(kind, results["none"].reason) in text
    assert results["plan"].duration == results["points"].duration


@pytest.mark.parametrize("kind", KINDS)
def test_figures_with_and_without_matplotlib(results, kind, monkeypatch, tmp_path):
    drawn = results[kind].plot()
    if kind != "map":
        assert drawn._repr_png_().startswith(b"\x89PNG")
        for axes in drawn.axes:
            assert axes.get_title(loc="left")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    drawn = results[kind].plot()
    ElementTree.fromstring(drawn._repr_svg_())
    drawn.savefig(tmp_path / "figure.svg")
    assert (tmp_path / "figure.svg").read_text() == drawn.svg
    with pytest.raises(InvalidConfig):
        drawn.savefig(tmp_path / "figure.png")


def test_curves_of_a_figure_are_those_of_the_motion(results):
    position = results["path"].plot().axes[0]
    for line, name in zip(position.lines, results["path"].joint_names, strict=True):
        assert line.get_label() == name
        t, q = line.get_data()
        k = results["path"].joint_names.index(name)
        np.testing.assert_allclose(q[100], results["path"].sample(t[100]).position[k])


@pytest.mark.parametrize("suffix", [".csv", ".json", ".npz", ".mcap"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_saved_is_loaded(results, kind, suffix, tmp_path):
    thing = results[kind]
    thing.save(tmp_path / f"file{suffix}")
    loaded = mn.load(tmp_path / f"file{suffix}")
    thing = {"plan": results["points"], "path": results["path"].as_points()}.get(kind, thing)
    assert repr(loaded) == repr(thing)
    names = getattr(thing, "_fields", None) or list(vars(thing))
    for name in names:
        a, b = getattr(thing, name), getattr(loaded, name)
        if isinstance(a, np.ndarray):
            np.testing.assert_array_equal(a, b)
        else:
            assert a == b, name


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.csv", ""), ("a.csv", '# {"kind": "ik_batch"}\n'), ("a.csv", "# {\n"), ("a.npz", "no zip"),
     ("a.mcap", "no MCAP"),
     ("a.json", '{"kind": "plum", "columns": {}}'), ("a.json", "[1]"), ("a.json", "{"),
     ("a.json", '{"kind": "ik_batch", "columns": {"q": 3}}'), ("gone.csv", None),
     ("a.json", '{"kind": "reachability", "columns": {"first": [1], "second": [2], "share": []}}')],
)  # fmt: skip
def test_files_that_hold_nothing_are_named(name, content, tmp_path):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(InvalidDescription, match=name):
        mn.load(tmp_path / name)
    with pytest.raises(InvalidConfig):
        mn.load(tmp_path / "a.txt")


def test_messages_of_a_saved_trajectory_have_its_times(results, tmp_path):
    """As Foxglove reads them: JSON with a JSON Schema."""
    trajectory = results["points"]
    trajectory.save(tmp_path / "motion.mcap")
    with (tmp_path / "motion.mcap").open("rb") as stream:
        found = list(make_reader(stream).iter_messages())
    assert {channel.message_encoding for _, channel, _ in found} == {"json"}
    schema = json.loads(found[0][0].data)
    assert set(schema["properties"]) == set(json.loads(found[0][2].data))
    assert schema["properties"]["positions"]["items"]["type"] == "number"
    times = [message.log_time * 1e-9 for *_, message in found]
    np.testing.assert_allclose(times, trajectory.times, atol=1e-9)
    fourth = json.loads(found[3][2].data)
    np.testing.assert_array_equal(fourth["positions"], trajectory.positions[3])


def test_another_mcap_file_and_a_cut_one_are_no_results(results, tmp_path):
    with (tmp_path / "other.mcap").open("wb") as stream:
        writer = Writer(stream)
        writer.start()
        writer.finish()
    results["points"].save(tmp_path / "cut.mcap")
    content = (tmp_path / "cut.mcap").read_bytes()
    for length in (20, len(content) // 2, len(content) - 9):
        (tmp_path / "cut.mcap").write_bytes(content[:length])
        with pytest.raises(InvalidDescription, match=r"cut\.mcap"):
            mn.load(tmp_path / "cut.mcap")
    with pytest.raises(InvalidDescription, match=r"other\.mcap"):
        mn.load(tmp_path / "other.mcap")


def test_a_failed_plan_says_why_it_has_nothing_to_show(arm, tmp_path):
    world = mn.World()
    world.add("wall", mn.Box(4.0, 4.0, 0.1), mn.pose(xyz=(0.0, 0.0, 0.5)))
    plan = arm.plan("home", "extended", world, timeout=0.5)
    assert np.isnan(plan.duration)
    for call in (plan.plot, lambda: plan.save(tmp_path / "x.csv"), lambda: plan.show(arm)):
        with pytest.raises(InvalidCommand, match="motion"):
            call()


def test_many_results_are_shown(arm, results):
    page = results["many"].show(arm)
    path = page._preview.viewer._robots["franka"].planning.path
    assert path.playback.duration == pytest.approx(29.8)
    page.close()
    grid = mn.ReachabilityMap("yz", 0.25, np.array([0.0, 0.1]), np.array([-0.1, 0.0, 0.1]),
                              np.array([[0.0, 0.05], [0.5, 0.5], [1.0, 0.0]]))  # fmt: skip
    page = grid.show(arm, port=0)
    cells = page._preview._robots["franka"].world.scene.objects
    assert [len(item.parts[0].solid.triangles) for item in cells.values()] == [2, 4, 2]
    half = cells["up to 50 % reached"].parts[0].solid.vertices
    np.testing.assert_allclose(half.min(axis=0), (0.25, -0.05, -0.05), atol=1e-12)
    np.testing.assert_allclose(half.max(axis=0), (0.25, 0.15, 0.05), atol=1e-12)
    page.close()
    none = arm.ik(np.stack([mn.pose(xyz=(9.0, 0.0, 0.0))] * 2))
    for call in (lambda: none.show(arm), lambda: mn.ReachabilityMap("xy", 0.0, np.arange(2.0),
                 np.arange(2.0), np.zeros((2, 2))).show(arm)):  # fmt: skip
        with pytest.raises(InvalidCommand):
            call()


def test_names_are_clean_and_near_ones_are_offered():
    assert set(dir(mn)) == {*mn.__all__, "__version__"}
    with pytest.raises(AttributeError, match="'load_robot'"):
        mn.load_robbot
    with pytest.raises(AttributeError) as found:
        mn.zzzz
    assert "Did you mean" not in str(found.value)


def test_a_robot_is_shown_with_what_it_does(arm, results):
    robot, q = mn.load_robot("franka"), arm.random(seed=4)
    world = mn.World()
    world.add("box", mn.Box(0.1, 0.1, 0.1), mn.pose(xyz=(0.5, 0.0, 0.3)))
    for owner, what, shown in (
        (robot, None, robot.state("home")[:7]),
        (arm, q, q),
        (arm, arm.configuration(q), q),
        (arm, results["one"], results["one"].q),
        (robot, "extended", arm.state("extended")),
        (arm, results["plan"], arm.state("home")),
    ):
        page = owner.show(what, world=world, port=0)
        live = page._preview._robots["franka"]
        np.testing.assert_allclose(live.q[:7], shown)
        assert "box" in live.world.scene.objects
        assert page.url in page._repr_html_()
        path = page._preview.viewer._robots["franka"].planning.path
        assert path.playback.duration == pytest.approx(getattr(what, "duration", 0.0))
        page.close()
    with pytest.raises(UnknownJoint):
        mn.load_robot("so101").show(results["plan"], port=0)
    with pytest.raises(InvalidCommand):
        robot.show(np.zeros(3), port=0)
