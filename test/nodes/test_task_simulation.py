# SPDX-License-Identifier: Apache-2.0
"""Tasks in MuJoCo over DDS with objects moved meanwhile, judged by true poses."""

import numpy as np
import pytest
from ros_client import RosClient
from simulated_objects import SimulatedObjects
from std_msgs.msg import String
from task_client import SERVER, TaskClient

pytestmark = pytest.mark.timeout(900)
OBJECTS = (
    "red_cube:=box:0.04,0.04,0.04:0.1@0.45,0.15,0.02",
    "shelf:=box:0.2,0.2,0.1:20@0.5,-0.2,0.05",
)


class Table:
    """The task server and the objects of the simulation."""

    def __init__(self, client: RosClient) -> None:
        self.tasks = TaskClient(client)
        self.objects = SimulatedObjects(client)

    def begin(self, text: str, phase: str) -> None:
        """Start a task, and wait until it is in a phase."""
        number = self.tasks.status["number"]
        self.tasks.commands.publish(String(data=text))
        self.tasks.until(lambda s: s["number"] > number and s.get("phase") == phase, 120.0)


@pytest.fixture(scope="module")
def table(module_suite, module_client):
    without = ("rmpflow_policy", "trajectory_generator", "controller_manager", "ik_service")
    module_suite.bring_up("franka", tasks=True, objects=OBJECTS, without=without, rate=100.0)
    module_client.wait_for_diagnosis(SERVER, "", within=90.0)
    made = Table(module_client)
    made.tasks.until(lambda s: {"red_cube", "shelf"} <= set(s["objects"]))
    return made


def test_a_dropped_object_is_picked_up_again_and_placed(table):
    table.begin("put the red cube on the shelf", "let down")
    table.objects.move("red_cube", 0.45, 0.2, 0.03)
    table.tasks.until(lambda s: s["state"] != "running", 200.0)
    status = table.tasks.status
    assert status["state"] == "succeeded", status
    assert any("dropped" in event for event in status["events"])
    at = table.objects.position("red_cube")
    assert at[2] == pytest.approx(0.12, abs=0.005)
    assert np.abs(at[:2] - [0.5, -0.2]).max() < 0.1
    assert table.objects.position("shelf")[:2] == pytest.approx([0.5, -0.2], abs=0.005)


@pytest.mark.long
def test_an_object_that_is_taken_away_ends_the_task_within_its_budget(table):
    table.begin("pick up the red cube", "approach")
    table.objects.move("red_cube", -1.0, 1.0, 0.03)
    table.tasks.until(lambda s: s["state"] != "running", 200.0)
    status = table.tasks.status
    assert status["state"] == "failed"
    assert "reach" in status["reason"]
    assert sum("begins" in event for event in status["events"]) <= 6
    assert status["held"] is None
