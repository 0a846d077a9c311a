# SPDX-License-Identifier: Apache-2.0
"""Statements of a module: a walk without expressions, which are most of a syntax tree."""

import ast
from collections.abc import Iterator

WITH_STATEMENTS = (ast.stmt, ast.excepthandler, ast.match_case)


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements of a syntax tree, those within functions and classes included."""
    stack = [tree]
    while stack:
        inside = [n for n in ast.iter_child_nodes(stack.pop()) if isinstance(n, WITH_STATEMENTS)]
        yield from inside
        stack += inside
