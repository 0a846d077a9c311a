# SPDX-License-Identifier: Apache-2.0
"""Jobs that other threads hand to the executor."""

from __future__ import annotations

from rclpy.node import Node

from motion_nodes.ros.concurrency.queues import ExecutorQueue


def test_a_job_that_runs_the_others_does_not_recurse(ros):
    """Thousands of jobs wait after a delay of the executor, and each may run the others."""
    node = Node("jobs", use_global_arguments=False)
    jobs, done = ExecutorQueue(node), []

    def job() -> None:
        jobs.run()
        done.append(1)

    for _ in range(5000):
        jobs.submit(job)
    jobs.submit(lambda: 1 / 0)
    jobs.submit(job)
    jobs.run()
    assert len(done) == 5001
    jobs.destroy()
    node.destroy_node()
