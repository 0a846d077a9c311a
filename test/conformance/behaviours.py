# SPDX-License-Identifier: Apache-2.0
"""Behaviors that the peers' own tests state, each declared at the test that shows it.

    @behaviour(
        "joint_trajectory_controller",
        "joints that a goal omits hold their position",
        source="test_trajectory_controller.cpp: test_missing_positions_message_accepted",
    )
    def test_omitted_joints_hold(...): ...

A test may carry several. ``docs/conformance.md`` is generated from the declarations by
``tools/write_conformance.py``, which reads them without importing the tests.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

Test = TypeVar("Test", bound=Callable[..., Any])


class Verdict(StrEnum):
    """How the suite compares with the peer."""

    SAME = "same"
    """The suite does the same by default."""
    BY_PARAMETER = "by parameter"
    """The suite does the same with the parameter that ``how`` names."""
    OURS = "ours on purpose"
    """The suite does something else; ``why`` states the reason."""
    NOT_OFFERED = "not offered"
    """The suite refuses it or lacks it; ``why`` states the reason."""


SAME, BY_PARAMETER, OURS, NOT_OFFERED = Verdict


@dataclass(frozen=True)
class Behaviour:
    """One behavior of a peer."""

    peer: str
    """Package, controller, or capability, such as ``diff_drive_controller``."""
    text: str
    """The behavior in our own words, without a full stop."""
    source: str
    """File and name of the peer's test or source."""
    verdict: Verdict = SAME
    why: str = ""
    """Why the default differs, or why it is not offered."""
    how: str = ""
    """The setting that gives the peer's behavior."""
    test: str = ""
    """Test of ours that shows it, ``file::function``; empty for what is not offered."""

    def __post_init__(self) -> None:
        """Require the texts that the verdict needs."""
        if self.verdict is BY_PARAMETER and not self.how:
            raise ValueError(f"'{self.text}': 'how' must name the parameter")
        if self.verdict in (OURS, NOT_OFFERED) and not self.why:
            raise ValueError(f"'{self.text}': 'why' must state the reason")


def behaviour(
    peer: str,
    text: str,
    *,
    source: str,
    verdict: Verdict = SAME,
    why: str = "",
    how: str = "",
) -> Callable[[Test], Test]:
    """Declare the behavior that the decorated test shows; all arguments are literals."""
    Behaviour(peer, text, source, verdict, why, how)
    return lambda test: test


def not_offered(peer: str, text: str, *, source: str, why: str) -> None:
    """Declare a behavior without a test, as the suite does not offer it."""
    Behaviour(peer, text, source, NOT_OFFERED, why)


def _constants(tree: ast.Module) -> dict[str, Any]:
    """Return the texts that a module assigns to names, such as that of its peer."""
    return {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _value(node: ast.expr, constants: dict[str, Any]) -> Any:
    """Return a literal, a constant of the module, texts joined by +, or a verdict."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _value(node.left, constants) + _value(node.right, constants)
    if isinstance(node, ast.JoinedStr):
        parts = [v.value if isinstance(v, ast.FormattedValue) else v for v in node.values]
        return "".join(str(_value(part, constants)) for part in parts)
    if isinstance(node, ast.Name) and node.id in constants:
        return constants[node.id]
    if isinstance(node, ast.Name | ast.Attribute):
        return Verdict[node.id if isinstance(node, ast.Name) else node.attr]
    return ast.literal_eval(node)


def _declared(call: ast.expr, test: str, constants: dict[str, Any]) -> Iterator[Behaviour]:
    """Yield the behavior that a call declares, if it does."""
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        return
    if call.func.id not in ("behaviour", "not_offered"):
        return
    given = [_value(each, constants) for each in call.args]
    words = dict(zip(("peer", "text"), given, strict=False))
    words |= {str(word.arg): _value(word.value, constants) for word in call.keywords}
    if call.func.id == "not_offered":
        yield Behaviour(verdict=NOT_OFFERED, **words)
    else:
        yield Behaviour(test=test, **words)


def collect(folder: Path) -> list[Behaviour]:
    """Return the behaviors that the test files of a folder declare, in their order.

    Args:
        folder: Folder with ``test_*.py`` files, searched recursively.

    Raises:
        ValueError: a behavior is declared twice, or without its reason.
    """
    found: list[Behaviour] = []
    for file in sorted(folder.rglob("test_*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        constants = _constants(tree)
        for node in tree.body:
            name = f"{file.name}::{getattr(node, 'name', '')}"
            calls = getattr(node, "decorator_list", [])
            if isinstance(node, ast.Expr):
                calls = [node.value]
            for call in calls:
                found += _declared(call, name, constants)
    seen: set[tuple[str, str]] = set()
    for each in found:
        if (each.peer, each.text) in seen:
            raise ValueError(f"{each.peer}: '{each.text}' is declared twice")
        seen.add((each.peer, each.text))
    return found
