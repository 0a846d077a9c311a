# SPDX-License-Identifier: Apache-2.0
"""Import of robots: a URDF with an XRDF, Lula, cuRobo or SRDF file."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from motion_nodes.errors import InvalidDescription
from motion_nodes.model.files import curobo, lula
from motion_nodes.model.files.srdf_file import read_srdf
from motion_nodes.model.files.srdf_robot import describe_srdf
from motion_nodes.model.files.xrdf_file import parse_xrdf
from motion_nodes.model.files.xrdf_robot import DescribedRobot, describe
from motion_nodes.model.files.xrdf_urdf import modified_urdf
from motion_nodes.model.files.yaml_file import read_yaml
from motion_nodes.model.robot import Robot
from motion_nodes.model.robot_builder import assemble
from motion_nodes.model.tree import KinematicTree
from motion_nodes.model.urdf.urdf import read_urdf, read_urdf_text

FORMATS = ("xrdf", "lula", "curobo", "srdf")


@dataclass(frozen=True)
class ForeignRobot:
    """A robot described by files of another system."""

    format: str
    """One of :data:`FORMATS`."""
    urdf_file: Path
    urdf: str
    """Text of the URDF, with added frames and another root link if the file requires them."""
    tree: KinematicTree
    described: DescribedRobot


def format_of(file: Path) -> str | None:
    """Return the format of a file of another system; None: another format.

    Raises:
        InvalidDescription: the file cannot be read, or is not YAML.
    """
    if file.suffix == ".srdf":
        return "srdf"
    if file.suffix not in (".xrdf", ".yaml", ".yml"):
        return None
    data = read_yaml(file)
    if file.suffix == ".xrdf" or data.get("format") == "xrdf":
        return "xrdf"
    return "lula" if lula.is_lula(data) else "curobo" if curobo.is_curobo(data) else None


def read_foreign(
    file: Path,
    urdf: Path | None = None,
    name: str = "",
    read_text: Callable[[Path], str] = read_urdf_text,
) -> ForeignRobot:
    """Read a file of another system and its URDF.

    Args:
        file: XRDF, Lula, cuRobo or SRDF.
        urdf: the URDF; None: the one named by a cuRobo file, the one with the same name in the
            file's folder, or the only one there.
        name: name of the robot; empty: derived from the file.
        read_text: returns the text of a URDF file, possibly corrected.

    Raises:
        InvalidDescription: names the file, the field, its value and the allowed values.
    """
    kind = format_of(file)
    if kind is None:
        raise InvalidDescription(
            f"{file}: is no XRDF, Lula, cuRobo or SRDF file. XRDF begins with 'format: xrdf', Lula "
            "has cspace and default_q, cuRobo has robot_cfg.kinematics, SRDF ends in .srdf."
        )
    name = robot_name(name or file.stem)
    if kind == "srdf":
        urdf_file = _urdf_beside(file) if urdf is None else urdf
        text = read_text(urdf_file)
        tree = read_urdf(text, str(urdf_file))
        semantics = read_srdf(file, tree)
        described = describe_srdf(semantics, tree, name=name, urdf=urdf_file.name, where=str(file))
        return ForeignRobot(kind, urdf_file, text, tree, described)
    data = read_yaml(file)
    requested = ""
    if kind == "curobo":
        found = curobo.parse_curobo(data, file)
        xrdf, requested = found.xrdf, found.urdf_path
    elif kind == "lula":
        xrdf = lula.parse_lula(data, str(file))
    else:
        xrdf = parse_xrdf(data, str(file))
    urdf_file = _urdf_beside(file, requested) if urdf is None else urdf
    names = {"lula": lula.NAMES, "curobo": curobo.NAMES}.get(kind)
    text = modified_urdf(read_text(urdf_file), xrdf.modifiers, str(file), names)
    tree = read_urdf(text, str(urdf_file))
    described = describe(xrdf, tree, name=name, urdf=urdf_file.name, where=str(file), names=names)
    return ForeignRobot(kind, urdf_file, text, tree, described)


def load_foreign(file: Path, urdf: Path | None = None) -> Robot:
    """Load a robot from a file of another system and a URDF, without writing files.

    Args:
        file: XRDF, Lula, cuRobo or SRDF.
        urdf: the URDF; None: as for :func:`read_foreign`.

    Raises:
        InvalidDescription: as :func:`read_foreign`.
    """
    found = read_foreign(file, urdf)
    parts = found.described
    # Meshes are located relative to the URDF.
    place = found.urdf_file.parent / file.name
    return assemble(place, parts.description, found.tree, found.urdf, parts.spheres)


def robot_name(text: str) -> str:
    """Return a valid robot name derived from a text."""
    name = re.sub(r"[^a-z0-9_]+", "_", text.lower()).strip("_")
    return name if name[:1].isalpha() else f"robot_{name}".rstrip("_")


def _urdf_beside(file: Path, requested: str = "") -> Path:
    """Return the URDF named by a file or in its folder."""
    folder = file.parent
    candidates = [folder / requested, folder / Path(requested).name] if requested else []
    # In cuRobo's sources, configs/robot and assets are siblings.
    candidates += [above / "assets" / requested for above in folder.parents if requested]
    candidates.append(file.with_suffix(".urdf"))
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    beside = sorted(folder.glob("*.urdf"))
    if len(beside) == 1:
        return beside[0]
    found = f"there are {len(beside)}: {', '.join(p.name for p in beside)}" if beside else "none"
    named = f"the URDF '{requested}'" if requested else "its URDF"
    raise InvalidDescription(
        f"{file}: {named} is not found: {file.with_suffix('.urdf').name} or a single URDF must lie "
        f"beside it ({found} there), or it must be named (motion convert has --urdf)."
    )
