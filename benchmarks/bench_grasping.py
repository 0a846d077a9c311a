# SPDX-License-Identifier: Apache-2.0
"""Grasps of random objects by force control in MuJoCo: success, drops, detected drops.

Run: ``python benchmarks/bench_grasping.py`` (eight minutes; the physics does not depend on the load
of the machine). A Franka grasps an object of random mass, size, shape and friction on a post, lifts
it and carries it along a plan to a random pose. An object is dropped if it is not between the
fingers at the end, by the physics. A drop is detected if the grasp was reported as lost or
overloaded. Measured with grasp forces that follow load and slip, and with a constant force.

``--creep 10`` carries each object, gripped with the task server's effort, through 10 motions
between random configurations at full speed instead, and measures how far it moves in the hand.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from harness import Options, Report, Row, benchmark, median, progress
from control.grasping_arm import PLACE, POST, TOOL, GraspingArm, Item

import motion_nodes as mn
from motion_nodes.core.control.gripper import GraspSettings, GraspState, GripStatus
from motion_nodes.core.planning.pipeline import PlanOptions
from motion_nodes.nodes.task.holding import FREE_FORCE, LOAD_SHARE

FORCE = 5.0
"""Grasp force [N]."""
CREEP_EFFORT = 30.0
"""Effort of each finger in the measurement of creep, the default of the task server [N]."""
SPEED = 0.3
"""Scaling of velocity and acceleration of the carried motion."""
MODES = {
    "follows load and slips": (GraspSettings(grasp_force=FORCE), np.inf),
    "constant": (GraspSettings(), FORCE),
}


class Carried(NamedTuple):
    """Result for one object."""

    gripped: bool
    dropped: bool
    noticed: bool
    force: float


def random_item(rng: np.random.Generator) -> Item:
    """Return a random object that fits into the hand."""
    return Item(
        width=float(rng.uniform(0.02, 0.07)), height=float(rng.uniform(0.04, 0.07)),
        mass=float(rng.uniform(0.05, 1.2)), friction=float(rng.uniform(0.2, 1.0)),
        round=bool(rng.random() < 0.5),
    )  # fmt: skip


def light_item(rng: np.random.Generator) -> Item:
    """Return a random object that friction holds at full speed, with the effort of tasks."""
    return replace(random_item(rng), mass=float(rng.uniform(0.05, 0.4)),
                                     friction=float(rng.uniform(0.6, 1.0)))  # fmt: skip


def world_around(hand: GraspingArm) -> mn.World:
    """Return the planner's world: post, floor, and the attached object."""
    world, half = mn.World(), 0.5 * hand.item.height
    world.add("post", mn.Box(POST), mn.pose(xyz=(*PLACE[:2], 0.5 * PLACE[2])))
    world.add("floor", mn.Box((3.0, 3.0, 0.02)), mn.pose(xyz=(0.0, 0.0, -0.03)))
    world.add("item", hand.item.body.geometry, mn.pose(xyz=(*PLACE[:2], PLACE[2] + half)))
    world.allow([("floor", "panda_link0")])
    X = hand.arm.fk(hand.q[:7])
    world.attach_object("item", TOOL, X, ["panda_hand", "panda_leftfinger", "panda_rightfinger"])
    return world


def carry(item: Item, settings: GraspSettings, max_effort: float, seed: int) -> Carried:
    """Grasp, lift and carry an object."""
    hand = GraspingArm(item, settings, max_effort)
    gripped = hand.grip() is GripStatus.STALLED
    world = world_around(hand)
    lifted = hand.configuration(PLACE[2] + 0.5 * item.height + 0.15)
    hand.go(lifted, 0.1)
    options = PlanOptions(velocity_scaling=SPEED, acceleration_scaling=SPEED)
    for goal in hand.arm.random(100, seed=seed):
        if hand.arm.fk(goal)[2, 3] > 0.3 and hand.arm.collision_free(goal, world):
            plan = hand.arm.plan(hand.q[:7], goal, world, seed=seed, options=options)
            if plan.success:
                break
    assert plan.trajectory is not None
    hand.follow(plan.trajectory)
    hand.run(lambda: False, 0.5)
    grasp = hand.grasp
    assert grasp is not None
    noticed = grasp.state in (GraspState.LOST, GraspState.OVERLOADED)
    return Carried(gripped, not hand.held, noticed, grasp.force)


class Crept(NamedTuple):
    """Result of carrying one object at full speed."""

    way: float
    """Largest displacement in the hand after a motion [m]."""
    turn: float
    """Rotation at the end [rad]."""
    held: bool
    force: float
    """Largest estimated force at the tool, as a share of the limit of free motions of tasks."""


class FeelingArm(GraspingArm):
    """Keeps the largest force that the controller estimates at the tool."""

    force = 0.0

    def step(self) -> None:
        """One period."""
        super().step()
        found = float(np.linalg.norm(self.contact.certain[:3]))
        self.force = max(self.force, found if np.isfinite(found) else 0.0)


