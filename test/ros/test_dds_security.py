# SPDX-License-Identifier: Apache-2.0
"""With DDS security requested, nodes run with it or not at all."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from motion_nodes.errors import MotionError
from motion_nodes.ros.transports import check_security, explained

ON = {"ROS_SECURITY_ENABLE": "true"}
ENFORCED = {**ON, "ROS_SECURITY_STRATEGY": "Enforce", "ROS_SECURITY_KEYSTORE": "/keys"}


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        (ON, "ROS_SECURITY_STRATEGY"),
        ({**ENFORCED, "ROS_SECURITY_STRATEGY": "Permissive"}, "ROS_SECURITY_STRATEGY"),
        ({**ENFORCED, "ROS_SECURITY_KEYSTORE": ""}, "ROS_SECURITY_KEYSTORE"),
    ],
)
def test_security_that_would_not_be_there_is_refused(environment, named):
    with pytest.raises(MotionError, match=named):
        check_security(environment)


@pytest.mark.parametrize("environment", [{}, {"ROS_SECURITY_ENABLE": "false"}, ENFORCED])
def test_other_settings_are_accepted(environment):
    check_security(environment)


def test_a_node_does_not_start_unprotected(tmp_path):
    (tmp_path / "enclaves").mkdir()
    command = [sys.executable, "-m", "motion_nodes.nodes", "mock_sim", "--ros-args"]
    command += ["-p", "robots:=[jetbot]"]
    environment = {**os.environ, **ENFORCED, "ROS_SECURITY_KEYSTORE": str(tmp_path)}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert "cannot start" in ended.stderr


def test_what_the_wheels_lack_is_explained():
    assert "docs/security.md" in explained("Fast DDS doesn't have the security libraries")
    assert explained("another error") == "another error"
