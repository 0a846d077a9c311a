# SPDX-License-Identifier: Apache-2.0
"""Random scenes for skills in contact, judged by the physics.

    python benchmarks/contact_trials.py 10

prints how many of ten scenes of each skill succeed, and why others do not (about ten minutes).
"""

import itertools
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import harness  # noqa: F401 (the path of the tests' helpers)
import numpy as np
import trimesh
from nodes.lockstep_arm import POLL, LockstepArm

from motion_nodes.extras.tasks.served_task import RulePlanner
from motion_nodes.extras.tasks.task_codes import SkillFailed
from motion_nodes.extras.tasks.task_plan import PlanStep
from motion_nodes.extras.tasks.task_runner import TaskRunner, TaskStatus
from motion_nodes.extras.tasks.world_state import WorldState
from motion_nodes.nodes.task.arm_motions import SLOW
from motion_nodes.nodes.task.contact_skills import WIPE_FORCE
from motion_nodes.nodes.task.reachability import raised
from motion_nodes.nodes.task.skill_robot import WorkExecution


def numbers(*values: float) -> str:
    """Return numbers as one word."""
    return ",".join(f"{value:.4f}" for value in values)


def item(rng: np.random.Generator, at: tuple[float, float]) -> str:
    """Return a box to be held, on the floor."""
    x, y, z = rng.uniform((0.03, 0.03, 0.035), (0.05, 0.06, 0.06))
    yaw = rng.uniform(-0.5, 0.5)
    place = numbers(*at, 0.5 * z, yaw)
    return f"sponge:=box:{numbers(x, y, z)}:{rng.uniform(0.03, 0.4):.3f}@{place}"


def wipe(seed: int) -> str:
    """Wipe a box; return the failure, or an empty string."""
    rng = np.random.default_rng((1, seed))
    x, y, z = rng.uniform((0.08, 0.06, 0.03), (0.2, 0.2, 0.12))
    far, around = rng.uniform(0.42, 0.58), rng.uniform(-0.8, 0.5)
    at = (far * np.cos(around), far * np.sin(around), 0.5 * z, rng.uniform(-0.8, 0.8))
    board = f"board:=box:{numbers(x, y, z)}:20@{numbers(*at)}"
    cell = LockstepArm(item(rng, (0.25, 0.42)), board)
    cell.friction("sponge", rng.uniform(0.3, 0.9))
    skills = cell.skills()
    cell.do(skills, "pick", object="sponge")
    before, forces = cell.world.object_pose("board")[:3, 3], []
    for phase in cell.execute(skills, "wipe", object="sponge", surface="board"):
        if phase.startswith("wipe ") and cell.pressing:
            forces.append(cell.mean_force)
    mean = float(np.mean(forces))
    moved = float(np.linalg.norm(cell.world.object_pose("board")[:3, 3] - before))
    if moved > 0.005:
        return f"the board moved by {1e3 * moved:.0f} mm"
    if not 0.7 * WIPE_FORCE < mean < 1.4 * WIPE_FORCE:
        return f"{mean:.1f} N on average"
    return "" if cell.holds("sponge") else "the sponge was lost"


def open_drawer(seed: int) -> str:
    """Open a drawer; return the failure, or an empty string."""
    rng = np.random.default_rng((2, seed))
    far, around = rng.uniform(0.55, 0.68), rng.uniform(-1.8, 1.8)
    at = (far * np.cos(around), far * np.sin(around), rng.uniform(0.3, 0.55))
    yaw = around + rng.uniform(-0.2, 0.2)
    sizes = rng.uniform((0.25, 0.2, 0.1), (0.4, 0.4, 0.2))
    word = f"drawer:=drawer:{numbers(*sizes)}:{rng.uniform(0.5, 4.0):.2f}@{numbers(*at, yaw)}"
    cell = LockstepArm(word)
    cell.world.model.dof_frictionloss[cell.world.model.joint("object:drawer").dofadr] = rng.uniform(
        1.0, 12.0
    )
    skills = cell.skills()
    cell.do(skills, "open_drawer", object="drawer")
    cell.run(0.5)
    opened = float(cell.world.data.joint("object:drawer").qpos[0])
    return "" if opened > 0.16 else f"open by {1e3 * opened:.0f} mm"


