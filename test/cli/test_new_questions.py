# SPDX-License-Identifier: Apache-2.0
"""``motion new --ask``: questions on the terminal."""

import io
import sys

import pytest
from robot_setup.urdf_samples import joint, link, robot

from motion_nodes.cli.main import main


@pytest.fixture
def urdf(tmp_path):
    parts = [link("base"), link("one"), link("two"), '<link name="flange"/><link name="mount"/>']
    parts += [joint("a", "base", "one"), joint("b", "one", "two")]
    parts += [joint(f"j_{end}", "two", end, kind="fixed", inside="") for end in ("flange", "mount")]
    file = tmp_path / "arm.urdf"
    file.write_text(robot(*parts))
    return file


def typed(monkeypatch, text, *words):
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    try:
        main(["new", *map(str, words), "--no-trial"])
    except SystemExit as end:
        return end.code or 0
    return 0


@pytest.mark.long
@pytest.mark.parametrize(("text", "tip"), [("9\nx\n3\n", "mount"), ("\n", "flange")])
def test_an_answer_is_asked_for_until_it_is_a_choice(urdf, tmp_path, monkeypatch, text, tip):
    folder = tmp_path / "made"
    assert typed(monkeypatch, text, urdf, "--ask", "--name", "asked", "--output", folder) == 0
    assert f"tip: {tip}\n" in (folder / "robot.yaml").read_text()


def test_without_an_answer_nothing_is_written(urdf, tmp_path, monkeypatch):
    folder = tmp_path / "made"
    assert typed(monkeypatch, "", urdf, "--ask", "--output", folder) == 2
    assert typed(monkeypatch, "", urdf, "--ask", "--json", "--output", folder) == 2
    assert not folder.exists()
