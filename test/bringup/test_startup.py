# SPDX-License-Identifier: Apache-2.0
"""Start-up messages: which nodes are ready, when all are, and which are not and why."""

import os
import sys
import time

import pytest
from sample_car import write_car

from motion_nodes.bringup import suite
from motion_nodes.bringup import suite as module
from motion_nodes.bringup.bringup_config import BringupConfig
from motion_nodes.bringup.processes import ProcessEvents, ProcessGroup
from motion_nodes.bringup.suite import Startup, SuiteOptions, run_suite
from motion_nodes.core.robot.placement import parse_placements
from motion_nodes.errors import InvalidConfig, InvalidDescription, MotionError
from motion_nodes.ros.instance_lock import InstanceLock, owner_of
from motion_nodes.ros.process_reports import (
    ASLEEP,
    FAILED,
    NEWS_VARIABLE,
    READY,
    WAITING,
    News,
    Readiness,
    read_news,
    report_state,
)


class FakeNode:
    """A node with the interface that Readiness uses."""

    def __init__(self, *, autostart=True):
        self.autostart, self.active, self.missing = autostart, False, ""
        self.held = ""
        self.state_label = "unconfigured"

    def get_fully_qualified_name(self):
        return "/a/node"

    def waiting_for(self):
        return self.missing

    def notice(self):
        return "shows something"


@pytest.fixture
def pipe(monkeypatch):
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    monkeypatch.setenv(NEWS_VARIABLE, str(writer))

    def told():
        try:
            lines = os.read(reader, 1 << 16).splitlines()
        except BlockingIOError:
            lines = []
        return [(news.state, news.text) for line in lines if (news := read_news(line))]

    yield told
    os.close(reader)
    os.close(writer)


def test_a_node_tells_what_it_waits_for_once_and_then_that_it_is_ready(pipe):
    node, ready = FakeNode(), []
    watch = Readiness(node, lambda: ready.append(True))
    assert not watch.poll()
    assert pipe() == []
    node.active, node.missing = True, "waiting for joint_states"
    assert not watch.poll()
    assert not watch.poll()
    assert pipe() == [(WAITING, "waiting for joint_states")]
    node.missing = ""
    assert watch.poll()
    assert pipe() == [(READY, "shows something")]
    assert ready == [True]


def test_a_node_that_does_not_start_by_itself_says_in_which_state_it_is(pipe):
    watch = Readiness(FakeNode(autostart=False), list)
    assert not watch.poll()
    assert pipe() == [(ASLEEP, "unconfigured")]


def test_nobody_need_listen(monkeypatch):
    for number in ("", "none", "987654"):
        monkeypatch.setenv(NEWS_VARIABLE, number)
        report_state(READY, "/a")
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    monkeypatch.setenv(NEWS_VARIABLE, str(writer))
    for _ in range(2000):  # More than a pipe holds: a blocked reader does not block the writer.
        report_state(FAILED, "/a", "x" * 10_000)
    os.close(reader)
    report_state(READY, "/a")
    os.close(writer)


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b'{"state": 1, "other": 2}', b"\xff"])
def test_what_is_no_news_is_left_out(line):
    assert read_news(line) is None


def test_each_node_then_all():
    said = []
    begin = time.monotonic()
    start = Startup(["/sim", "/b/ctl"], said.append, lambda: "go on")
    start.report(News(READY, "/sim", "shows it", at=begin))
    start.report(News(WAITING, "/b/ctl", "waiting for joint_states"))
    assert not start.complete
    assert start.missing == {"/b/ctl": "waiting for joint_states"}
    start.report(News(READY, "/stranger"))
    start.report(News(READY, "/b/ctl", at=begin + 2.0))
    assert start.complete
    assert said[0] == "sim is ready (0.0 s); shows it"
    assert said[1].startswith("b/ctl is ready (")
    assert said[2].startswith("READY after ")
    assert said[2].endswith("s, 2 nodes. go on")


def test_nodes_that_wait_for_a_lifecycle_manager_are_up_but_not_ready():
    said = []
    start = Startup(["/a"], said.append, lambda: "never said")
    start.report(News(ASLEEP, "/a", "unconfigured"))
    assert start.complete
    assert "waits to be configured" in said[0]
    assert "1 node" in said[1]
    assert "READY" not in said[1]


