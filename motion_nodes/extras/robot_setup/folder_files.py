# SPDX-License-Identifier: Apache-2.0
"""Creation of a robot's folder, atomically.

Copies of the meshes of a URDF, so that the robot's folder is self-contained. Collision meshes
become binary STL in metres, which both collision checks and MuJoCo support; visual meshes are
copied unchanged.
"""

from __future__ import annotations

import itertools
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from lxml import etree  # type: ignore[import-untyped]

from motion_nodes.core.robot.loader import ROBOT_FILE, available_robots, load_robot
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.scene.mesh_file import EmptyMesh, read_mesh
from motion_nodes.core.scene.shapes import TriangleMesh
from motion_nodes.errors import InvalidConfig, InvalidDescription
from motion_nodes.extras.robot_setup.notes import Notes, listed
from motion_nodes.extras.robot_setup.package_search import PackageSearch
from motion_nodes.extras.robot_setup.robot_yaml_text import URDF_FILE
from motion_nodes.extras.robot_setup.urdf_repair import TOO_LARGE, TOO_SMALL


def sort_out(
    root: Any, search: PackageSearch, findings: Notes, *, allow_missing: bool, file: Path
) -> None:
    """Remove unusable meshes.

    Args:
        root: the URDF; shapes may be removed.
        search: locates mesh files.
        findings: notes are added.
        allow_missing: whether collision shapes with a missing mesh are removed.
        file: file name, for errors.

    Raises:
        InvalidDescription: collision meshes are missing or cannot be read; or an implausible size.
    """
    problems: list[str] = []
    links: list[str] = []
    unseen: list[str] = []
    for link, shape, mesh in _meshes(root):
        filename, name = mesh.get("filename"), link.get("name")
        where = f"{file}, line {mesh.sourceline}: link '{name}'"
        try:
            path = search.find(filename)
            if shape.tag == "visual":
                continue
            extent = float(np.ptp(read_mesh(path, _scale(mesh, where)).vertices, axis=0).max())
        except EmptyMesh as error:
            link.remove(shape)
            findings.add("changed", "geometry", f"{name}: a {shape.tag} shape is left out: {error}")
            continue
        except InvalidDescription as error:
            if "scale" in str(error) and str(error).startswith(where):
                raise
            link.remove(shape)
            if shape.tag == "visual":
                unseen.append(name)
            else:
                problems.append(f"link '{name}': {error}")
                links.append(name)
            continue
        if extent > TOO_LARGE:
            raise InvalidDescription(
                f"{where}: mesh '{filename}' with scale '{mesh.get('scale', '1 1 1')}' is "
                f'{extent:.3g} m large; a mesh in millimetres needs scale="0.001 0.001 0.001".'
            )
        if extent < TOO_SMALL:
            raise InvalidDescription(
                f"{where}: mesh '{filename}' with scale '{mesh.get('scale', '1 1 1')}' is only "
                f"{extent:.3g} m large; correct the scale or take the shape out."
            )
    if problems and not allow_missing:
        rest = f" (and {len(problems) - 1} more meshes)" if len(problems) > 1 else ""
        raise InvalidDescription(
            f"{file}: {problems[0]}{rest} Without them these links cannot be checked for "
            f"collisions: {listed(dict.fromkeys(links))}. With --allow-missing-meshes they are "
            "left out."
        )
    if problems:
        text = f"not checked, their meshes cannot be read: {listed(dict.fromkeys(links), 20)}"
        findings.add("missing", "spheres.yaml", text)
    if unseen:
        text = f"visual meshes were not found: {listed(dict.fromkeys(unseen))}"
        findings.add("missing", "meshes", text)


def copy_meshes(root: Any, search: PackageSearch, folder: Path) -> None:
    """Copy all meshes into a robot's folder and update their names in the URDF.

    Args:
        root: the URDF; its mesh elements are changed.
        search: locates mesh files.
        folder: folder of the new robot.
    """
    known: dict[tuple[str, Path], str] = {}
    for _, shape, mesh in _meshes(root):
        path = search.find(mesh.get("filename")).resolve()
        key = (shape.tag, path)
        if key not in known:
            target = _free(folder / "meshes" / shape.tag / _plain(path), shape.tag)
            target.parent.mkdir(parents=True, exist_ok=True)
            if shape.tag == "collision":
                write_stl(target, read_mesh(path))
            else:
                shutil.copyfile(path, target)
                _copy_materials(path, target)
            known[key] = target.relative_to(folder).as_posix()
        mesh.set("filename", known[key])


def write_stl(path: Path, mesh: TriangleMesh) -> None:
    """Write a mesh as binary STL [m]."""
    corners = mesh.vertices[mesh.triangles].astype("<f4")
    record = np.zeros(
        len(corners), [("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")]
    )
    record["corners"] = corners
    path.write_bytes(bytes(80) + len(corners).to_bytes(4, "little") + record.tobytes())