def handover(seed: int) -> str:
    """Hand an object over to a receiver who pulls it; return the failure, or an empty string."""
    rng = np.random.default_rng((3, seed))
    cell = LockstepArm(item(rng, (rng.uniform(0.4, 0.55), rng.uniform(-0.3, 0.3))))
    skills = cell.skills()
    cell.do(skills, "pick", object="sponge")
    # Every second handover is sensed by force only, without a detector.
    cell.detector = seed % 2 == 0
    pull = rng.normal(size=3)
    pull *= rng.uniform(9.0, 14.0) / np.linalg.norm(pull)
    begin, ramp, touched = rng.uniform(0.5, 3.0), rng.uniform(0.1, 1.0), None
    force = cell.world.data.body("object:sponge").xfrc_applied
    offered = None
    for phase in cell.execute(skills, "handover", object="sponge"):
        if phase == "offer":
            offered = cell.world.time if offered is None else offered
            since = cell.world.time - offered
            # An unintended touch first.
            force[:3] = 0.2 * pull if 0.2 < since < 0.4 else 0.0
            if since > begin:
                touched = cell.world.time if touched is None else touched
                force[:3] = pull * min(1.0, (since - begin) / ramp)
        elif phase == "release" and touched is None:
            return "let go before it was pulled"
    late = cell.world.time - (touched or 0.0)
    if cell.width < 0.07:
        return "it was not let go"
    return "" if late < ramp + 1.5 else f"let go {late:.1f} s after the pull began"


def mesh(seed: int) -> str:
    """Pick a ring or an L, and put it on a tray; return the failure, or an empty string."""
    rng = np.random.default_rng((4, seed))
    if seed % 2:
        made = trimesh.creation.torus(rng.uniform(0.025, 0.05), rng.uniform(0.007, 0.011))
    else:
        long, short, wide = rng.uniform((0.08, 0.06, 0.02), (0.12, 0.1, 0.035))
        corners = ((0, 0), (long, 0), (long, wide), (wide, wide), (wide, short), (0, short))
        faces = np.array([(0, 1, 2), (0, 2, 3), (0, 3, 4), (0, 4, 5)])
        height = rng.uniform(0.025, 0.05)
        made = trimesh.creation.extrude_triangulation(np.array(corners), faces, height)
    made.apply_translation((0.0, 0.0, -made.bounds[0, 2]))
    around, far, turn = rng.uniform((-0.2, 0.4, -3.0), (0.6, 0.52, 3.0))
    at = numbers(far * np.cos(around), far * np.sin(around), 0.001, turn)
    with tempfile.TemporaryDirectory() as folder:
        made.export(f"{folder}/thing.stl")
        word = f"thing:=mesh:{folder}/thing.stl:{rng.uniform(0.03, 0.3):.3f}@{at}"
        cell = LockstepArm(word, "tray:=box:0.22,0.22,0.04:20@0.45,-0.25,0.02")
    skills = cell.skills()
    cell.do(skills, "pick", object="thing")
    if cell.world.object_pose("thing")[2, 3] < 0.05:
        return "it was not lifted"
    cell.do(skills, "place", object="thing", location="tray")
    cell.run(0.5)
    height = cell.world.object_pose("thing")[2, 3]
    return "" if abs(height - 0.04) < 0.005 else f"{1e3 * height:.0f} mm high, not 40"


class Tasks:
    """Tasks of a lockstep arm."""

    def __init__(self, cell: LockstepArm) -> None:
        self.cell, self.skills = cell, cell.skills()

    def observe(self) -> WorldState:
        """Return what is there."""
        return self.cell.observe()

    def start(self, step: PlanStep, state: WorldState) -> WorkExecution:
        """Begin a step."""
        return WorkExecution(self.skills, step, state)

    def now(self) -> float:
        """Return the simulated time [s]."""
        return float(self.cell.world.time)

    def run(self, sentence: str, until: float = 300.0) -> TaskRunner:
        """Execute a task for at most some time [s]."""
        runner = TaskRunner(self, RulePlanner().plan(sentence, self.observe()))
        end = self.now() + until
        while runner.tick() is TaskStatus.RUNNING and self.now() < end:
            for _ in range(POLL):
                self.cell.step()
        return runner


