# SPDX-License-Identifier: Apache-2.0
"""Every kernel module is imported by a test, or is an exception here with a reason."""

import ast
from pathlib import Path

KERNELS = Path(__file__).parents[2] / "motion_nodes" / "kernels"
TESTS = Path(__file__).parents[1]
EXCEPTIONS = {
    "motion_nodes.kernels.rmp.rmp_robot": "compared as a whole with NumPy: test/rmpflow",
}
"""Modules without a direct test, and why."""


def imported(path: Path) -> set[str]:
    """Return modules and names that a test file imports; none if it has no word "kernels"."""
    names: set[str] = set()
    text = path.read_text(encoding="utf-8")
    # Most have not, and parsing all files takes seconds.
    if "kernels" not in text:
        return names
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def test_each_kernel_module_is_imported_by_a_test():
    known = set().union(*(imported(path) for path in TESTS.rglob("*.py")))
    modules = {
        "motion_nodes.kernels." + ".".join(path.relative_to(KERNELS).with_suffix("").parts)
        for path in KERNELS.rglob("*.py")
        if path.name != "__init__.py"
    }
    assert len(modules) > 40
    assert {name for name in modules - known} == set(EXCEPTIONS)
