# SPDX-License-Identifier: Apache-2.0
"""Functions for language models: validation, dry runs, and the tokens that permit motion."""

import json
import threading
from typing import Any

import numpy as np
import pytest
from raised_errors import about

import motion_nodes as mn
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box
from motion_nodes.core.scene.scene import world_object
from motion_nodes.errors import InvalidCommand, InvalidConfig, MotionError
from motion_nodes.extras.agent_tools.agent_functions import (
    LIFETIME,
    MAX_WAITING,
    AgentConfig,
    AgentFunctions,
    DryRuns,
    NotDone,
    PlannedJointMotion,
    SceneItem,
    TipTarget,
)
from motion_nodes.extras.agent_tools.function_table import (
    FUNCTIONS,
    checked_arguments,
    object_schema,
)

ROBOT = mn.load_robot("franka")
ARM = ROBOT["arm"]
HOME = dict(zip(ARM.joint_names, ARM.state("home").tolist(), strict=True))
CUBE = {"skill": "pick", "args": {"object": "cube"}}


class FakeLink:
    """A fake suite whose plans are straight lines; records what was executed."""

    def __init__(self) -> None:
        self.done: list[Any] = []
        self.stop_reason = ""
        self.begun, self.finish = threading.Event(), threading.Event()
        self.finish.set()
        self.items: list[SceneItem] = []

    def positions(self) -> dict[str, float]:
        return HOME | {"panda_finger_joint1": 0.04, "panda_finger_joint2": 0.04}

    def scene(self) -> list[SceneItem]:
        return self.items

    def plan(
        self, group: str, goal: Any, velocity: float, acceleration: float
    ) -> PlannedJointMotion:
        if isinstance(goal, TipTarget):
            end = ARM.ik(goal.X_BT, seed="home")
            if not end.success:
                raise NotDone(end.reason)
            goal = dict(zip(ARM.joint_names, end.q.tolist(), strict=True))
        q = np.linspace(list(HOME.values()), [goal[name] for name in ARM.joint_names], 5)
        message = {"goal": goal, "velocity": velocity, "acceleration": acceleration}
        return PlannedJointMotion(ARM.joint_names, np.linspace(0.0, 2.0, 5), q, message)

    def execute(self, path: PlannedJointMotion, report: Any) -> None:
        self.begun.set()
        report("moving")
        if not self.finish.wait(10.0) or self.done[-1:] == ["canceled"]:
            raise NotDone("canceled")
        self.done.append(path.message)

    def grip(self, position: float, max_effort: float) -> str:
        self.done.append((position, max_effort))
        return "reached"

    def plan_task(self, task: str) -> list[dict[str, Any]]:
        if "cube" not in task:
            raise NotDone("no known object")
        return [CUBE]

    def run_task(self, plan: Any, report: Any) -> None:
        self.done.append(plan)

    def cancel(self) -> None:
        self.done.append("canceled")
        self.finish.set()

    def stop(self) -> list[str]:
        self.stop_reason = "stopped by motion mcp"
        return ["at rest"]

    def resume(self) -> None:
        self.stop_reason = ""


@pytest.fixture
def link():
    return FakeLink()


@pytest.fixture
def functions(link):
    return AgentFunctions(ROBOT, link)


def refused(functions: AgentFunctions, name: str, /, **given: Any) -> str:
    with pytest.raises(MotionError) as error:
        functions.call(name, given)
    return str(error.value)


