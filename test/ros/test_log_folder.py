# SPDX-License-Identifier: Apache-2.0
"""Log files of ROS in folders that can and cannot be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from motion_nodes.ros.environment import NO_LOG_FILES, init_arguments, log_folder


def test_the_folder_is_that_of_rcl(monkeypatch):
    for name in ("ROS_LOG_DIR", "ROS_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert log_folder() == Path("/home/somebody/.ros/log")
    monkeypatch.setenv("ROS_HOME", "/data")
    assert log_folder() == Path("/data/log")
    monkeypatch.setenv("ROS_LOG_DIR", "~/logs")
    assert log_folder() == Path("/home/somebody/logs")


def test_a_folder_that_can_be_written_changes_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv("ROS_LOG_DIR", str(tmp_path / "new"))
    assert init_arguments(["a"]) == ["a"]
    assert not list((tmp_path / "new").iterdir())


@pytest.mark.parametrize("folder", ["/proc/none", "/dev/null/log"])
def test_a_folder_that_cannot_be_written_means_no_log_files(monkeypatch, capsys, folder):
    monkeypatch.setenv("ROS_LOG_DIR", folder)
    assert init_arguments(["a"]) == ["a", *NO_LOG_FILES]
    assert folder in capsys.readouterr().err