@pytest.mark.parametrize(("decomposed", "added"), [(0, ""), (2, module.DECOMPOSING)])
def test_what_is_missing_is_told_after_a_while(monkeypatch, decomposed, added):
    said = []
    monkeypatch.setattr(module, "in_progress", lambda _prefix: decomposed)
    monkeypatch.setattr(module, "REMIND", (0.0, 60.0))
    start = Startup(["/a", "/b", "/c"], said.append)
    start.report(News(WAITING, "/b", "waiting for joint_states"))
    start.remind()
    start.remind()
    assert len(said) == 1
    assert said[0].endswith("s: a, c: still starting; b: waiting for joint_states" + added)


def test_one_that_fails_takes_its_process_with_it():
    said = []
    start = Startup(["/a", "/b", "/c"], said.append)
    start.report(News(FAILED, "/a", "no such robot"), ["/a", "/b"])
    start.report(News(WAITING, "/c", "waiting for joint_states"))
    assert said == ["a cannot start: no such robot"]
    assert not start.came_up(["/a", "/b"])
    assert start.came_up(["/c"])
    assert set(start.missing) == {"/a", "/b", "/c"}


TELLING = (
    "import os, sys, time\n"
    "from motion_nodes.ros.process_reports import report_state\n"
    "report_state(*sys.argv[1:])\n"
    "sys.exit(1) if sys.argv[1] == 'failed' else time.sleep(60)\n"
)


def test_news_come_from_processes_with_the_name_of_the_process():
    heard, said = [], []
    commands = {
        name: [sys.executable, "-c", TELLING, state, f"/{name}", "words"]
        for name, state in (("good", READY), ("bad", FAILED))
    }
    with ProcessGroup(
        commands,
        said.append,
        events=ProcessEvents(lambda process, news: heard.append((process, news.state))),
    ) as group:
        end = time.monotonic() + 60.0
        while len(heard) < 2 or not group.failed:
            assert time.monotonic() < end, (heard, said)
            group.watch()
            time.sleep(0.02)
    assert sorted(heard) == [("bad", FAILED), ("good", READY)]
    assert group.failed == {"bad": 1}


@pytest.mark.parametrize("respawn", [False, True])
def test_a_suite_that_cannot_start_says_which_node_and_why(monkeypatch, capsys, respawn):
    from motion_nodes.bringup.bringup_config import BringupConfig
    from motion_nodes.core.robot.placement import parse_placements

    def commands(specs, *, composed):
        names = [spec.full_name for spec in specs]
        bad = names.index("/diff_drive_controller")
        return {
            "mock_sim": [sys.executable, "-c", TELLING, READY, "/mock_sim"],
            "container": [sys.executable, "-c", TELLING, FAILED, names[bad], "no wheels"],
        }

    monkeypatch.setattr("motion_nodes.bringup.suite.commands_for", commands)
    for name in ("stop_quietly", "nodes_exist"):
        monkeypatch.setattr(f"motion_nodes.bringup.suite.signals.{name}", lambda: None)
    config = BringupConfig(
        placements=parse_placements(["jetbot"]), backend="mock", viewer="none"
    )  # fmt: skip
    assert run_suite(lambda: SuiteOptions(config, respawn=respawn)) == 1
    told = capsys.readouterr().out
    assert "diff_drive_controller cannot start: no wheels" in told
    assert "stopping all" in told
    assert "READY after" not in told


def test_a_second_suite_is_refused_once_before_anything_starts(capsys):
    config = BringupConfig(
        placements=parse_placements(["jetbot"]), backend="mock", viewer="none"
    )  # fmt: skip
    locks = [InstanceLock(name) for name in ("/mock_sim", "/diff_drive_controller")]
    try:
        with pytest.raises(MotionError, match=f"diff_drive_controller.*{os.getpid()}.*Nothing was"):
            run_suite(lambda: SuiteOptions(config))
    finally:
        for lock in locks:
            lock.release()
    assert capsys.readouterr().out == ""
    assert owner_of("/diff_drive_controller") == ""


@pytest.mark.parametrize(
    ("robot", "viewer", "running", "remedy"),
    [
        ("jetbot", "none", ["/clock", "/mock_sim"], "all robots by one motion up"),
        # The other simulation is MuJoCo's: its node has another name.
        ("jetbot", "none", ["/clock", "/robot_state"], "all robots by one motion up"),
        ("jetbot", "none", ["/robot_state"], "namespaces"),
        ("b:=jetbot", "browser", ["/browser_viewer"], "--viewer none"),
    ],
)
def test_a_second_suite_is_told_a_remedy_that_works(robot, viewer, running, remedy):
    config = BringupConfig(placements=parse_placements([robot]), backend="mock", viewer=viewer)
    locks = [InstanceLock(name) for name in running]
    try:
        with pytest.raises(MotionError, match=remedy):
            run_suite(lambda: SuiteOptions(config))
    finally:
        for lock in locks:
            lock.release()