def creep(item: Item, motions: int, seed: int) -> Crept:
    """Carry an object through random motions at full speed."""
    hand = FeelingArm(item, GraspSettings(), CREEP_EFFORT)
    hand.grip()
    hand.go(hand.configuration(PLACE[2] + 0.5 * item.height + 0.2), 0.2)
    hand.run(lambda: False, 0.3)
    rng, world = np.random.default_rng(seed), mn.World()
    # Above the post, by what the arm overshoots.
    world.add("table", mn.Box((3.0, 3.0, 0.02)), mn.pose(xyz=(0.0, 0.0, PLACE[2] + 0.02)))
    world.allow([("table", f"panda_link{k}") for k in (0, 1, 2)])
    world.add("item", hand.item.body.geometry, hand.world.object_pose("item"))
    fingers = ["panda_hand", "panda_leftfinger", "panda_rightfinger"]
    world.attach_object("item", TOOL, hand.arm.fk(hand.q[:7]), fingers)
    middle, half = hand.q[:7], np.array((1.3, 0.5, 0.5, 0.5, 0.5, 0.5, 1.0))

    def in_hand() -> np.ndarray:
        return np.linalg.inv(hand.arm.fk(hand.q[:7])) @ hand.world.object_pose("item")

    first, worst, hand.force = in_hand(), 0.0, 0.0
    for _ in range(motions):
        for _ in range(1000):
            goal = middle + rng.uniform(-half, half)
            line = np.linspace(hand.q[:7], goal, 30)
            if bool(np.all(hand.arm.collision_free_batch(line, world))):
                break
        hand.go(goal, 1.0)
        hand.run(lambda: False, 0.2)
        worst = max(worst, float(np.linalg.norm((in_hand() - first)[:3, 3])))
    turn = 0.5 * (np.trace(first[:3, :3].T @ in_hand()[:3, :3]) - 1.0)
    share = hand.force / (FREE_FORCE + LOAD_SHARE * 9.81 * item.mass)
    return Crept(worst, float(np.arccos(np.clip(turn, -1.0, 1.0))), hand.held, share)


def creeps(report: Report, options: Options) -> None:
    """Measure the creep of random objects."""
    rng, found = np.random.default_rng(6), []
    items = [light_item(rng) for _ in range(options.first + options.objects)]
    for k, item in enumerate(items[options.first :], options.first):
        found.append(creep(item, options.creep, k))
        progress(f"object {k}: {1e3 * found[-1].way:.3f} mm, {found[-1].force:.2f}, {item}")
    ways = [one.way for one in found]
    report.table(
        f"Random objects gripped with {CREEP_EFFORT:g} N, carried through {options.creep} random "
        "motions at full speed",
        [{
            "objects": len(found), "held": sum(one.held for one in found),
            "crept more than 1 mm": sum(way > 1e-3 for way in ways),
            "creep, median [mm]": 1e3 * median(ways), "max [mm]": 1e3 * max(ways),
            "rotation, max [deg]": float(np.degrees(max(one.turn for one in found))),
            "force, max / limit": max(one.force for one in found),
        }],
        "Displacement of the object in the hand's frame, largest after any motion. Force at the "
        "tool as estimated in all motions; at the limit a free motion of a task stops.",
    )  # fmt: skip


@benchmark("Grasps by force", objects=100,
           creep=(int, "number of motions at full speed; measure the creep instead"),
           first=(0, "number of objects to skip, in measurements of creep"))  # fmt: skip
def main(report: Report, options: Options) -> None:
    """Measure and print."""
    if options.creep:
        creeps(report, options)
        return
    rows = list[Row]()
    for mode, (settings, max_effort) in MODES.items():
        rng, found = np.random.default_rng(5), []
        for k in range(options.objects):
            found.append(carry(random_item(rng), settings, max_effort, k))
            progress(f"{mode}: {k + 1} of {options.objects}, {found[-1]}")
        drops = [one for one in found if one.dropped]
        kept = [one for one in found if not one.dropped]
        rows.append({
            "force": mode, "objects": len(found), "gripped": sum(one.gripped for one in found),
            "carried": len(kept), "dropped": len(drops),
            "drops noticed": sum(one.noticed for one in drops),
            "false alarms": sum(one.noticed for one in kept),
            "force at the end, median [N]": median(one.force for one in kept),
        })  # fmt: skip
    report.table(
        f"Random objects of 0.05 to 1.2 kg, friction 0.2 to 1.0, gripped with {FORCE:g} N", rows,
        f"Carried along plans at {100 * SPEED:g} % of velocity and acceleration limits. The "
        f"controller assumes a friction of {GraspSettings().friction:g}. False alarms: "
        "objects that were carried, although reported as lost or overloaded.",
    )  # fmt: skip