@pytest.mark.parametrize(
    ("name", "given", "word"),
    [
        ("fly", {}, "fly"),
        ("move_to_stat", {"state": "ready"}, "move_to_state"),
        ("move_to_state", {}, "state"),
        ("move_to_state", {"state": "redy"}, "ready"),
        ("move_to_state", {"state": "ready", "group": "leg"}, "arm"),
        ("move_to_state", {"state": 3}, "text"),
        ("move_to_state", {"state": "ready", "sped": 1.0}, "sped"),
        ("move_to_state", {"state": "ready", "velocity": 0.9}, "0.5"),
        ("move_to_state", {"state": "ready", "velocity": 0.0}, "0.01"),
        ("move_to_state", {"state": "ready", "velocity": float("nan")}, "nan"),
        ("move_to_state", {"state": "ready", "velocity": True}, "number"),
        ("move_to_state", {"state": "ready", "acceleration": 0.6}, "acceleration"),
        ("move_to_state", {"state": "x" * 20_000}, "characters"),
        ("move_to_joints", {"joints": {}}, "numbers by name"),
        ("move_to_joints", {"joints": {"panda_joint9": 0.0}}, "panda_joint"),
        ("move_to_joints", {"joints": {"panda_joint1": 9.0}}, "limits"),
        ("move_to_joints", {"joints": {"panda_joint1": "0"}}, "panda_joint1"),
        ("move_to_joints", {"joints": {"panda_finger_joint1": 0.0}}, "group 'arm'"),
        ("move_to_pose", {"position": [0.4, 0.0]}, "3 numbers"),
        ("move_to_pose", {"position": [0.4, 0.0, 1e9]}, "position[2]"),
        ("move_to_pose", {"position": [0.4, 0.0, float("inf")]}, "position[2]"),
        ("move_to_pose", {"position": [0.4, 0.0, 0.4], "rpy": [0.0, 0.0, 400.0]}, "rpy[2]"),
        ("move_to_pose", {"position": [0.4, 0.0, 0.4], "group": "gripper"}, "no tip"),
        ("grip", {"opening": 1.5}, "0 to 1"),
        ("grip", {"opening": 0.5, "max_effort": -1.0}, "max_effort"),
        ("run_task", {"task": " "}, "characters"),
        ("run_task", {"task": "dance"}, "object"),
        ("move_to_state", {"state": "ready", "dry_run": "no"}, "true or false"),
        ("move_to_state", {"state": "ready", "token": "abc"}, "dry_run"),
        ("stop", {"now": True}, "now"),
    ],
)  # fmt: skip
def test_invalid_calls_are_refused_with_what_is_allowed(functions, link, name, given, word):
    assert word in refused(functions, name, **given)
    assert not link.done


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("move_to_state", {"state": "extended", "velocity": 0.2}),
        ("move_to_joints", {"joints": {"panda_joint1": 0.5}}),
        ("move_to_pose", {"position": [0.4, 0.1, 0.5]}),
        ("grip", {"opening": 0.0}),
        ("run_task", {"task": "pick up the cube"}),
    ],
)
def test_nothing_moves_without_the_token_of_its_dry_run(functions, link, name, given):
    assert "dry_run" in refused(functions, name, **given, dry_run=False)
    assert "token" in refused(functions, name, **given, dry_run=False, token="00000000")
    token = functions.call(name, given)["token"]
    assert not link.done
    assert functions.call(name, given | {"dry_run": False, "token": token})["done"] == name
    assert len(link.done) == 1
    refused(functions, name, **given, dry_run=False, token=token)
    assert len(link.done) == 1


def test_a_token_belongs_to_one_function_and_its_arguments(functions, link):
    token = functions.call("move_to_state", {"state": "ready"})["token"]
    assert "state" in refused(
        functions, "move_to_state", state="extended", dry_run=False, token=token
    )
    assert "move_to_state" in refused(functions, "grip", opening=0.0, dry_run=False, token=token)
    assert not link.done


def test_motions_and_stops_invalidate_other_dry_runs(functions, link):
    first, second, third = (
        functions.call("move_to_state", {"state": state})["token"]
        for state in ("ready", "extended", "transport")
    )
    functions.call("move_to_state", {"state": "ready", "dry_run": False, "token": first})
    refused(functions, "move_to_state", state="extended", dry_run=False, token=second)
    third = functions.call("move_to_state", {"state": "transport"})["token"]
    functions.call("stop", {})
    assert functions.call("robot_state", {})["stopped"]
    refused(functions, "move_to_state", state="transport", dry_run=False, token=third)
    # A dry run during a stop plans, but permits no motion.
    token = functions.call("move_to_state", {"state": "ready"})["token"]
    assert "stopped" in refused(
        functions, "move_to_state", state="ready", dry_run=False, token=token
    )
    functions.call("resume", {})
    assert len(link.done) == 1


def test_dry_runs_expire_and_are_bounded():
    now = [0.0]
    runs = DryRuns(lambda: now[0])
    tokens = [runs.add("grip", {"opening": 0.1}, lambda _: {}) for _ in range(MAX_WAITING + 1)]
    with pytest.raises(InvalidCommand):
        runs.take(tokens[0], "grip", {"opening": 0.1})
    runs.take(tokens[1], "grip", {"opening": 0.1})
    now[0] = LIFETIME + 1.0
    with pytest.raises(InvalidCommand):
        runs.take(tokens[2], "grip", {"opening": 0.1})


def test_one_motion_at_a_time_which_cancel_and_stop_interrupt(functions, link):
    token = functions.call("move_to_state", {"state": "ready"})["token"]
    link.finish.clear()
    failures: list[str] = []
    moving = threading.Thread(
        target=lambda: failures.append(
            refused(functions, "move_to_state", state="ready", dry_run=False, token=token)
        )
    )
    moving.start()
    assert link.begun.wait(10.0)
    assert functions.call("robot_state", {})["under_way"] == "move_to_state"
    assert "under way" in refused(functions, "grip", opening=0.0)
    assert functions.call("cancel", {})["canceled"] == "move_to_state"
    moving.join(10.0)
    assert failures == ["canceled"]
    assert functions.call("robot_state", {})["under_way"] is False