def _meshes(root: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yield link, shape and mesh of every mesh; shapes may be removed during the iteration."""
    for link in root.findall("link"):
        for shape in [*link.findall("collision"), *link.findall("visual")]:
            mesh = shape.find("geometry/mesh")
            if mesh is not None:
                yield link, shape, mesh


def _scale(mesh: Any, where: str) -> tuple[float, float, float]:
    try:
        numbers = [float(word) for word in mesh.get("scale", "1 1 1").split()]
    except ValueError:
        numbers = []
    if len(numbers) != 3 or not np.isfinite(numbers).all() or 0.0 in numbers:
        raise InvalidDescription(
            f"{where}: scale is '{mesh.get('scale')}'; three numbers other than 0 are needed."
        )
    return numbers[0], numbers[1], numbers[2]


def _plain(path: Path) -> str:
    """Return a file name without characters that are special in XML, URIs or file systems."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", path.name)


def _free(target: Path, kind: str) -> Path:
    if kind == "collision":
        target = target.with_suffix(".stl")
    free = target
    for number in itertools.count(2):
        if not free.exists():
            break
        free = target.with_name(f"{target.stem}_{number}{target.suffix}")
    return free


def _copy_materials(path: Path, target: Path) -> None:
    """Copy the material files of an OBJ, which define its colours."""
    if path.suffix.lower() != ".obj":
        return
    with path.open(errors="replace") as lines:
        names = [line.split(maxsplit=1)[1].strip() for line in lines if line.startswith("mtllib ")]
    for name in names:
        source = path.parent / name
        if source.is_file() and not (target.parent / source.name).exists():
            shutil.copyfile(source, target.parent / source.name)


def target_folder(output: str | Path | None, name: str, force: bool, *, unique_name: bool) -> Path:
    """Return the folder to create; raise an error if it cannot be created."""
    target = Path(output).expanduser().absolute() if output is not None else Path.cwd() / name
    if target.exists() and not force:
        raise InvalidConfig(
            f"{target} exists; choose another place with --output, or move it aside with --force."
        )
    known = available_robots() if unique_name else {}
    if name in known and known[name].parent != target:
        raise InvalidConfig(
            f"a robot called '{name}' exists: {known[name].parent}. Give this one another name "
            "with --name.",
            field=name,
        )
    if not target.parent.is_dir():
        raise InvalidConfig(
            f"{target.parent} is not a folder; create it first, or choose another --output.",
            field="output",
        )
    _draft(target).rmdir()
    return target


def _draft(target: Path) -> Path:
    """Create a temporary folder next to the final one, which also checks that it is writable."""
    try:
        return Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise InvalidConfig(
            f"{target.parent} cannot be written to ({error.strerror or error}); choose another "
            "--output."
        ) from None


def set_wheel_separation(folder: Path, separation: float) -> None:
    """Replace the wheel separation in a robot's folder by a measured one [m]."""
    file = folder / ROBOT_FILE
    line = re.compile(r"^( *wheel_separation:) .*$", re.MULTILINE)
    comment = "# measured in simulation: the wheels skid when the base turns"
    text = line.sub(rf"\1 {separation:.4g}  {comment}", file.read_text(encoding="utf-8"), count=1)
    file.write_text(text, encoding="utf-8")


def _write(folder: Path, files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def write_folder(
    target: Path,
    files: Mapping[str, str | bytes],
    root: Any,
    search: PackageSearch,
    last: Callable[[Robot], Mapping[str, str | bytes]] = lambda _: {},
) -> Path | None:
    """Write a temporary folder, check that it loads, then rename it.

    Args:
        target: the folder.
        files: contents of other files than the URDF and its meshes, by name.
        root: the URDF's <robot>.
        search: locates mesh files.
        last: returns files that depend on the loaded robot.

    Returns:
        New path of the previous folder.
    """
    draft = _draft(target)
    try:
        draft.chmod(0o755)
        copy_meshes(root, search, draft)
        etree.indent(root)
        urdf = etree.tostring(root, encoding="unicode")
        (draft / URDF_FILE).write_text(f'<?xml version="1.0"?>\n{urdf}\n', encoding="utf-8")
        _write(draft, files)
        _write(draft, last(load_robot(draft)))
        kept = None
        if target.exists():
            numbered = (target.with_name(f"{target.name}.old{n}") for n in range(1, 10**6))
            kept = next(path for path in numbered if not path.exists())
            target.rename(kept)
        draft.rename(target)
    except OSError as error:
        raise InvalidConfig(f"{target}: cannot be written: {error.strerror or error}.") from None
    except (InvalidConfig, InvalidDescription) as error:
        text = str(error).replace(str(draft), str(target))
        raise type(error)(text, field=error.field) from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return kept
