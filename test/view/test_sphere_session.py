# SPDX-License-Identifier: Apache-2.0
"""Editing collision spheres: selection, changes, undo and saving; the command motion spheres."""

import re
import shutil
import signal
import subprocess
import sys
import urllib.request

import numpy as np
import pytest
from raised_errors import about

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.scene.sphere_set import SphereSet
from motion_nodes.errors import InvalidCommand, InvalidDescription, UnknownFrame
from motion_nodes.extras.viewer.sphere_editor import SphereSession

FRANKA = load_robot("franka")
LINK = "panda_link5"


@pytest.fixture
def session(tmp_path):
    session = SphereSession(FRANKA, tmp_path / "spheres.yaml")
    session.choose(LINK)
    return session


def same(a, b):
    assert set(a.links) == set(b.links)
    for link, spheres in a.links.items():
        np.testing.assert_array_equal(spheres, b.of(link))


def test_it_begins_with_the_robots_own_spheres(session):
    assert session.spheres.count == sum(map(len, FRANKA.spheres.values()))
    assert set(FRANKA.spheres) <= set(session.links)
    np.testing.assert_array_equal(session.chosen, session.spheres.of(LINK)[0])
    assert not session.unsaved


@pytest.mark.parametrize(
    ("change", "count"),
    [
        (lambda s: s.add(), 1),
        (lambda s: s.move((0.1, 0.0, -0.1)), 0),
        (lambda s: s.resize(0.07), 0),
        (lambda s: s.remove(), -1),
        (lambda s: s.connect(2, 3), 3),
        (lambda s: s.scale(1.25), 0),
    ],
    ids=["add", "move", "resize", "remove", "connect", "scale"],
)
def test_every_change_touches_one_link_and_is_undone_and_done_again(session, change, count):
    before = session.spheres
    change(session)
    after = session.spheres
    assert after.count == before.count + count
    assert session.unsaved
    changed = [k for k in before.links if not np.array_equal(before.of(k), after.of(k))]
    assert changed == [LINK]
    assert session.undo()
    same(session.spheres, before)
    assert session.redo()
    same(session.spheres, after)
    assert not session.redo(), "nothing more"


def test_a_new_change_forgets_what_was_taken_back(session):
    session.scale(1.1)
    session.undo()
    session.scale(1.2)
    assert not session.redo()
    assert session.undo()
    assert not session.undo()


def test_what_is_chosen_stays_within_the_spheres_there_are(session):
    count = len(session.spheres.of(LINK))
    session.choose(LINK, count + 5)
    assert session.index == count - 1
    session.add()
    assert session.index == count
    session.undo()
    assert session.index == count - 1
    for _ in range(count):
        session.remove()
    assert session.chosen is None
    assert LINK not in session.spheres.links
    with pytest.raises(InvalidCommand):
        session.remove()
    with pytest.raises(UnknownFrame, check=about("panda_lnk5")):
        session.choose("panda_lnk5")


def test_fitted_spheres_hold_the_geometry_within_the_accuracy(session):
    session.choose("panda_hand")
    session.generate(0.012)
    found = session.coverage()
    assert found.surface > 0.995
    assert found.gap < 0.002
    assert found.reach < 2.0 * 0.012
    assert found.count == len(session.spheres.of("panda_hand"))


def test_bad_values_change_nothing(session):
    before = session.spheres
    for change in (lambda: session.resize(-1.0), lambda: session.move((np.nan, 0.0, 0.0)),
                   lambda: session.scale(0.0), lambda: session.connect(0, 2),
                   lambda: session.connect(99, 1)):  # fmt: skip
        with pytest.raises(InvalidCommand):
            change()
    assert session.spheres is before
    assert not session.undo()


def test_saving_keeps_the_file_that_was_there(session):
    session.file.write_text("# by hand\npanda_hand: [[0, 0, 0, 0.1]]\n")
    session.scale(1.5)
    kept = session.save()
    assert kept.read_text().startswith("# by hand")
    assert not session.unsaved
    read = SphereSet.read(session.file)
    np.testing.assert_allclose(read.of(LINK), session.spheres.of(LINK), atol=1e-6)
    session.undo()
    assert session.unsaved


def test_where_it_cannot_be_saved_it_says_so_and_nothing_is_lost(session, tmp_path):
    session.scale(1.5)
    session.file = tmp_path / "no_folder" / "spheres.yaml"
    with pytest.raises(InvalidDescription, match="no_folder"):
        session.save()
    assert session.unsaved


@pytest.mark.parametrize("shipped", [True, False])
def test_it_serves_a_page_until_ctrl_c(tmp_path, shipped):
    robot, saves_to = "jetbot", "jetbot_spheres.yaml"
    if not shipped:
        folder = tmp_path / "my_bot"
        shutil.copytree(load_robot("jetbot").directory, folder)
        robot, saves_to = str(folder), str(folder / "spheres.yaml")
    command = [sys.executable, "-m", "motion_nodes.cli.main", "spheres", robot, "--port", "0"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        found = re.fullmatch(r"Open (\S+) in a browser. Saves to (.+). Ctrl-C ends.\n", line)
        assert found, line
        assert found[2] == saves_to
        assert urllib.request.urlopen(found[1], timeout=10.0).status == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(20.0) == 0
    finally:
        process.kill()
    assert not (tmp_path / "jetbot_spheres.yaml").exists(), "no file without saving"


def test_an_unknown_robot_is_said_in_one_line(tmp_path):
    command = [sys.executable, "-m", "motion_nodes.cli.main", "spheres", "frnka"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "Did you mean 'franka'" in done.stderr
    assert "Traceback" not in done.stderr
