# SPDX-License-Identifier: Apache-2.0
"""The installed message packages are wire-compatible with the released ones."""

import importlib
import json
import os
import sys
from pathlib import Path

import pytest

rclpy = pytest.importorskip("rclpy", reason="ROS 2 is not installed")

if os.environ.get("ROS_DISTRO", "jazzy") != "jazzy":
    reason = f"the contract is that of Jazzy; ROS 2 {os.environ['ROS_DISTRO']} is sourced"
    pytest.skip(reason, allow_module_level=True)

GOLDEN = json.loads((Path(__file__).parent / "golden_rihs01.json").read_text())
HASHES = {**GOLDEN["released"], **GOLDEN["computed"]}


def installed_hash(name):
    prefixes = [*os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep), sys.prefix]
    paths = [Path(prefix) / "share" / f"{name}.json" for prefix in prefixes if prefix]
    path = next((p for p in paths if p.is_file()), None)
    assert path, f"{name} is not installed; run: motion setup"
    hashes = json.loads(path.read_text())["type_hashes"]
    return next(entry["hash_string"] for entry in hashes if entry["type_name"] == name)


def python_type(name):
    """Return the class for "package/kind/Name" or one part of it, "package/kind/Name.Goal"."""
    path, _, part = name.partition(".")
    package, kind, type_name = path.split("/")
    cls = getattr(importlib.import_module(f"{package}.{kind}"), type_name)
    return getattr(cls, part) if part else cls


@pytest.mark.parametrize("name", sorted(HASHES))
def test_an_installed_type_has_the_hash_of_the_released_one(name):
    assert installed_hash(name) == HASHES[name]


def test_what_the_compiled_messages_announce_over_dds_has_the_released_hash():
    context = rclpy.Context()
    rclpy.init(context=context)
    node = rclpy.create_node("hashes", context=context)
    try:
        announced = {}
        for name in HASHES:
            if "/msg/" in name:
                publisher = node.create_publisher(python_type(name), name, 1)
                (endpoint,) = node.get_publishers_info_by_topic(name)
                announced[name] = str(endpoint.topic_type_hash)
                node.destroy_publisher(publisher)
    finally:
        node.destroy_node()
        context.shutdown()
    assert announced == {name: HASHES[name] for name in announced}
    assert len(announced) > 80


@pytest.mark.parametrize("name", sorted(GOLDEN["constants"]))
def test_an_installed_type_has_the_constants_of_the_released_one(name):
    cls = python_type(name)
    expected = GOLDEN["constants"][name]
    found = {constant: getattr(cls, constant) for constant in expected}
    found = {k: int.from_bytes(v) if isinstance(v, bytes) else v for k, v in found.items()}
    assert found == expected


def test_a_default_value_comes_with_a_new_message():
    assert python_type("control_msgs/msg/MotionPrimitive")().type == -1


@pytest.mark.parametrize("name", sorted(HASHES))
def test_every_type_can_be_made_and_its_type_support_loaded(name):
    cls = python_type(name)
    cls.__import_type_support__()  # resolves the symbols of the compiled library
    assert cls._TYPE_SUPPORT is not None
    parts = {"msg": [cls], "srv": ["Request", "Response"], "action": ["Goal", "Result", "Feedback"]}
    for part in parts[name.split("/")[1]]:
        message = getattr(cls, part)() if isinstance(part, str) else part()
        assert message == type(message)()
