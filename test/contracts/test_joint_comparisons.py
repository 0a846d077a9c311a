# SPDX-License-Identifier: Apache-2.0
"""Every comparison of joint positions in the package, and what it uses.

Positions of continuous joints are equal modulo a turn, so states, starts, goals, constraints,
tolerances and postures are compared by ``JointTurns``. A plain difference of two positions is
allowed where it is listed in ``joint_comparisons.yaml``, with the reason why both are in the same
turn. A new one fails here: use ``limits.turns`` or, after a review, add it.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import yaml

import motion_nodes

ROOT = Path(motion_nodes.__file__).parent
LIST = Path(__file__).with_name("joint_comparisons.yaml")
ROOMS = (
    "api", "cli", "nodes", "ros", "core/control", "core/ik", "core/planning", "core/reactive",
    "core/robot", "core/trajectory", "extras/agent_tools", "extras/compat", "extras/formats",
    "extras/hardware", "extras/policies", "extras/tasks", "extras/viewer",
)  # fmt: skip
POSITIONS = re.compile(
    r"^(q\d?|Q|q_next|seen|positions?|joints?|current|measured|reference(_q|_position)?|posture"
    r"|solutions?|first|last|start|goals?|begin|present|given|here|found|known|before|after|ahead"
    r"|path|rows?|points|target|desired|default|now|values|value|end|ends|_?limiter)$"
)
MEASURES = {"abs", "norm", "fabs", "dist", "hypot"}
CLOSE = {"allclose", "isclose", "array_equal"}
CALLS = re.compile(rf"\b({'|'.join(MEASURES | CLOSE)})\(")
REASONS = {
    "same turn", "limit", "own path", "no joints", "modulo", "shifted",
}  # fmt: skip


def names_in(node: ast.AST) -> set[str]:
    """Return the last identifiers of a side of a comparison."""
    found = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            found.add(part.id)
        elif isinstance(part, ast.Attribute):
            found.add(part.attr)
    return found


def compares(left: ast.AST, right: ast.AST) -> bool:
    """Return whether both sides can be joint positions."""
    return all(any(POSITIONS.match(name) for name in names_in(side)) for side in (left, right))


def comparisons(text: str) -> Iterator[str]:
    """Yield the source of each plain comparison of positions, within its function."""

    def visit(node: ast.AST, function: str) -> Iterator[str]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function = node.name
        if isinstance(node, ast.Call):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            inside = [
                part
                for argument in node.args
                for part in ast.walk(argument)
                if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Sub)
            ]
            plain = name in MEASURES and any(compares(p.left, p.right) for p in inside)
            close = name in CLOSE and len(node.args) > 1 and compares(*node.args[:2])
            if plain or close:
                yield f"{function}: {ast.unparse(node)}"
                return
        for child in ast.iter_child_nodes(node):
            yield from visit(child, function)

    yield from visit(ast.parse(text), "")


def found_in_package() -> Counter[str]:
    """Return the comparisons of all rooms."""
    return Counter(
        f"{file.relative_to(ROOT).as_posix()}: {one}"
        for room in ROOMS
        for file in sorted((ROOT / room).rglob("*.py"))
        if CALLS.search(text := file.read_text())
        for one in comparisons(text)
    )


def test_every_plain_comparison_of_positions_is_reviewed():
    listed, found = yaml.safe_load(LIST.read_text()), found_in_package()
    new = sorted(set(found) - set(listed))
    assert not new, f"compare by limits.turns, or review: {new}"
    gone = sorted(set(listed) - set(found))
    assert not gone, f"these lines are no longer there: {gone}"
    assert {text.split(":")[0] for text in listed.values()} <= REASONS


def test_the_scan_finds_plain_comparisons_and_passes_those_modulo_a_turn():
    plain = """
def start(self, current, given):
    if np.abs(current - given).max() > 0.1: ...
    if any(abs(q[i] - goal[i]) > 0.1 for i in range(3)): ...
    if np.linalg.norm(self.reference_q - robot.q) > 0.1: ...
    if np.allclose(here, goal): ...
"""
    assert len(list(comparisons(plain))) == 4
    good = """
def start(self, current, given):
    if self.limits.turns.distance(current, given).max() > 0.1: ...
    if np.abs(self.turns.difference(q, goal)).max() > 0.1: ...
    if np.linalg.norm(force - weight) > 0.1: ...
"""
    assert not list(comparisons(good))


def test_every_reader_of_joint_states_unwraps_continuous_joints():
    texts = {file: file.read_text() for file in ROOT.rglob("*.py")}
    readers = {file: text for file, text in texts.items() if "JointStateReader(" in text}
    assert readers
    for file, text in readers.items():
        for node in ast.walk(ast.parse(text)):
            if getattr(getattr(node, "func", None), "id", "") != "JointStateReader":
                continue
            given = {keyword.arg for keyword in node.keywords}
            assert "limits" in given or len(node.args) > 4, f"{file}:{node.lineno}"
