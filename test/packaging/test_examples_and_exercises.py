# SPDX-License-Identifier: Apache-2.0
"""Examples, exercises and benchmarks run as documented."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGE = (ROOT / "docs" / "exercises.md").read_text(encoding="utf-8")
EXERCISES = [
    (title, code)
    for title, part in re.findall(r"^## (\d+\. [^\n]*)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.M)
    for code in re.findall(r"```python\n(.*?)```", part, re.DOTALL)
]


@pytest.mark.parametrize("program", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_example_exits_with_0(program, capsys):
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(program), run_name="__main__")
    assert ended.value.code == 0, capsys.readouterr().out
    assert capsys.readouterr().out.strip()


def test_all_examples_are_listed():
    listed = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    assert len(EXAMPLES) >= 5
    for path in EXAMPLES:
        assert f"`{path.name}`" in listed


@pytest.mark.parametrize(("title", "code"), EXERCISES, ids=[title for title, _ in EXERCISES])
def test_answer_holds(title, code):
    assert "assert" in code, "an answer without a check"
    exec(compile(code, f"docs/exercises.md, {title}", "exec"), {"__name__": title})


def test_each_exercise_has_its_answer():
    titles = re.findall(r"^## (\d+)\.", PAGE, re.MULTILINE)
    assert titles == [str(k) for k in range(1, len(titles) + 1)]
    assert len({title for title, _ in EXERCISES}) == len(titles)


SCRIPTS = sorted((ROOT / "benchmarks").glob("bench_*.py"))


@pytest.mark.long
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda file: file.stem)
def test_it_describes_its_options(script):
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(script), "--help"]
    done = subprocess.run(command, env=variables, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--json FILE" in done.stdout


def test_the_page_names_each_of_them():
    page = (ROOT / "benchmarks/README.md").read_text() + (ROOT / "Makefile").read_text()
    assert not [script.name for script in SCRIPTS if script.name not in page]
