# SPDX-License-Identifier: Apache-2.0
"""Fixtures shared by several test files, created once per file."""

import pytest
from joint_client import JointClient
from navigation_client import NavigationClient
from scripted_base import ScriptedBase


@pytest.fixture(scope="module")
def controlled_arm(module_suite, module_client):
    """A Franka without physics and its controller."""
    module_suite.node("mock_sim", robots=["franka"], update_rate=100.0)
    module_suite.node(
        "articulation_controller", robot="franka", use_sim_time=True, update_rate=100.0
    )
    arm = JointClient(module_client)
    arm.wait_for()
    yield arm
    arm.close()


@pytest.fixture(scope="module")
def moved():
    """A base whose odometry follows its commands."""
    made = ScriptedBase()
    yield made
    made.close()


@pytest.fixture(scope="module")
def navigator(module_suite, module_client, moved):
    """A JetBot's navigator."""
    module_suite.node("base_navigator", robot="jetbot", odom_timeout=2.0)
    made = NavigationClient(module_client)
    made.wait_for()
    yield made
    made.close()
