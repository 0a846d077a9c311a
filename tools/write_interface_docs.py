# SPDX-License-Identifier: Apache-2.0
"""Writes docs/interfaces.md and docs/parameters.md from the declarations of the suite.

``python tools/write_interface_docs.py`` writes them; ``--check`` only reports whether they are
current (exit code 1 if not). Interfaces come from test/contracts/interfaces.yaml, which a test
compares with the running graph, parameters from the nodes' parameter dataclasses.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "test" / "contracts" / "interfaces.yaml"
DO_NOT_EDIT = "<!-- Written by tools/write_interface_docs.py; edit its sources instead. -->"
COLUMNS = ("Name", "Type", "Default", "Unit", "Allowed", "Fixed at start", "What it does")
TYPE_NAMES = {"bool": "bool", "int": "int", "float": "float", "str": "string"}


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(c.replace("|", "\\|") for c in row) + " |" for row in rows]


def interfaces_page(nodes: Sequence[Mapping[str, Any]]) -> str:
    """Return docs/interfaces.md."""
    lines = [
        DO_NOT_EDIT,
        "# Interfaces",
        "",
        "Topics, services and actions of every node. `~/x` is private to the node, `x` moves with",
        "the robot's namespace, `/x` is the same for all. `ROBOT/x` exists for each robot of the",
        "node's list, under its namespace. `BASE` is the base controller of the robot's kind, such",
        "as `diff_drive_controller`. Not listed are the standard interfaces of rclpy's lifecycle",
        "nodes: parameter and lifecycle services, `/rosout`, `/parameter_events`, and `/clock` if",
        "`use_sim_time` is set.",
        "",
        "Subscriptions to streams are best effort and thus match publishers of any reliability;",
        "publishers are reliable and thus match all subscriptions.",
    ]
    for node in nodes:
        executables = ", ".join(f"`{name}`" for name in node["executables"])
        lines += ["", f"## {node['node']}", "", f"Executable: {executables}.", "", node["text"], ""]
        rows = [
            [f"`{e['name']}`", e["kind"], f"`{e['type']}`", quality(e), e["text"]]
            for e in node["endpoints"]
        ]
        lines += table(("Name", "Kind", "Type", "QoS", "What it does"), rows)
    return "\n".join(lines) + "\n"


def quality(entry: Mapping[str, Any]) -> str:
    """Return the quality of service of an endpoint as text."""
    if "qos" not in entry:
        return ""
    reliability, durability, depth = entry["qos"].split()
    latched = ", transient local" if durability == "transient_local" else ""
    return f"{reliability.replace('_', ' ')}{latched}, {depth}"


def parameters_page() -> str:
    """Return docs/parameters.md."""
    from motion_nodes.nodes.registry import NODES, node_class

    rows = {name: parameter_rows(node_class(name)) for name in NODES}
    nodes_of: dict[tuple[str, ...], list[str]] = {}
    for name, of_node in rows.items():
        for row in of_node:
            nodes_of.setdefault(row, []).append(name)
    common = {row: names for row, names in nodes_of.items() if len(names) > 1}
    lines = [
        DO_NOT_EDIT,
        "# Parameters",
        "",
        "A batch of values is accepted or rejected as a whole. Integers are accepted for floats.",
        "*The robot's* means that the default comes from the robot's description, *required* that",
        "there is none. In addition, every node has `autostart` (bool, true: configure and",
        "activate at start), `diagnostic_updater.period` (float, 1 s, fixed at start: period of",
        "the reports on /diagnostics) and `use_sim_time`.",
        "",
        "## Parameters of several nodes",
        "",
        *table((*COLUMNS, "Nodes"), [(*row, ", ".join(names)) for row, names in common.items()]),
    ]
    for name, of_node in rows.items():
        shared = [row[0] for row in of_node if row in common]
        own = [row for row in of_node if row not in common]
        lines += ["", f"## {name}", ""]
        if shared:
            lines += [f"Of [several nodes](#parameters-of-several-nodes): {', '.join(shared)}.", ""]
        lines += table(COLUMNS, own) if own else []
    return "\n".join(lines).rstrip() + "\n"


def parameter_rows(cls: Any) -> list[tuple[str, ...]]:
    """Return the rows of a node's parameters, without `use_sim_time` and the like."""
    of_robot = from_robot(cls)
    return [parameter_row(entry, of_robot) for entry in entries(cls)]


def entries(cls: Any) -> Sequence[Any]:
    """Return the declared parameters of a node class."""
    from motion_nodes.ros.parameters import declared

    return declared(cls.params_type)


def from_robot(cls: Any) -> set[str]:
    """Return the fields whose default comes from the robot's description."""
    from motion_nodes.core.robot.loader import load_robot
    from motion_nodes.errors import InvalidConfig

    fields: set[str] = set()
    for robot in ("franka", "jetbot", "kaya", "leatherback"):
        try:
            fields |= set(cls.robot_defaults(None, load_robot(robot)))
        except (AttributeError, InvalidConfig):
            continue
    return fields


def parameter_row(entry: Any, of_robot: set[str]) -> tuple[str, ...]:
    """Return the row of a parameter."""
    setting = entry.rules.setting
    return (
        f"`{entry.name}`",
        type_name(entry.kind),
        default_text(entry, of_robot),
        setting.unit,
        allowed_text(setting),
        "yes" if entry.rules.read_only else "",
        setting.doc,
    )


def type_name(kind: Any) -> str:
    """Return the type of a parameter as text."""
    lists = {tuple[str, ...]: "string", tuple[float, ...]: "float", tuple[int, ...]: "int"}
    if kind in lists:
        return f"list of {lists[kind]}"
    return TYPE_NAMES[kind.__name__]


def default_text(entry: Any, of_robot: set[str]) -> str:
    """Return the default of a parameter as text."""
    if entry.field in of_robot:
        return "the robot's"
    if entry.default is dataclasses.MISSING:
        return "required"
    value = entry.default
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and math.isnan(value):
        return "not set"
    if isinstance(value, tuple):
        items = (item if isinstance(item, str) else f"{item:g}" for item in value)
        return "[" + ", ".join(items) + "]"
    return f'"{value}"' if isinstance(value, str) else f"{value:g}"


def allowed_text(setting: Any) -> str:
    """Return the allowed values as text."""
    parts = []
    if setting.gt is not None:
        parts.append(f"> {setting.gt:g}")
    if setting.ge is not None:
        parts.append(f"≥ {setting.ge:g}")
    if setting.le is not None:
        parts.append(f"≤ {setting.le:g}")
    if setting.one_of is not None:
        parts.append(", ".join(setting.one_of))
    if setting.nan:
        parts.append("NaN: not set")
    return ", ".join(parts)


def pages() -> dict[Path, str]:
    """Return the text of each page."""
    nodes = yaml.safe_load(SOURCE.read_text(encoding="utf-8"))["nodes"]
    return {
        ROOT / "docs" / "interfaces.md": interfaces_page(nodes),
        ROOT / "docs" / "parameters.md": parameters_page(),
    }


def main(arguments: Sequence[str]) -> int:
    """Write the pages, or check them; return the exit code."""
    stale = []
    for path, text in pages().items():
        current = path.read_text(encoding="utf-8") if path.exists() else None
        if current == text:
            continue
        if "--check" in arguments:
            stale.append(path.name)
        else:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
    if stale:
        print(f"not current: {', '.join(stale)}; run python tools/write_interface_docs.py")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
