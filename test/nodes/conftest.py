# SPDX-License-Identifier: Apache-2.0
"""Fixtures shared by several test files, created once per file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from joint_client import JointClient
from ros_client import RosClient


@pytest.fixture(scope="module")
def controlled_arm(module_suite: Any, module_client: RosClient) -> Iterator[JointClient]:
    """A Franka without physics and its controller."""
    module_suite.node("mock_sim", robots=["franka"], update_rate=100.0)
    module_suite.node(
        "articulation_controller", robot="franka", use_sim_time=True, update_rate=100.0
    )
    arm = JointClient(module_client)
    arm.wait_for()
    yield arm
    arm.close()
