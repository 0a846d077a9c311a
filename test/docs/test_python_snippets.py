# SPDX-License-Identifier: Apache-2.0
"""Python of the docs runs: each page's snippets one after the other, as pasted."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
RUN = (
    "ackermann_bases", "coming_from", "holonomic_bases", "impedance_control", "learning", "mpc",
    "object_detection", "perception", "rmpflow", "tasks_and_limits",
)  # fmt: skip
"""Pages whose snippets need nothing but the package."""
RESULTS = {
    "inverse_kinematics": """
        result.success and far.status.name == "OUT_OF_REACH" and better.success and left.q[0] > 0.0
        and batch.solved.all() and len(elbow) > 3 and every.shape == (256, 6)
        and eight.shape == (8, 6) and panda.free_joint == "panda_joint7" and len(sweep) > 0
        and first is not None and some.success""",
    "kinematic_models": """
        abs(X[:3, 3] - (0.30702, 0.0, 0.59027)).max() < 5e-6 and tree.joint_names == ("turn",)
        and 0.01 < (dq.to_pose(half_way)[:3, 3] ** 2).sum() < 0.36""",
    "trajectories": "hasty is None and motion is not None",
}
"""Pages that run in `make test`, and what holds afterwards."""
ELSEWHERE = {
    "exercises": "test/packaging/test_examples_and_exercises.py",
    "extending": "test/kernels/test_extending.py",
    "launch": "test/bringup/test_own_launch_file.py",
    "connect_a_real_arm": "test/hardware/test_extending_drivers.py",
}
"""Pages whose snippets another test runs."""
FRAGMENTS = {
    "architecture": "an excerpt of a node",
    "mobile_manipulators": "a robot of the reader",
    "new_robot": "a robot of the reader",
    "planning": "a robot with two arms of the reader",
    "planning_scene": "a client of another package",
    "policies": "a policy of the reader",
    "robot_files": "a file of the reader",
    "tasks": "a language model of the reader",
    "viewer": "waits for a key",
    "drive_a_base": "needs a running suite",
    "follow_a_target": "needs a running suite",
    "plan_around_a_shelf": "needs a running suite",
    "reach_a_pose": "needs a running suite",
}
"""Pages whose snippets cannot stand alone, and why."""


def snippets(page: Path) -> list[str]:
    """Return the Python blocks of a page."""
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


@pytest.mark.long
@pytest.mark.parametrize("name", RUN)
def test_the_snippets_of_a_page_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {"__name__": "__main__"}
    for snippet in snippets(DOCS / f"{name}.md"):
        exec(snippet, names)


@pytest.mark.parametrize("name", RESULTS)
def test_the_snippets_have_the_results_that_the_page_states(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for snippet in snippets(DOCS / f"{name}.md"):
        exec(compile(snippet, name, "exec"), names)
    assert eval(f"({RESULTS[name]})", names)


def test_every_page_with_python_is_run_or_has_a_reason_not_to_be():
    pages = {page.stem for page in DOCS.rglob("*.md") if snippets(page)}
    known = {*RUN, *RESULTS, *ELSEWHERE, *FRAGMENTS}
    assert pages <= known, f"not run by any test: {sorted(pages - known)}"
    assert known <= pages, f"no Python any more: {sorted(known - pages)}"
