# SPDX-License-Identifier: Apache-2.0
"""Message packages that the nodes import are dependencies, and the doctor checks them."""

from __future__ import annotations

import functools
import re
import xml.etree.ElementTree as ET
from pathlib import Path

from motion_nodes.ros.environment import MESSAGE_PACKAGES

ROOT = Path(__file__).parents[2]
_IMPORT = re.compile(r"^ *from (?!rclpy)(\w+)\.(?:msg|srv|action) import", re.MULTILINE)


@functools.cache
def imported() -> set[str]:
    """Return the packages of messages, services and actions that modules import."""
    files = (ROOT / "motion_nodes").rglob("*.py")
    return {package for file in files for package in _IMPORT.findall(file.read_text("utf-8"))}


def test_the_doctor_checks_every_message_package():
    assert set(MESSAGE_PACKAGES) == imported()


def test_rosdep_installs_every_message_package():
    xml = ET.parse(ROOT / "package.xml").getroot()
    assert imported() <= {entry.text for entry in xml.findall("exec_depend")}
