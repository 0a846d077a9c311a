# SPDX-License-Identifier: Apache-2.0
"""A process of a supervised suite that receives nothing of new publishers."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from ros_client import RosClient
from supervised_suite import CONTAINER, FAR, SIMULATION, SupervisedSuite

from motion_nodes.ros.transports import CHOSEN, RANGE, VARIABLE

pytestmark = pytest.mark.timeout(400)


@pytest.mark.long
def test_a_process_that_new_publishers_do_not_reach_is_replaced(
    suite: Any, client: RosClient, tmp_path: Path
) -> None:
    # As if its port of the shared memory transport had been judged dead: publishers that start
    # later create another one under its name, and the process receives nothing of them.
    shared_memory = dict.fromkeys(CHOSEN, "") | {VARIABLE: "DEFAULT", RANGE: "LOCALHOST"}
    running = SupervisedSuite(suite, client, tmp_path / "params.yaml", **shared_memory)
    running.wait_for()
    pid, back = running.pid(CONTAINER), running.times_back(CONTAINER)
    links = [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
    ports = [Path(link.removesuffix("_el")) for link in links if "fastrtps_port" in link]
    if not ports:
        pytest.skip("the middleware does not use shared memory")
    for port in ports:
        port.unlink(missing_ok=True)
    running.send(SIMULATION, signal.SIGKILL)
    running.until_said(f"motion: {CONTAINER}:? deaf, no message on ")
    running.replaced(CONTAINER, back)
    running.ready()
    running.goes(FAR)
    running.arm.close()