def stop(seed: int) -> str:
    """Stop a task at any time, and give it again; return the failure, or an empty string."""
    rng = np.random.default_rng((7, seed))
    far, around, turn = rng.uniform((0.4, 0.1, -0.7), (0.52, 0.7, 0.7))
    at = numbers(far * np.cos(around), far * np.sin(around), 0.02, turn)
    cell = LockstepArm(
        f"cube:=box:0.04,0.04,0.04:0.1@{at}", "shelf:=box:0.2,0.2,0.1:20@0.5,-0.2,0.05"
    )
    tasks = Tasks(cell)
    runner = tasks.run("put the cube on the shelf", rng.uniform(0.2, 14.0))
    where = f"stopped in {runner.phase or 'nothing'}"
    runner.cancel()
    cell.stop()
    cell.run(1.0)
    print(where, end=", ", flush=True)
    if np.abs(cell.world.state("arm").velocity).max() > 0.01:
        return f"{where}: it still moves"
    known = "cube" in cell.scene.scene.attached
    if cell.holds("cube") and abs(cell.width - 0.04) < 0.001 and not known:
        return f"{where}: the cube is in the hand, and nobody knows"
    runner = tasks.run("put the cube on the shelf")
    if runner.state is not TaskStatus.SUCCEEDED:
        return f"{where}: {runner.state.value}: {runner.reason}"
    cell.run(0.5)
    height = cell.world.object_pose("cube")[2, 3]
    return "" if abs(height - 0.12) < 0.005 else f"{where}: {1e3 * height:.0f} mm high, not 120"


def pick_times(seed: int) -> tuple[float, float]:
    """Return the durations of lifting a cube by the skill and by a script without checks [s].

    The script knows the pose of the cube, the grasp and the joint positions above it from the
    skill; both have the same motions, limits and fingers.
    """
    rng = np.random.default_rng((5, seed))
    far, around, turn = rng.uniform((0.4, -0.7, -0.7), (0.55, 0.7, 0.7))
    at = numbers(far * np.cos(around), far * np.sin(around), 0.02, turn)
    word = f"cube:=box:0.04,0.04,0.04:0.1@{at}"
    cell = LockstepArm(word)
    skills, known = cell.skills(), {}
    found = skills.reach.grasp

    def grasp(*args: Any) -> Iterator[None]:
        known["grasp"] = yield from found(*args)
        return known["grasp"]

    skills.reach.grasp = grasp
    begin = cell.world.time
    cell.do(skills, "pick", object="cube")
    by_skill = cell.world.time - begin
    cell = LockstepArm(word)
    pose, q = known["grasp"][0].X_WG, known["grasp"][1]
    begin = cell.world.time
    for work in (
        cell.open(), cell.to_joints(q, "approach"), cell.straight(pose, what="grasp", speed=SLOW),
        cell.close(), cell.straight(raised(pose), what="lift"),
    ):  # fmt: skip
        for _ in work:
            for _ in range(POLL):
                cell.step()
    assert cell.holds("cube")
    return by_skill, cell.world.time - begin


REFUSALS = ("within reach", "out of reach", "no two sides that fit")
SKILLS = {"wipe": wipe, "open_drawer": open_drawer, "handover": handover, "mesh": mesh,
          "stop": stop}  # fmt: skip


def main() -> None:
    """Print the counts; scenes that are refused before anything moves are replaced."""
    wanted = int(sys.argv[1])
    if sys.argv[2:] == ["pick_times"]:
        times = np.array([pick_times(seed) for seed in range(wanted)])
        print("skill, script [s], median:", *np.median(times, axis=0).round(2), *times.tolist())
        return
    for name in sys.argv[2:] or SKILLS:
        good = tried = refused = 0
        for seed in itertools.count():
            if tried == wanted:
                break
            try:
                wrong = SKILLS[name](seed)
            except SkillFailed as error:
                wrong = f"failed: {error}"
            if any(word in wrong for word in REFUSALS):
                refused += 1
            else:
                tried, good = tried + 1, good + (not wrong)
            print(f"{name} {seed}: {wrong or 'ok'}", flush=True)
        print(f"{name}: {good} of {tried}, {refused} further ones refused", flush=True)


if __name__ == "__main__":
    main()
