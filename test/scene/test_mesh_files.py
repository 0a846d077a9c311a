# SPDX-License-Identifier: Apache-2.0
"""Mesh files that cannot be used are named, whatever is wrong with them."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import numpy as np
import pytest
import trimesh

from motion_nodes.core.scene.mesh_file import EmptyMesh, read_mesh
from motion_nodes.errors import InvalidDescription

DAE = """<COLLADA><library_geometries><geometry id="g"><mesh>
<source id="p"><float_array id="a" count="9">0 0 0 1 0 0 0 1 0</float_array><technique_common>
<accessor source="#a" count="3" stride="3" offset="0"/></technique_common></source>
<vertices id="v"><input semantic="POSITION" source="#p"/></vertices>
<triangles count="1"><input semantic="VERTEX" source="#v" offset="0"/><p>0 1 2</p></triangles>
</mesh></geometry></library_geometries></COLLADA>"""


def written(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def test_a_sound_collada_file_is_read(tmp_path: Path) -> None:
    mesh = read_mesh(written(tmp_path, "m.dae", DAE.encode()))
    np.testing.assert_array_equal(mesh.vertices, [(0, 0, 0), (1, 0, 0), (0, 1, 0)])


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("VERTEX", "NORMAL", "VERTEX"),
        ("POSITION", "NORMAL", "POSITION"),
        ('stride="3"', 'stride="0"', "stride 0"),
        ('count="3" stride="3" offset="0"', 'stride="3" offset="-3"', "offset -3"),
        ("<p>0 1 2", "<p>0 1 99999999999999999999", "m.dae"),
        ("<p>0 1 2", "<p>0 1 -7", "vertex -7"),
    ],
)
def test_a_collada_file_without_what_it_needs_is_named(
    tmp_path: Path, before: str, after: str, words: str
) -> None:
    path = written(tmp_path, "m.dae", DAE.replace(before, after).encode())
    with pytest.raises(InvalidDescription, match=words):
        read_mesh(path)


@pytest.mark.parametrize("kind", ["glb", "ply", "stl", "obj"])
def test_damaged_files_are_read_or_named(tmp_path: Path, kind: str) -> None:
    rng = random.Random(1)
    content = trimesh.creation.box().export(file_type=kind)
    content = content.encode() if isinstance(content, str) else content
    for number in range(60):
        damaged = bytearray(content)
        if number % 3 == 0:
            damaged = damaged[: rng.randrange(len(damaged))]
        for _ in range(number % 4):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        path = written(tmp_path, f"m.{kind}", bytes(damaged))
        with contextlib.suppress(InvalidDescription):
            assert np.isfinite(read_mesh(path).vertices).all()


def test_an_empty_file_and_a_pointer_are_called_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(EmptyMesh, match="no triangles"):
        read_mesh(written(tmp_path, "m.stl", bytes(84)))
    pointer = b"version https://git-lfs.github.com/spec/v1"
    with pytest.raises(InvalidDescription, match="^[^:]*git lfs pull"):
        read_mesh(written(tmp_path, "m.stl", pointer))
