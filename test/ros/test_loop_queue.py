# SPDX-License-Identifier: Apache-2.0
"""Jobs of a loop: at most the given number, and none that another thread has run meanwhile."""

from __future__ import annotations

import threading

from patience import wait_until

from motion_nodes.ros.concurrency.queues import LoopQueue


def test_a_number_of_jobs_is_run_and_an_empty_queue_is_no_error():
    queue, done = LoopQueue(), list[int]()
    threads = [
        threading.Thread(target=queue.call, args=(lambda k=k: done.append(k), 10.0))
        for k in range(3)
    ]
    for number, thread in enumerate(threads, start=1):
        thread.start()
        wait_until(lambda n=number: len(queue) == n, "the job")
    queue.run(2)
    assert done == [0, 1]
    queue.run()
    queue.run(2)
    assert done == [0, 1, 2]
    for thread in threads:
        thread.join(10.0)