def test_a_robot_that_cannot_start_is_left_out_and_named():
    said = []
    nodes = ["/sim", "/a/base", "/b/base", "/b/state", "/c/base"]
    start = Startup(nodes, said.append, omitted=["c has no move_group: no tip"])
    start.report(News(FAILED, "/b/base", "turns right"), ["/a/base", "/b/base", "/c/base"])
    assert start.failed_robots == {"b": "b/base cannot start: turns right"}
    start.leave_out(start.failed_robots.copy())
    assert not start.failed_robots
    assert set(start.missing.values()) == {"still starting"}
    for name in ("/sim", "/a/base", "/c/base"):
        start.report(News(READY, name))
    assert start.complete
    assert "3 nodes" in said[-1]
    assert "turns right" in said[-1]
    assert "c has no move_group" in said[-1]


@pytest.mark.parametrize(
    ("process", "robots"),
    [(["/a/base", "/a/state"], {"a"}), (["/a/base", "/b/base"], set()), (["/base"], {""})],
)
def test_the_robot_of_a_process_that_fails_is_known_if_it_is_the_only_one(process, robots):
    start = Startup(process, lambda _text: None)
    start.report(News(FAILED, "", "no memory"), process)
    assert set(start.failed_robots) == robots


@pytest.mark.parametrize("axis", ["steering_axis", "wheel_axis"])
def test_a_robot_whose_wheels_turn_the_other_way_does_not_end_the_others(tmp_path, axis):
    """The simulation that they share would refuse it."""
    turned = {"steering_axis": "0 0 -1", "wheel_axis": "0 -1 0"}[axis]
    bad = write_car(tmp_path / "backward", **{axis: turned})
    good = write_car(tmp_path / "forward")
    placements = parse_placements([f"a:={good}", f"b:={bad}", "k:=kaya"])
    kept, left_out = suite._usable(BringupConfig(placements=placements))
    assert [place.namespace for place in kept.placements] == ["a", "k"]
    assert list(left_out) == ["b"]
    assert "reverse its axis" in left_out["b"]
    with pytest.raises(InvalidConfig):
        suite._usable(BringupConfig(placements=parse_placements([f"b:={bad}"])))


@pytest.mark.parametrize(
    ("policy", "why"),
    [("go2_walk", "has no joint FR_hip_joint"), ("walk", "not a file, a folder or a known policy")],
)
def test_a_policy_that_does_not_fit_its_robot_is_refused_before_anything_starts(policy, why):
    single = BringupConfig(placements=parse_placements(["franka"]), policies=(policy,))
    with pytest.raises(InvalidDescription, match=why):
        suite.composition(SuiteOptions(single))
    placements = parse_placements(["a:=franka", "b:=go2"])
    both = BringupConfig(placements=placements, policies=(f"a:={policy}", "b:=go2_trot"))
    kept, left_out = suite._usable(both)
    assert [place.namespace for place in kept.placements] == ["b"]
    assert kept.policies == ("b:=go2_trot",)
    assert why in left_out["a"]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"objects": ("cube:=boxx:0.1,0.1,0.1:1@0.5,0,0",)}, "is not an object"),
        ({"objects": ("cube:=box:0.1,0.1,0.1:1@0.5,0",)}, "a place 3 or 4 numbers"),
        ({"objects": ("cube:=box:0,0.1,0.1:1@0.5,0,0",)}, "must be above 0"),
        ({"objects": ("cup:=mesh:no_such.stl:1@0.5,0,0",)}, "no_such.stl"),
        ({"cameras": ("camera:=panda_link0@0,0",)}, "3 or 6 finite numbers"),
        ({"cameras": ("camera:=panda_link9@0,0,1",)}, "robot 'franka' has no link 'panda_link9'"),
        ({"cameras": ("b/camera:=panda_link0@0,0,1",)}, "no robot with the namespace 'b'"),
    ],
)
def test_objects_and_cameras_are_checked_before_anything_starts(given, why):
    config = BringupConfig(placements=parse_placements(["franka"]), viewer="none", **given)
    with pytest.raises(MotionError, match=why):
        suite.composition(SuiteOptions(config))
