# SPDX-License-Identifier: Apache-2.0
"""Files that are nested too deeply, expand by references, or are too long are rejected."""

from __future__ import annotations

import pytest

from motion_nodes.core.robot import yaml_schema
from motion_nodes.core.robot.files.path_spec_yaml import parse_path_spec
from motion_nodes.core.robot.urdf import read_urdf
from motion_nodes.core.robot.yaml_schema import parse_yaml
from motion_nodes.errors import InvalidDescription
from motion_nodes.extras.formats.kinematic_file import read_kinematic_text

LAUGHS = "a0: &a0 [x, x, x]\n" + "\n".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)
)
ENTITIES = (
    "<!DOCTYPE r [<!ENTITY a '"
    + "x" * 100
    + "'>"
    + "".join(f"<!ENTITY {chr(97 + i)} '{('&' + chr(96 + i) + ';') * 20}'>" for i in range(1, 9))
    + "]>"
)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: " + "[" * 500 + "]" * 500, "nested"),
        ("a: " + "{a: " * 500 + "1" + "}" * 500, "nested"),
        ("\n".join(" " * i + "a:" for i in range(500)), "nested"),
        ("a0: &a0 [x]\n" + "\n".join(f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 99)), "nested"),
        ("- " * 400 + "1", "nested"),
        (LAUGHS, "aliases counted"),
        ("a: &a [*a]", "contains itself"),
        ("a: &a {b: *a}", "contains itself"),
        ("a: *b", "undefined alias"),
        ("a: " + "9" * 400, "out of range"),
    ],
)
def test_yaml_that_would_not_end(text, reason):
    with pytest.raises(InvalidDescription, match=reason) as refusal:
        parse_yaml(text, "x.yaml")
    assert str(refusal.value).startswith("x.yaml, line ")
    assert len(str(refusal.value)) < 300
    with pytest.raises(InvalidDescription):
        parse_path_spec(text, "path_spec")


def test_yaml_within_the_bounds_is_read():
    deep = "a: " + "[" * 60 + "1" + "]" * 60
    assert str(parse_yaml(deep, "x")).count("[") == 60
    assert parse_yaml("a: &a [1, 2]\nb: [*a, *a]", "x") == {"a": [1, 2], "b": [[1, 2], [1, 2]]}


def test_yaml_that_is_too_long(monkeypatch):
    monkeypatch.setattr(yaml_schema, "MAX_CHARACTERS", 100)
    with pytest.raises(InvalidDescription):
        parse_yaml("a: " + "x" * 100, "x.yaml")


def test_json_that_is_nested_deeply():
    with pytest.raises(InvalidDescription):
        read_kinematic_text("[" * 100_000 + "]" * 100_000, "robot", "x.kinematic.json")


@pytest.mark.parametrize(
    "text",
    [
        '<robot name="r">' + "<a>" * 2000 + "</a>" * 2000 + "</robot>",
        ENTITIES + '<robot name="&i;"><link name="l"/></robot>',
    ],
)
def test_xml_that_would_not_end(text):
    with pytest.raises(InvalidDescription, match="XML"):
        read_urdf(text)
