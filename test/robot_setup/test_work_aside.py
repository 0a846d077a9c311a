# SPDX-License-Identifier: Apache-2.0
"""What a second process stores while a folder is made is what the robot of the folder needs."""

import multiprocessing
import os
import threading

from lxml import etree
from robot_setup.urdf_samples import joint, link, robot
from scene.random_scenes import l_shaped_mesh

from motion_nodes.core.scene import convex_decomposition
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.convex_decomposition import convex_parts
from motion_nodes.core.scene.mesh_file import read_mesh
from motion_nodes.extras.robot_setup.folder_files import write_stl
from motion_nodes.extras.robot_setup.new_robot import new_robot
from motion_nodes.extras.robot_setup.robot_source import search_from
from motion_nodes.extras.robot_setup.work_aside import begin_aside, decompose_meshes


def test_the_parts_of_all_meshes_are_found_by_the_checks_of_the_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MOTION_NODES_CACHE_DIR", str(tmp_path / "cache"))
    write_stl(tmp_path / "bracket.stl", l_shaped_mesh(0.2))
    shape = '<collision><geometry><mesh filename="bracket.stl" scale="1 {0} 1"/></geometry>'
    links = [link(name, shape.format(k) + "</collision>") for name, k in (("b", 1), ("c", 0.5))]
    text = robot(link("a"), *links, joint("i", "a", "b"), joint("j", "b", "c"))
    (tmp_path / "r.urdf").write_text(text)
    made = new_robot(tmp_path / "r.urdf", output=tmp_path / "r", picture=False)
    monkeypatch.setenv("MOTION_NODES_CACHE_DIR", str(tmp_path / "other"))
    root = etree.fromstring(text)
    decompose_meshes(root, search_from(tmp_path / "r.urdf", ()), tmp_path / "copies")
    assert etree.tostring(root, encoding="unicode") == text

    def computed(*_):
        raise AssertionError("not found on the disk")

    monkeypatch.setattr(convex_decomposition, "_decomposed", computed)
    for name in ("b", "c"):
        mesh = made.robot.tree.link(name).collisions[0].geometry
        assert len(convex_parts(read_mesh(made.directory / mesh.filename, mesh.scale))) > 1
    assert CollisionChecker(made.robot).exact.is_free(made.robot.home)


def test_a_job_runs_in_another_process(tmp_path, monkeypatch):
    monkeypatch.setattr(threading, "active_count", lambda: 1)  # pytest has a thread
    begin_aside(lambda: (tmp_path / "id").write_text(str(os.getpid())))
    for child in multiprocessing.active_children():
        child.join(60.0)
    assert int((tmp_path / "id").read_text()) != os.getpid()


def test_an_error_of_a_job_is_not_one_of_this_process(capfd, monkeypatch):
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    begin_aside(lambda: [][0])
    for child in multiprocessing.active_children():
        child.join(60.0)
        assert child.exitcode == 0
    assert capfd.readouterr() == ("", "")


def test_with_other_threads_nothing_is_forked(tmp_path):
    end = threading.Event()
    other = threading.Thread(target=end.wait)
    other.start()
    try:
        begin_aside(lambda: (tmp_path / "id").touch())
        assert multiprocessing.active_children() == []
    finally:
        end.set()
        other.join()
    assert not (tmp_path / "id").exists()
