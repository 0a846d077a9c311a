# SPDX-License-Identifier: Apache-2.0
"""Wipe, open_drawer and handover, scripted and in MuJoCo; strokes and postures."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from nodes.lockstep_arm import LockstepArm

import motion_nodes as mn
from motion_nodes.core.robot.poses import from_xyz_rpy, inverse
from motion_nodes.core.robot.tree import Box
from motion_nodes.core.scene.world import World
from motion_nodes.extras.tasks.skill_poses import backed, handle_grasps, strokes_over
from motion_nodes.extras.tasks.task_codes import SkillFailed, TaskCode
from motion_nodes.extras.tasks.task_plan import PlanStep
from motion_nodes.extras.tasks.world_state import ObjectState, WorldState
from motion_nodes.nodes.task.contact_skills import PULL, WIPE_FORCE
from motion_nodes.nodes.task.holding import FREE_FORCE, LOAD_SHARE, UNKNOWN_LOAD, Grasped
from motion_nodes.nodes.task.reachability import APPROACH, RETREAT, Reachability
from motion_nodes.nodes.task.remote_work import Work
from motion_nodes.nodes.task.skill_parts import SkillParts
from motion_nodes.nodes.task.skill_robot import RobotSkills

BOARD = ObjectState("board", from_xyz_rpy((0.5, 0.0, 0.05)), Box((0.2, 0.2, 0.1)))
SPONGE = ObjectState("sponge", from_xyz_rpy((0.4, 0.2, 0.3)), Box((0.05, 0.05, 0.05)))
HANDLE = ObjectState("handle", from_xyz_rpy((0.6, 0.0, 0.4)), Box((0.012, 0.12, 0.016)))
STATE = WorldState({o.name: o for o in (BOARD, SPONGE, HANDLE)})
Q = np.zeros(7)
FREE = {"approach", "grasp", "retreat", "home"}


class ScriptedArm:
    """An ideal arm that reaches its targets; a time step per poll; the force depends on time."""

    def __init__(self, force: Callable[[float], float | None] = lambda t: 0.0) -> None:
        self.arm = SimpleNamespace(tip="hand")
        self.max_width, self.width = 0.08, 0.05
        self.clock, self.calls, self.pose = 100.0, [], np.array(SPONGE.X_WO)
        self._force, self.pressed, self.stuck = force, False, False
        self.offset, self.settings = 0.0, {}
        """Measured force without contact [N], and changed settings."""
        self.follows = True
        self.seen: dict[str, ObjectState] = {}
        self.held: str | None = None
        self.limit: float | None = None
        self.limits: list[tuple[str, float | None]] = []
        """Motions with the limits of the force at the tool that applied."""

    # motions
    def positions(self) -> np.ndarray:
        return Q

    def tool_pose(self) -> np.ndarray:
        return self.pose

    def to_joints(self, q: Any, what: str) -> Iterator[None]:
        return self._moved(what)

    def to_state(self, name: str) -> Iterator[None]:
        return self._moved(name)

    def straight(
        self, *poses: Any, what: str, speed: float = 1.0, checked: bool = True
    ) -> Iterator[None]:
        self.pose = np.array(poses[-1])
        return self._moved(what)

    def open(self) -> Iterator[None]:
        yield from self._moved("open")
        self.width = self.max_width

    def close(self) -> Any:
        yield
        return 0.016

    def cancel(self) -> None:
        self.calls.append("cancel")

    def cancel_all(self) -> None: ...

    def grasp_report(self) -> str:
        return ""

    def limit_force(self, force: float | None) -> None:
        self.limit = force

    def learn_force_limit(self) -> Iterator[None]:
        yield

    @property
    def reported_at(self) -> float:
        return self.clock

    # compliance
    @property
    def force(self) -> np.ndarray | None:
        z = self._force(self.clock - 100.0)
        if z is None:
            return None
        return np.array((0.0, 0.0, z + (self.exerted if self.pressed else self.unloaded)))

    @property
    def unloaded(self) -> float:
        return self.offset + 9.80665 * self.settings.get("payload.mass", 0.0)

    def begin(self, settings: Any) -> Iterator[None]:
        return self._moved("begin")

    def change(self, settings: Any) -> Iterator[None]:
        self.settings = settings
        return self._moved("change")

    def end(self) -> Iterator[None]:
        self.pressed = False
        return self._moved("end")

    def abort(self) -> None:
        self.calls.append("abort")

    def press(self, force: Any) -> None:
        # Force control: the measured force is the opposite of what is exerted.
        self.pressed, self.exerted = not self.stuck, -force[2]

    def follow(self, poses: Any, speed: float) -> Iterator[None]:
        length = sum(np.linalg.norm(b[:3, 3] - a[:3, 3]) for a, b in itertools.pairwise(poses))
        if self.follows:
            self.pose = np.array(poses[-1])
        return self.wait(length / speed)

    def wait(self, seconds: float) -> Iterator[None]:
        end = self.clock + seconds
        while self.clock < end:
            self.clock += 0.02
            yield

    def _moved(self, what: str) -> Iterator[None]:
        self.calls.append(what)
        self.limits.append((what, self.limit))
        yield

    # objects
    def now(self) -> float:
        self.clock += 0.02
        return self.clock

    def detects(self, name: str) -> bool:
        return name in self.seen

    def detected(self, name: str) -> ObjectState | None:
        return self.seen.get(name)

    def hide(self, item: ObjectState) -> None:
        self.calls.append(f"hide {item.name}")

    def show(self, item: ObjectState) -> None:
        self.calls.append(f"show {item.name}")
        self.shown = item

    def detach(self, item: ObjectState) -> None:
        self.calls.append(f"detach {item.name}")

    def forget(self, name: str) -> None:
        self.calls.append(f"forget {name}")


def skills_of(script: ScriptedArm, reached: float = 1.0) -> RobotSkills:
    def strokes(strokes: Any, X_OT: Any, surface: Any) -> Any:
        yield
        found = [pose @ X_OT for stroke in strokes for pose in stroke]
        return [(found[: int(reached * len(found))], Q)] if reached else []

    def pull(grasps: Any, distance: float, target: Any) -> Any:
        yield
        return grasps[0], Q

    node: Any = SimpleNamespace(params=SimpleNamespace(check_grasp=True))
    reach: Any = SimpleNamespace(strokes=strokes, pull=pull)
    made = RobotSkills(SkillParts(node, script, script, script, World(), frozenset()), reach)
    made.holding.grasped = Grasped("sponge", inverse(script.pose) @ SPONGE.X_WO)
    return made


def run(script: ScriptedArm, skill: str, reached: float = 1.0, **args: str) -> list[str]:
    phases: list[str] = []
    work = skills_of(script, reached).work_of(PlanStep(skill, args), STATE, phases.append)
    for _ in range(20_000):
        if next(work, "done") == "done":
            return phases
    raise AssertionError("endless")


@pytest.mark.parametrize(
    ("skill", "args", "weight", "expected"),
    [
        ("open_drawer", {"object": "handle"}, None, FREE_FORCE),
        ("wipe", {"object": "sponge", "surface": "board"}, 4.0, FREE_FORCE + LOAD_SHARE * 4.0),
        ("home", {}, 4.0, FREE_FORCE + LOAD_SHARE * 4.0),
        ("home", {}, np.nan, FREE_FORCE + LOAD_SHARE * UNKNOWN_LOAD),
        ("home", {}, None, FREE_FORCE),
    ],
)
def test_free_motions_are_bounded_in_force(skill, args, weight, expected):
    script = ScriptedArm()
    script.held, script.offset = None if weight is None else "sponge", -(weight or 0.0)
    run(script, skill, **args)
    limits = {what: limit for what, limit in script.limits if what != "open"}
    free = {what: limit for what, limit in limits.items() if what in FREE}
    first, *others = free.values()
    assert first == pytest.approx(expected, abs=0.1)
    assert others or skill == "home"
    assert all(FREE_FORCE <= limit <= first + 0.1 for limit in others if limit), limits
    assert None not in others
    assert {limit for what, limit in limits.items() if what not in FREE} <= {None}
    assert script.limit is None, "as it was configured"


@pytest.mark.parametrize(
    ("skill", "args", "name"),
    [
        ("open_drawer", {"object": "handle"}, "handle"),
        ("wipe", {"object": "sponge", "surface": "board"}, "board"),
    ],
)
def test_what_moves_while_it_is_approached_is_not_touched(skill, args, name):
    script = ScriptedArm()
    moved = np.array(STATE.objects[name].X_WO)
    moved[1, 3] += 0.05
    script.seen[name] = replace(STATE.objects[name], X_WO=moved)
    with pytest.raises(SkillFailed) as failed:
        run(script, skill, **args)
    assert failed.value.code is TaskCode.OBJECT_MOVED
    assert "begin" not in script.calls


@pytest.mark.parametrize("offset", [-2.0, 0.0, 0.7])
def test_a_surface_is_wiped_with_the_force_and_let_go(offset):
    script = ScriptedArm()
    # The weight of the sponge is no contact, nor is an offset of the measurement.
    script.offset = offset
    phases = run(script, "wipe", object="sponge", surface="board")
    assert phases[-1] == "wiped 100 % of the surface"
    assert script.exerted - script.unloaded == pytest.approx(WIPE_FORCE)
    assert script.settings["payload.mass"] == pytest.approx(max(0.0, -offset) / 9.80665)
    # Under force control nothing carries a weight that is not known yet.
    assert script.calls.index("begin") < script.calls.index("change")
    assert script.settings["force_axes"] == ["z"]
    order = [
        c for c in script.calls if c in ("hide board", "begin", "end", "retreat", "show board")
    ]
    assert order == ["hide board", "begin", "end", "retreat", "show board"]


@pytest.mark.parametrize("part", ["untouched", "unmeasured", "unreached", "half"])
def test_wiping_fails_with_its_reason(part):
    script = ScriptedArm((lambda t: None) if part == "unmeasured" else (lambda t: 0.0))
    script.stuck = part == "untouched"
    if part == "half":
        script._force = lambda t: 0.0 if t < 8.0 else -WIPE_FORCE
    reached = 0.3 if part == "unreached" else 1.0
    with pytest.raises(SkillFailed) as error:
        run(script, "wipe", reached, object="sponge", surface="board")
    reason = {"untouched": "not touched", "unmeasured": "not measured", "unreached": "30 %",
              "half": "of the path"}[part]  # fmt: skip
    assert reason in str(error.value)
    if part in ("untouched", "unmeasured"):
        assert script.calls[-2:] == ["abort", "show board"], "the joints are held, the scene whole"


def test_a_force_is_measured_only_when_it_is_steady():
    # Right after the change of the control the estimate jumps.
    script = ScriptedArm(lambda t: -6.0 if t < 0.75 else 0.0)
    run(script, "wipe", object="sponge", surface="board")
    assert script.settings["payload.mass"] == 0.0
    assert script.exerted == pytest.approx(WIPE_FORCE)
    with pytest.raises(SkillFailed):
        run(ScriptedArm(lambda t: 40.0 * t), "wipe", object="sponge", surface="board")


def test_wiping_that_is_interrupted_leaves_the_arm_held():
    script = ScriptedArm()
    work = skills_of(script).work_of(
        PlanStep("wipe", {"object": "sponge", "surface": "board"}), STATE, lambda name: None
    )
    while "begin" not in script.calls:
        next(work)
    next(work)
    work.close()
    assert script.calls[-2:] == ["abort", "show board"]


def test_a_drawer_is_pulled_towards_the_robot():
    script = ScriptedArm()
    phases = run(script, "open_drawer", object="handle")
    assert phases == ["approach", "grasp", "pull", "release", "retreat", "check"]
    assert script.shown.X_WO[0, 3] == pytest.approx(0.6 - PULL)


def test_a_locked_drawer_is_let_go_with_its_reason():
    script = ScriptedArm()
    script.follows = False
    with pytest.raises(SkillFailed, match="0 of 200 mm"):
        run(script, "open_drawer", object="handle")
    assert "open" in script.calls[script.calls.index("end") :]
    assert script.shown.X_WO[0, 3] == pytest.approx(0.6)


def test_a_handle_is_let_go_before_anything_else_after_a_stop():
    script = ScriptedArm()
    skills = skills_of(script)
    phases: list[str] = []
    work = skills.work_of(PlanStep("open_drawer", {"object": "handle"}), STATE, phases.append)
    while "pull" not in phases:
        next(work)
    work.close()
    script.calls.clear()
    for _ in range(2):
        list(skills.work_of(PlanStep("home", {}), STATE, phases.append))
    assert script.calls == ["open", "home", "home"]


def test_an_object_is_let_go_when_it_is_pulled_not_before():
    script = ScriptedArm(lambda t: -1.0 if t < 3.0 else -9.0)
    assert run(script, "handover", object="sponge")[-1] == "release"
    assert script.clock > 103.0
    assert script.calls[-3:] == ["open", "detach sponge", "forget sponge"]


def test_a_short_knock_does_not_let_go():
    script = ScriptedArm(lambda t: -20.0 if 1.0 < t < 1.06 else 0.0)
    with pytest.raises(SkillFailed):
        run(script, "handover", object="sponge")
    assert "open" not in script.calls


def test_a_pull_must_be_felt():
    script = ScriptedArm(lambda t: None)
    with pytest.raises(SkillFailed, match="pull"):
        run(script, "handover", object="sponge")
    assert "open" not in script.calls


@pytest.mark.long
def test_a_held_object_wipes_with_its_force_and_is_handed_over():
    # The mat lies along the direction in which a pushed object would jump.
    cell = LockstepArm(
        "cube:=box:0.04,0.04,0.04:0.2@0.45,0.15,0.02", "mat:=box:0.09,0.045,0.05:5@0.42,0.03,0.025"
    )
    skills = cell.skills()
    cell.do(skills, "pick", object="cube")
    mat, forces, phases = cell.world.object_pose("mat"), [], []
    for phase in cell.execute(skills, "wipe", object="cube", surface="mat"):
        phases.append(phase)
        if phase.startswith("wipe ") and cell.pressing:
            forces.append(cell.mean_force)
    assert phases[-1] == "wiped 100 % of the surface"
    assert np.mean(forces) == pytest.approx(WIPE_FORCE, abs=1.0)
    np.testing.assert_allclose(cell.world.object_pose("mat"), mat, atol=0.005)
    assert cell.holds("cube")
    cell.detector = False
    pull = cell.world.data.body("object:cube").xfrc_applied
    for phase in cell.execute(skills, "handover", object="cube"):
        if phase == "offer":
            assert cell.width < 0.05, "it is held until it is pulled"
            pull[:3] += (0.1, 0.0, 0.0)
    assert cell.width > 0.07


@pytest.mark.long
def test_a_drawer_is_opened():
    cell = LockstepArm("drawer:=drawer:0.3,0.3,0.15:1.5@0,0.6,0.45,1.5708")
    assert cell.do(cell.skills(), "open_drawer", object="drawer") == "check"
    opened = float(cell.world.data.joint("object:drawer").qpos[0])
    assert opened == pytest.approx(PULL, abs=0.03)


ARM = mn.load_robot("franka")["arm"]
ROUND_SPONGE = ObjectState("sponge", from_xyz_rpy((0.4, 0.3, 0.3)), Box((0.05, 0.05, 0.05)))
X_OT = from_xyz_rpy((0.0, 0.0, 0.0), (np.pi, 0.0, 0.0))
"""Held from above."""


def reach_from(q: np.ndarray) -> Reachability:
    """Return the reachability of the arm at joint positions [rad], shape (n,)."""
    motions: Any = SimpleNamespace(arm=ARM, positions=lambda: q)
    return Reachability(motions, World())


def result(work: Work) -> Any:
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


def parts_of(size: tuple[float, float], heading: float) -> list[np.ndarray]:
    """Return stroke positions by part, over a board in front of the robot [m], (k, 3) each."""
    X = from_xyz_rpy((0.5, 0.0, 0.03), (0.0, 0.0, heading))
    board = ObjectState("board", X, Box((*size, 0.06)))
    reach = reach_from(ARM.state("ready"))
    parts = result(reach.strokes(strokes_over(board, ROUND_SPONGE), X_OT, board))
    return [np.array(part)[:, :3, 3] for part, _ in parts]


@pytest.mark.parametrize("heading", [0.0, np.pi, 0.5])
def test_a_tool_that_friction_pulls_into_the_surface_is_not_pushed(heading):
    parts = parts_of((0.2, 0.1), heading)
    assert len(parts) > 1
    for part in parts:
        assert (np.diff(part[:, 0]) < 0.0).all(), "every stroke is pulled towards the robot"


@pytest.mark.parametrize("heading", [0.0, np.pi])
def test_strokes_across_go_to_and_fro_and_come_nearer(heading):
    (part,) = parts_of((0.1, 0.2), heading)
    assert np.linalg.norm(np.diff(part, axis=0), axis=1).max() < 0.06
    assert (np.diff(part[:, 0]) < 1e-9).all()
    assert np.ptp(part[:, 0]) == pytest.approx(0.05)
    turns = np.diff(np.sign(np.diff(part[:, 1]).round(6))) != 0.0
    assert turns.any()


def test_a_handle_is_not_pulled_from_a_singular_posture():
    # The first posture that is found is nearly singular: the arm would pull without moving.
    X = from_xyz_rpy((0.5485, -0.3762, 0.3999), (0.0, 0.0, -0.4346))
    handle = ObjectState("handle", X, Box((0.012, 0.12, 0.016)))
    reach = reach_from(ARM.state("home"))
    grasp, q = result(reach.pull(handle_grasps(handle, 0.08), PULL, handle))
    np.testing.assert_allclose(ARM.fk(q), backed(grasp.X_WG, APPROACH), atol=1e-3)
    for away in np.linspace(-APPROACH, PULL + RETREAT, 8):
        pose = backed(grasp.X_WG, abs(away) if away < 0.0 else away)
        q = ARM.ik(pose, seed=q).q
        twist = np.concatenate((grasp.X_WG[:3, 2], np.zeros(3)))
        speed = float(np.linalg.norm(np.linalg.pinv(ARM.jacobian(q)) @ twist))
        assert speed < 12.0, f"{speed:.0f} rad/s for 1 m/s"


@pytest.mark.parametrize("search", ["grasp", "place", "pour"])
def test_a_search_gives_way_after_each_attempt(monkeypatch, search):
    """The loop that advances it also decides whether the held object is lost."""
    reach = reach_from(ARM.state("ready"))
    tried = [0]

    def solution(*_: Any, **__: Any) -> None:
        tried[0] += 1

    monkeypatch.setattr(reach, "_solution", solution)
    work = {
        "grasp": lambda: reach.grasp(ROUND_SPONGE, 0.08),
        "pour": lambda: reach.pour(X_OT, X_OT, 1.9),
        "place": lambda: reach.place([X_OT], X_OT),
    }[search]()
    most = 0

    def steps() -> None:
        nonlocal most
        for _ in work:
            most, tried[0] = max(most, tried[0]), 0

    with pytest.raises(SkillFailed, match="out of reach"):
        steps()
    assert most == 1
