# SPDX-License-Identifier: Apache-2.0
"""What a callback costs in the executor of the nodes, beside rclpy's executor.

Run: ``python benchmarks/bench_executor.py`` (half a minute).

One node with the endpoints of the joint controller of a Franka. Another thread triggers a guard
condition and waits until its callback has run, then until the executor sleeps again: processor time
of the executor's thread per callback. The executors take turns.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from harness import Options, Report, benchmark, median, progress
from rclpy.executors import SingleThreadedExecutor

from motion_nodes.nodes.articulation_controller import ArticulationControllerNode
from motion_nodes.ros.concurrency.rclpy_internals import LeanExecutor

PAUSE = 0.003  # Time for the executor to sleep again after a callback [s]
EXECUTORS: dict[str, Callable[[], Any]] = {
    "rclpy SingleThreadedExecutor": SingleThreadedExecutor,
    "motion_nodes LeanExecutor": LeanExecutor,
}


def callback_time(node: Any, make: Callable[[], Any], callbacks: int) -> float:
    """Return the processor time of the executor's thread per callback [us]."""
    executor, ran, ended = make(), threading.Event(), threading.Event()
    executor.add_node(node)
    spent = [0.0]

    def spin() -> None:
        while not ended.is_set():
            executor.spin_once(timeout_sec=60.0)
            spent[0] = time.thread_time()

    guard = node.create_guard_condition(ran.set)
    spinner = threading.Thread(target=spin)
    spinner.start()
    for number in range(callbacks + 20):
        if number == 20:
            begin = spent[0]
        ran.clear()
        guard.trigger()
        ran.wait()
        time.sleep(PAUSE)
    taken = spent[0] - begin
    ended.set()
    guard.trigger()
    spinner.join()
    node.destroy_guard_condition(guard)
    executor.remove_node(node)
    executor.shutdown()
    return 1e6 * taken / callbacks


@benchmark("Executors", ros=True, rounds=5, callbacks=200)
def main(report: Report, options: Options) -> None:
    """Measure and print."""
    node = ArticulationControllerNode(["--ros-args", "-p", "robot:=franka"])
    node.trigger_configure()
    times: dict[str, list[float]] = {name: [] for name in EXECUTORS}
    for number in range(options.rounds):
        progress(f"round {number + 1}")
        for name, make in EXECUTORS.items():
            times[name].append(callback_time(node, make, options.callbacks))
    usual = median(times["rclpy SingleThreadedExecutor"])
    report.table("Processor time per callback", [
        {"executor": name, "least [us]": min(found), "median [us]": median(found),
         "ratio": median(found) / usual} for name, found in times.items()
    ], f"{len(list(node.services))} services, {len(list(node.subscriptions))} subscriptions, "
       f"{len(list(node.publishers))} publishers, {len(list(node.waitables))} actions and events.",
    )  # fmt: skip
    node.destroy_node()
