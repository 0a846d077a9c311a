# SPDX-License-Identifier: Apache-2.0
"""The notebook: its cells run in order, import only the public API, and their results hold."""

import ast
import json
from pathlib import Path

import numpy as np
import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "first_steps.ipynb"
RESULTS = NOTEBOOK.with_name("results.ipynb")


def code_cells(file: Path = NOTEBOOK) -> list[str]:
    cells = json.loads(file.read_text())["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def test_it_imports_the_front_door_and_numpy_alone():
    imported = {
        name.name
        for source in code_cells()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (node.names if isinstance(node, ast.Import) else [ast.alias(node.module)])
    }
    assert imported == {"numpy", "motion_nodes"}


@pytest.mark.parametrize("file", [NOTEBOOK, RESULTS])
def test_it_is_stored_without_outputs(file):
    for cell in json.loads(file.read_text())["cells"]:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


def test_the_cells_run_and_the_motion_leads_around_the_wall():
    names: dict[str, object] = {}
    *cells, picture = code_cells()
    for source in cells:
        exec(compile(source, str(NOTEBOOK), "exec"), names)
    # Jupyter displays the value of a cell's last expression.
    *body, last = ast.parse(picture).body
    exec(compile(ast.Module(body, []), str(NOTEBOOK), "exec"), names)
    shown = eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)
    arm, world, plan = names["arm"], names["world"], names["plan"]
    assert not arm.checker(world).edge_free(names["start"], names["ik"].q), (
        "the wall does not block the edge"
    )
    assert plan.success
    np.testing.assert_allclose(plan.path[0], names["start"])
    np.testing.assert_allclose(arm.fk(plan.path[-1]), names["target"], atol=2e-3)
    assert arm.collision_free_batch(names["positions"], world).all()
    assert max(plan.motion.limit_use(arm.limits)) <= 1.0 + 1e-9
    # Between two points of the trajectory samples are interpolated.
    assert (np.abs(names["velocities"]) <= 1.001 * arm.limits.velocity).all()
    svg = shown._repr_svg_()
    assert svg.count("<rect") == len(world.scene.objects)
    assert svg.count(",") == len(names["tool_path"])


def test_twenty_cells_show_their_results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    cells = code_cells(RESULTS)
    assert len(cells) == 20
    exec(cells[0], names)
    for source in cells[1:]:
        *body, last = ast.parse(source).body
        exec(compile(ast.Module(body, []), str(RESULTS), "exec"), names)
        shown = eval(compile(ast.Expression(last.value), str(RESULTS), "eval"), names)
        # What Jupyter would show: a picture, a page, or one short text.
        forms = (getattr(shown, f"_repr_{form}_", None) for form in ("png", "svg", "html"))
        rich = any(len(form() or "") > 70 for form in forms if form)
        assert rich or 0 < len(repr(shown)) < 400, source
        assert rich == any(word in source for word in ("plot()", "show(")), source
    assert (tmp_path / "plan.csv").is_file()
    names["page"].close()