def test_the_plan_that_was_described_is_executed(functions, link):
    given = {"position": [0.4, 0.1, 0.5], "rpy": [3.1, 0.0, 0.2], "velocity": 0.3}
    dry = functions.call("move_to_pose", given)
    functions.call("move_to_pose", given | {"dry_run": False, "token": dry["token"]})
    goal = link.done[0]
    assert (goal["velocity"], goal["acceleration"]) == (0.3, 0.3)
    X_BT = ARM.fk([goal["goal"][name] for name in ARM.joint_names])
    assert X_BT[:3, 3] == pytest.approx([0.4, 0.1, 0.5], abs=2e-3)
    assert dry["final_tip"]["position"] == pytest.approx(list(X_BT[:3, 3]), abs=1e-3)
    straight = np.linalg.norm(X_BT[:3, 3] - ARM.fk(ARM.state("home"))[:3, 3])
    assert dry["tip_travel"] >= straight - 1e-3
    assert dry["duration"] == 2.0


def test_joints_that_are_not_given_keep_their_positions(functions, link):
    given = {"joints": {"panda_joint1": 0.5}}
    token = functions.call("move_to_joints", given)["token"]
    functions.call("move_to_joints", given | {"dry_run": False, "token": token})
    assert link.done[0]["goal"] == HOME | {"panda_joint1": 0.5}


@pytest.mark.parametrize(("opening", "position"), [(0.0, 0.0), (0.5, 0.02), (1.0, 0.04)])
def test_openings_are_shares_of_the_finger_positions(functions, link, opening, position):
    token = functions.call("grip", {"opening": opening})["token"]
    functions.call("grip", {"opening": opening, "dry_run": False, "token": token})
    assert link.done == [(pytest.approx(position), 0.0)]


def test_queries_are_plain_data_and_bounded(functions, link):
    parts = world_object("box", Box((0.1, 0.2, 0.3))).parts
    pose = from_xyz_rpy((0.5, 0.0, 0.1), (0.0, 0.0, 0.5))
    link.items = [SceneItem(f"box_{i}", parts, pose) for i in range(1000)]
    link.items.append(SceneItem("cube", parts, pose, link="panda_hand"))
    scene = functions.call("planning_scene", {})
    assert len(scene["objects"]) + scene["not_listed"] == 1001
    assert scene["objects"][0] == {
        "name": "box_0", "shape": "Box", "size": [0.1, 0.2, 0.3],
        "position": [0.5, 0.0, 0.1], "rpy": [0.0, 0.0, 0.5],
    }  # fmt: skip
    state = functions.call("robot_state", {})
    assert state["held"] == ["cube"]
    expected = ARM.fk(ARM.state("home"))[:3, 3]
    assert state["groups"]["arm"]["tip"]["position"] == pytest.approx(list(expected), abs=1e-4)
    states = functions.call("named_states", {})["groups"]["arm"]
    assert set(states) == set(ARM.state_names)
    json.dumps([scene, state, states])


def test_read_only_servers_offer_nothing_that_moves(link):
    functions = AgentFunctions(ROBOT, link, AgentConfig(read_only=True))
    assert "stop" in functions.functions
    assert not any(function.moves for function in functions.functions.values())
    refused(functions, "move_to_state", state="ready")
    refused(functions, "resume")


def test_settings_and_robots_that_are_refused(link):
    for factor in (0.0, 1.5, float("nan")):
        with pytest.raises(InvalidConfig):
            AgentConfig(max_velocity=factor)
    with pytest.raises(InvalidConfig, check=about("robot")):
        AgentFunctions(mn.load_robot("jetbot"), link)


def test_schemas_and_validation_come_from_one_table():
    for function in FUNCTIONS.values():
        schema = object_schema(function.all_arguments)
        assert set(schema["properties"]) == {a.name for a in function.all_arguments}
        required = {name: _example(schema["properties"][name]) for name in schema["required"]}
        checked_arguments(function.name, function.all_arguments, required)


def _example(schema: dict[str, Any]) -> Any:
    kind = schema["type"]
    if kind == "array":
        return [0.0] * schema["minItems"]
    return {"string": "x", "number": 0.5, "object": {"x": 0.0}, "boolean": True}[kind]


def test_a_dry_run_that_was_planned_during_a_motion_or_a_stop_is_invalid(
    functions, link, monkeypatch
):
    """Its plan begins where the robot was before."""
    token = functions.call("grip", {"opening": 1.0})["token"]
    plan = link.plan

    def slow(*given: Any) -> PlannedJointMotion:
        functions.call("grip", {"opening": 1.0, "dry_run": False, "token": token})
        return plan(*given)

    monkeypatch.setattr(link, "plan", slow)
    assert "grip was executed" in refused(functions, "move_to_state", state="ready")
    monkeypatch.setattr(link, "plan", lambda *given: (functions.call("stop", {}), plan(*given))[1])
    assert "a stop was commanded" in refused(functions, "move_to_state", state="ready")


def test_joints_without_a_measured_position_are_not_moved(functions, link, monkeypatch):
    known = {name: q for name, q in HOME.items() if name != "panda_joint4"}
    monkeypatch.setattr(link, "positions", lambda: known)
    text = refused(functions, "move_to_joints", joints={"panda_joint1": 0.5})
    assert "panda_joint4" in text
