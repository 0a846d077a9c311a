# SPDX-License-Identifier: Apache-2.0
"""Pick and place by the task server in random tabletop scenes in MuJoCo.

Run: ``python benchmarks/bench_tasks.py`` (about a minute per scene). A Franka with 2 to 5 boxes,
cylinders and spheres of random size at random positions within reach; a sentence, sent over ROS
from another process, puts one object on another. Success, by the true poses of the simulation: the
object rests on its target, and no other object is displaced. After some scenes a new suite starts
with new objects.

``--disturbances 200`` disturbs each scene once, at a random time: the target is moved, turned,
removed, or gets a neighbour while it is approached; the held object is taken away or pulled out at
rest, in "go home", in a motion of another client, on its way to its place, while it is poured from,
or while the base drives. Counted: tasks done, or ended with a reason; a status that says "held"
while the hand is empty, or "succeeded" while the task is not done; the time until a loss is known;
the largest force beside the grip.

``--mobile`` does both with a Franka on a Nova Carter, which brings a cube from one top to another;
``--first 20`` continues after twenty scenes.
``--factory 30`` runs the four arms of ``motion demo factory`` for 30 simulated minutes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from harness import Options, Report, benchmark, median, motion_up, progress
from disturbed_tasks import disturbances
from ros_client import RosClient
from task_scenes import DISPLACED, RESTS, SCENES_PER_SUITE, SETTLE, Cell, Scene, fault_of, suite_of


class Outcome(NamedTuple):
    """Result of a scene."""

    fault: str
    """Fault of the result; empty: none."""
    reported: bool
    """Whether the task server reported success."""
    pick: float
    """Simulated time until the object was lifted [s]."""
    task: float
    repairs: int
    """Number of failed attempts of skills."""


def attempt(cell: Cell, scene: Scene) -> Outcome:
    """Arrange a scene, run the sentence, and check the result."""
    cell.run("go home")
    cell.arrange(scene)
    before, began = cell.objects, cell.seen.time
    status, pick = cell.run(scene.sentence)
    took = cell.seen.time - began
    cell.client.spin(SETTLE)
    fault = fault_of(scene, before, cell.objects)
    if fault and status["reason"]:
        fault = f"{fault}; {status['reason']}"
    failures = [text for text in status.get("events", ()) if " failed: " in text]
    for text in failures:
        progress(f"  {text}")
    return Outcome(fault, status["state"] == "succeeded", pick, took, len(failures))


def factory(report: Report, minutes: float) -> None:
    """Repeat the rounds of the demo "factory" for a simulated time; MuJoCo reports contacts.

    A failed round ends its suite; the next round starts with a new suite.
    """
    import rclpy

    from motion_nodes.cli.demo import run_show
    from motion_nodes.nodes.demo.arm import DemoFindings
    from motion_nodes.nodes.demo.shows import show_of
    from motion_nodes.nodes.demo.task_shows import STACK, FactoryClient, show_factory, stack_checks
    from motion_nodes.ros import signals

    rclpy.shutdown()  # demos initialize rclpy
    rounds: list[tuple[float, int, bool, bool]] = []
    reasons, contacts = list[str](), list[int]()

    def unfinished() -> bool:
        return sum(r[0] for r in rounds) < 60.0 * minutes and not signals.STOP.is_set()

    def play(client: FactoryClient, findings: DemoFindings) -> None:
        parameters = RosClient("bench_factory")
        for name in client.arms:
            # On a shared machine joint states may pause for one or two seconds.
            node = f"/{name}/joint_trajectory_controller"
            assert parameters.set_parameters(node, state_timeout=5.0).successful
        parameters.close()
        while unfinished() and client.spin(0.0):
            start, one = client.time, DemoFindings()
            show_factory(client, one)
            if signals.STOP.is_set():
                break
            stacked = sum(ok for _, ok in stack_checks(client.cubes))
            # The red cube is passed in turns 0 and 1.
            rounds.append((client.time - start, stacked, client.turn > 1, one.ok))
            reasons.extend(t for t in one.lines if t.startswith("[FAILED"))
            progress(f"{len(rounds)}: {sum(r[0] for r in rounds):.0f} s, {rounds[-1]}")
            if not one.ok:
                break
        contacts.append(client.contacts)
        reasons.extend(text for arm in client.arms.values() for text in arm.tasks.failed_attempts)

    while unfinished():
        run_show(replace(show_of("factory"), play=play, ready_timeout=900.0), headless=True)
    times, stacked, passed, done = zip(*rounds, strict=True)
    note = "Contacts, by MuJoCo: of links with other links, the floor, and cubes they do not hold."
    report.table("Rounds of passing one cube and stacking four", [{
        "simulated [min]": sum(times) / 60.0, "rounds": len(rounds), "done": sum(done),
        "cubes passed": sum(passed), "cubes stacked": sum(stacked), "of": len(STACK) * len(rounds),
        "suites": len(contacts), "contacts": sum(contacts), "round, median [s]": median(times),
    }], note)  # fmt: skip
    print("\n".join(("failures, also those that were repaired:", *reasons)))


def sentences(report: Report, options: Options) -> None:
    """Run a sentence in each scene, several scenes per suite, and check the results."""
    found, walls, end = list[Outcome](), list[float](), options.first + options.scenes
    for begin in range(options.first, end, SCENES_PER_SUITE):
        words, items, scene_of, _ = suite_of((options.seed, begin), mobile=options.mobile)
        with motion_up(*words):
            cell = Cell(items, options.speed)
            for number in range(begin, min(end, begin + SCENES_PER_SUITE)):
                scene = scene_of(number)
                found.append(attempt(cell, scene))
                walls.append(cell.first_step)
                count = len(scene.places)
                progress(f"{number}: {scene.sentence}, {count} objects: {found[-1]}, "
                         f"{walls[-1]:.1f} s of real time")  # fmt: skip
            cell.client.close()
    good = [one for one in found if not one.fault]
    report.table("Pick and place by a sentence, judged by the simulation's poses", [{
        "scenes": len(found), "done": len(good), "done [%]": 100.0 * len(good) / len(found),
        "reported done": sum(one.reported for one in found),
        "reported done, but not": sum(one.reported and bool(one.fault) for one in found),
        "failed attempts": sum(one.repairs for one in found),
        "pick, median [s]": median(one.pick for one in good),
        "in real time [s]": median(walls),
        "task, median [s]": median(one.task for one in good),
        "task, max [s]": max((one.task for one in good), default=None),
    }], f"Done: the object rests on its target (within {1e3 * RESTS:.0f} mm of its top), and no "
        f"other object was displaced by more than {1e3 * DISPLACED:.0f} mm. Simulated times, of "
        "done tasks, from the sentence. Failed attempts were repaired by the task server, or not.",
    )  # fmt: skip
    for i, one in enumerate(found):
        if one.fault:
            print(f"scene {options.first + i}: {one.fault}")


@benchmark("Tasks in simulation", ros=True, scenes=20, seed=1,
           first=(0, "number of the first scene; suites begin at multiples of 5"),
           mobile=(False, "a Franka on a Nova Carter brings a cube from one top to another"),
           speed=(1.0, "ratio of simulated to real time"),
           disturbances=(int, "number of scenes with a disturbance each, instead"),
           factory=(float, "minutes with four arms at one table instead of scenes"))  # fmt: skip
def main(report: Report, options: Options) -> None:
    """Measure and print."""
    if options.factory:
        factory(report, options.factory)
    elif options.disturbances:
        disturbances(report, options)
    else:
        sentences(report, options)
