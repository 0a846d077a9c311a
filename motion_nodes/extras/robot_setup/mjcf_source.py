# SPDX-License-Identifier: Apache-2.0
"""Conversion of an MJCF to a URDF: tree, joints, limits, masses, shapes, meshes.

MuJoCo compiles the file, so that default classes, includes and compiler settings have their exact
semantics. Scenery (floors, lights, free objects) is omitted. Meshes are written as STL. Physics
that a URDF cannot contain is kept for the simulation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import trimesh
from lxml import etree  # type: ignore[import-untyped]
from scipy.spatial.transform import Rotation

from motion_nodes.core.robot.poses import from_xyz_quat, from_xyz_rpy, rotation_about, to_rpy
from motion_nodes.core.robot.robot_yaml import ContactDescription
from motion_nodes.core.scene.shapes import triangle_mesh
from motion_nodes.errors import InvalidDescription
from motion_nodes.extras.robot_setup.closed_loops import check_closed_loops
from motion_nodes.extras.robot_setup.drives import MjcfDrive, joint_drives, joints_moved
from motion_nodes.extras.robot_setup.folder_files import write_stl
from motion_nodes.extras.robot_setup.notes import Notes, listed
from motion_nodes.typing import Array

_GEOM = mujoco.mjtGeom
_SEEN_GROUPS = 3
"""MuJoCo's viewer shows the geom groups below this one by default."""
_DIGITS = 9
_FREE_RANGE = 10.0
"""Range of a sliding joint without limits [m]."""
_NO_NAME = "MuJoCo Model"
"""MuJoCo's name of a model without one."""
_PLAIN = re.compile(r"[^A-Za-z0-9_.-]+")
_TOOL_SITE = re.compile(r"tcp|tool|grip|grasp|pinch|attach|flange|end_?eff|(^|_)ee", re.IGNORECASE)
_JOINT = mujoco.mjtJoint
_AXES = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


class ShapeWriter:
    """Adds the shapes of bodies to links."""

    def __init__(self, model: mujoco.MjModel, folder: Path) -> None:
        """Create a writer.

        Args:
            model: the model.
            folder: existing folder for the meshes.
        """
        self._model, self._folder = model, folder
        self._files: dict[int, Path] = {}

    def add(self, link: Any, body: int, X_LB: Array) -> None:
        """Add the shapes of a body to a link.

        Shapes without collisions are visual; colliding shapes are also visual if MuJoCo's viewer
        shows their group by default.

        Args:
            link: the element <link>.
            body: index of the body.
            X_LB: pose of the body's frame in the link.
        """
        model = self._model
        first, count = int(model.body_geomadr[body]), int(model.body_geomnum[body])
        for geom in range(first, first + count):
            collides = bool(model.geom_contype[geom] or model.geom_conaffinity[geom])
            roles = ["collision"] if collides else []
            if not collides or model.geom_group[geom] < _SEEN_GROUPS:
                roles.append("visual")
            for role in roles:
                self._add(link, geom, role, X_LB)

    def _add(self, link: Any, geom: int, role: str, X_LB: Array) -> None:
        model = self._model
        X = X_LB @ pose_of(model.geom_pos[geom], model.geom_quat[geom])
        for X_GS, tag, sizes in self._solids(geom):
            shape = etree.SubElement(link, role)
            origin(shape, X @ X_GS)
            geometry = etree.SubElement(shape, "geometry")
            etree.SubElement(geometry, tag, sizes)
            if role == "visual":
                material = etree.SubElement(shape, "material", name=f"{link.get('name')}_{geom}")
                etree.SubElement(material, "color", rgba=numbers(self._colour(geom)))

    def _colour(self, geom: int) -> Array:
        material = int(self._model.geom_matid[geom])
        rgba = self._model.geom_rgba[geom] if material < 0 else self._model.mat_rgba[material]
        return np.clip(np.asarray(rgba, np.float64), 0.0, 1.0)

    def _solids(self, geom: int) -> list[tuple[Array, str, dict[str, str]]]:
        """Return the pose, tag and attributes of the URDF's solids for a geom."""
        kind, size = self._model.geom_type[geom], self._model.geom_size[geom]
        if kind == _GEOM.mjGEOM_SPHERE:
            return [(np.eye(4), "sphere", {"radius": number(size[0])})]
        if kind == _GEOM.mjGEOM_BOX:
            return [(np.eye(4), "box", {"size": numbers(2.0 * size)})]
        if kind == _GEOM.mjGEOM_CYLINDER:
            return [(np.eye(4), "cylinder", _cylinder(size))]
        if kind == _GEOM.mjGEOM_CAPSULE:
            ends = [np.eye(4), np.eye(4)]
            ends[0][2, 3], ends[1][2, 3] = size[1], -size[1]
            ball = {"radius": number(size[0])}
            return [
                (np.eye(4), "cylinder", _cylinder(size)),
                *((X, "sphere", dict(ball)) for X in ends),
            ]
        if kind == _GEOM.mjGEOM_ELLIPSOID:
            ball = trimesh.creation.icosphere(subdivisions=3)
            return [(np.eye(4), "mesh", self._mesh(-1 - geom, ball.vertices * size, ball.faces))]
        if kind == _GEOM.mjGEOM_MESH:
            mesh = int(self._model.geom_dataid[geom])
            begin, count = self._model.mesh_vertadr[mesh], self._model.mesh_vertnum[mesh]
            vertices = self._model.mesh_vert[begin : begin + count]
            begin, count = self._model.mesh_faceadr[mesh], self._model.mesh_facenum[mesh]
            faces = self._model.mesh_face[begin : begin + count]
            return [(np.eye(4), "mesh", self._mesh(mesh, vertices, faces))]
        return []  # planes and height fields are scenery

    def _mesh(self, key: int, vertices: Array, faces: Any) -> dict[str, str]:
        """Return the attributes of a mesh; its file is written once."""
        if key not in self._files:
            name = self._model.mesh(key).name if key >= 0 else "ellipsoid"
            plain = "".join(c if c.isalnum() or c in "_-" else "_" for c in name) or "mesh"
            file = self._folder / f"{plain}_{abs(key)}.stl"
            write_stl(file, triangle_mesh(np.asarray(vertices, np.float64), np.asarray(faces)))
            self._files[key] = file
        return {"filename": str(self._files[key])}


def _cylinder(size: Array) -> dict[str, str]:
    return {"radius": number(size[0]), "length": number(2.0 * size[1])}


def pose_of(position: Array, quat_wxyz: Array) -> Array:
    """Return a pose from MuJoCo's position and quaternion."""
    return from_xyz_quat(np.asarray(position, np.float64), np.roll(quat_wxyz, -1))


def origin(element: Any, X: Array) -> None:
    """Add an element <origin>."""
    etree.SubElement(element, "origin", xyz=numbers(X[:3, 3]), rpy=numbers(to_rpy(X)))


def numbers(values: Array) -> str:
    """Return numbers [SI units, m] as text."""
    return " ".join(map(number, values))


def number(value: float) -> str:
    """Return a number as text."""
    return f"{float(value):.10g}"


def simulation_block(
    model: mujoco.MjModel,
    bodies: Sequence[str],
    joints: Sequence[str],
    X_LB: Mapping[int, Array],
    findings: Notes,
) -> dict[str, Any]:
    """Return the block ``simulation`` of robot.yaml: closed loops, springs, friction of contacts.

    Args:
        model: the compiled MJCF.
        bodies: names of the links by body.
        joints: names of the joints by joint.
        X_LB: pose of each body's frame in the frame of its link, for the bodies that are links.
        findings: notes about physics that are not kept are added.
    """
    found: dict[str, Any] = {}
    if loops := _loops(model, bodies, X_LB):
        found["loops"] = loops
        names = listed("-".join(loop["links"]) for loop in loops)
        text = f"kept in the simulation, their joints without an actuator are passive: {names}"
        findings.add("measured", "simulation.loops", text)
    if springs := _springs(model, joints, X_LB):
        found["springs"] = springs
    if contact := _contacts(model, bodies, X_LB):
        found["contact"] = contact
    if lost := _not_kept(model):
        findings.add("missing", "simulation", f"not kept of the MJCF: {listed(lost)}")
    return found


def _loops(
    model: mujoco.MjModel, bodies: Sequence[str], X_LB: Mapping[int, Array]
) -> list[dict[str, Any]]:
    found = []
    for e in range(model.neq):
        if model.eq_type[e] != mujoco.mjtEq.mjEQ_CONNECT or not model.eq_active0[e]:
            continue
        pair = (int(model.eq_obj1id[e]), int(model.eq_obj2id[e]))
        points = model.eq_data[e, :6].reshape(2, 3).copy()
        if model.eq_objtype[e] == mujoco.mjtObj.mjOBJ_SITE:
            points = model.site_pos[list(pair)].copy()
            pair = (int(model.site_bodyid[pair[0]]), int(model.site_bodyid[pair[1]]))
        if not all(body in X_LB for body in pair):
            continue
        found.append(
            {
                "links": [bodies[body] for body in pair],
                "points": [
                    _rounded(X_LB[body][:3, :3] @ point + X_LB[body][:3, 3])
                    for body, point in zip(pair, points, strict=True)
                ],
            }
        )
    return found


def _springs(
    model: mujoco.MjModel, joints: Sequence[str], X_LB: Mapping[int, Array]
) -> dict[str, dict[str, float]]:
    single = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)
    return {
        joints[j]: {
            "stiffness": round(float(np.ravel(model.jnt_stiffness[j])[0]), _DIGITS),
            "rest": round(float(model.qpos_spring[model.jnt_qposadr[j]]), _DIGITS),
        }
        for j in range(model.njnt)
        if int(model.jnt_type[j]) in [int(kind) for kind in single]
        and int(model.jnt_bodyid[j]) in X_LB
        and np.ravel(model.jnt_stiffness[j])[0] > 0.0
    }


def _contacts(
    model: mujoco.MjModel, bodies: Sequence[str], X_LB: Mapping[int, Array]
) -> dict[str, dict[str, float]]:
    """Return the friction of links whose shapes have a non-default friction."""
    usual = ContactDescription()
    default = (usual.friction, usual.torsional_friction, usual.rolling_friction)
    found: dict[str, dict[str, float]] = {}
    for body in X_LB:
        first, count = int(model.body_geomadr[body]), int(model.body_geomnum[body])
        touching = [
            g
            for g in range(first, first + count)
            if model.geom_contype[g] or model.geom_conaffinity[g]
        ]
        if not touching:
            continue
        friction = model.geom_friction[touching].max(axis=0)
        if not np.allclose(friction, default):
            names = ("friction", "torsional_friction", "rolling_friction")
            found[bodies[body]] = dict(zip(names, _rounded(friction), strict=True))
    return found


def _not_kept(model: mujoco.MjModel) -> list[str]:
    """Return the physics of a model that robot.yaml cannot represent."""
    kind, active = mujoco.mjtEq, [e for e in range(model.neq) if model.eq_active0[e]]
    counts = {
        "equality constraints of tendons": sum(
            int(model.eq_type[e]) == int(kind.mjEQ_TENDON) for e in active
        ),
        "welded bodies": sum(int(model.eq_type[e]) == int(kind.mjEQ_WELD) for e in active),
        "springs and limits of tendons": sum(
            bool(np.ravel(model.tendon_stiffness[t])[0] > 0.0 or model.tendon_limited[t])
            for t in range(model.ntendon)
        ),
        "actuators of spatial tendons, sites, bodies and slider-cranks": sum(
            not joints_moved(model, a) for a in range(model.nu)
        ),
        "muscles and filtered actuators": sum(
            int(model.actuator_dyntype[a]) != int(mujoco.mjtDyn.mjDYN_NONE) for a in range(model.nu)
        ),
    }
    return [f"{count} {what}" for what, count in counts.items() if count]


def _joint_equalities(model: mujoco.MjModel) -> list[int]:
    """Return the active constraints between positions of joints."""
    kind = int(mujoco.mjtEq.mjEQ_JOINT)
    return [e for e in range(model.neq) if int(model.eq_type[e]) == kind and model.eq_active0[e]]


def _rounded(values: Array) -> list[float]:
    return [float(value) + 0.0 for value in np.round(values, _DIGITS)]


@dataclass
class MjcfSource:
    """A robot from an MJCF."""

    root: Any
    """The element <robot>."""
    floating: bool = False
    """Whether the root link moves freely."""
    home: dict[str, float] = field(default_factory=dict)
    """Positions of a keyframe by joint [rad or m]; empty without a keyframe."""
    drives: dict[str, MjcfDrive] = field(default_factory=dict)
    """Drives by joint."""
    passive: tuple[str, ...] = ()
    """Joints without an actuator, if others have one."""
    simulation: dict[str, Any] = field(default_factory=dict)
    """The block ``simulation`` of robot.yaml."""


def read_mjcf(file: Path, mesh_folder: Path, findings: Notes) -> MjcfSource:
    """Return the robot of an MJCF.

    Args:
        file: a model, or a scene that contains one.
        mesh_folder: existing folder for the meshes.
        findings: notes are added.

    Raises:
        InvalidDescription: MuJoCo cannot compile it, or it has no moving joint.
    """
    try:
        spec = mujoco.MjSpec.from_file(str(file))
        spec.compiler.fusestatic = False
        spec.compiler.discardvisual = False
        model = spec.compile()
    except (ValueError, OSError) as error:
        words = " ".join(str(error).split())
        raise InvalidDescription(f"{file}: MuJoCo cannot read it: {words}.") from None
    name = file.stem if spec.modelname in ("", _NO_NAME) else spec.modelname
    return _Conversion(model, file, name, mesh_folder, findings).result()


class _Conversion:
    """Conversion of one model."""

    def __init__(
        self, model: mujoco.MjModel, file: Path, name: str, mesh_folder: Path, findings: Notes
    ) -> None:
        self._model, self._file, self._findings = model, file, findings
        self._bodies = [_plain(model.body(b).name) or f"body_{b}" for b in range(model.nbody)]
        self._joints = [_plain(model.joint(j).name) or self._unnamed(j) for j in range(model.njnt)]
        self._root = etree.Element("robot", name=_plain(name))
        self._shapes = ShapeWriter(model, mesh_folder)
        self._drives = joint_drives(model, self._joints)
        self._moving: list[str] = []
        self._locked = {
            int(model.eq_obj1id[e]): float(model.eq_data[e, 0])
            for e in _joint_equalities(model)
            if int(model.eq_obj2id[e]) < 0
        }
        """Distance of joints from their zero [rad or m], at which a constraint holds them."""
        self._X_LB: dict[int, Array] = {}

    def result(self) -> MjcfSource:
        trees = self._robots()
        floating = len(trees) == 1 and self._is_free(trees[0])
        # A root that is moved by joints needs a parent link.
        world = "world" if len(trees) > 1 or self._joints_of(trees[0]) else None
        if world is not None:
            etree.SubElement(self._root, "link", name=world)
        for body in trees:
            self._add(body, world, None if world is None else self._X_PB(body))
        self._mimic()
        self._check_loops()
        return MjcfSource(
            self._root, floating, self._home(), self._drives, self._passive(),
            simulation_block(
                self._model, self._bodies, self._joints, self._X_LB, self._findings
            ),
        )  # fmt: skip

    # ---- bodies

    def _robots(self) -> list[int]:
        """Return the roots of the trees that have joints of their own."""
        model = self._model
        roots = [b for b in range(1, model.nbody) if model.body_parentid[b] == 0]
        found, objects = [], []
        for root in roots:
            below = [b for b in range(1, model.nbody) if self._root_of(b) == root]
            joints = [j for b in below for j in self._joints_of(b)]
            if joints:
                found.append(root)
            elif any(self._is_free(b) for b in below):
                objects.append(self._bodies[root])
        if objects:
            self._findings.add("missing", "mjcf", f"free objects are left out: {listed(objects)}")
        if not found:
            raise InvalidDescription(f"{self._file}: nothing in it has joints that move.")
        return found

    def _root_of(self, body: int) -> int:
        while self._model.body_parentid[body] != 0:
            body = int(self._model.body_parentid[body])
        return body

    def _is_free(self, body: int) -> bool:
        first = self._model.body_jntadr[body]
        return bool(first >= 0 and self._model.jnt_type[first] == _JOINT.mjJNT_FREE)

    def _joints_of(self, body: int) -> list[int]:
        first, count = int(self._model.body_jntadr[body]), int(self._model.body_jntnum[body])
        every = range(first, first + count)
        return [j for j in every if self._model.jnt_type[j] != _JOINT.mjJNT_FREE]

    def _X_PB(self, body: int) -> Array:
        """Return the pose of a body in its parent body."""
        return pose_of(self._model.body_pos[body], self._model.body_quat[body])

    def _add(self, body: int, parent: str | None, X_LpB: Array | None) -> None:
        """Add a body as a link below a parent link, and all bodies below it."""
        model, name = self._model, self._bodies[body]
        offset = np.zeros(3)
        if parent is not None and X_LpB is not None:
            offset = self._add_joints(body, parent, X_LpB)
        link = etree.SubElement(self._root, "link", name=name)
        X_LB = self._X_LB[body] = from_xyz_rpy(-offset)
        self._inertial(link, body, X_LB)
        self._shapes.add(link, body, X_LB)
        self._sites(name, body, X_LB)
        for child in range(1, model.nbody):
            if model.body_parentid[child] == body:
                self._add(child, name, X_LB @ self._X_PB(child))

    def _sites(self, link: str, body: int, X_LB: Array) -> None:
        """Add the sites that mark a tool as links without a body."""
        model = self._model
        for s in range(model.nsite):
            name = _plain(model.site(s).name)
            if model.site_bodyid[s] == body and _TOOL_SITE.search(name):
                if name in self._bodies:
                    name = f"{name}_site"
                etree.SubElement(self._root, "link", name=name)
                X = X_LB @ pose_of(model.site_pos[s], model.site_quat[s])
                self._joint(f"{name}_fixed", "fixed", link, name, X)

    def _add_joints(self, body: int, parent: str, X_LpB: Array) -> Array:
        """Add the joints of a body, with links in between; return the offset of its link's frame.

        The frame of the link is at its joint, which need not be the frame of the body.
        """
        name = self._bodies[body]
        steps = [step for j in self._joints_of(body) for step in self._steps(j)]
        X, offset = X_LpB, np.zeros(3)
        if not steps:
            self._joint(f"{name}_fixed", "fixed", parent, name, X)
            return offset
        for k, (joint, kind, axis, zero, bounds, at) in enumerate(steps):
            X = X @ from_xyz_rpy(at - offset)
            offset = at
            last = k == len(steps) - 1
            child = name if last else f"{name}_{joint}"
            element = self._joint(joint, kind, parent, child, X @ zero)
            if kind != "fixed":
                etree.SubElement(element, "axis", xyz=numbers(axis))
                self._limit(element, joint, kind, bounds)
            if not last:
                etree.SubElement(self._root, "link", name=child)
                parent, X = child, np.eye(4)
        return offset

    def _steps(self, j: int) -> Iterator[tuple[str, str, Array, Array, Any, Array]]:
        """Yield name, type, axis, pose at zero, range, place of a joint; three of a ball joint."""
        model, name = self._model, self._joints[j]
        bounds = model.jnt_range[j].copy() if model.jnt_limited[j] else None
        at, address = model.jnt_pos[j].copy(), int(model.jnt_qposadr[j])
        axis, slides = model.jnt_axis[j].copy(), model.jnt_type[j] == _JOINT.mjJNT_SLIDE
        if model.jnt_type[j] == _JOINT.mjJNT_BALL:
            most = math.pi if bounds is None else float(bounds[1])
            text = f"{name}, a ball joint, becomes three revolute joints about x, y and z"
            self._findings.add("changed", "joints", text)
            for letter, axis in zip("xyz", _AXES, strict=True):
                self._moving.append(f"{name}_{letter}")
                yield f"{name}_{letter}", "revolute", np.array(axis), np.eye(4), (-most, most), at
            return
        held = self._locked.get(j)
        q = held if held is not None else -float(model.qpos0[address])
        zero = from_xyz_rpy(q * axis) if slides else _about(axis, q)
        if held is not None:
            text = f"{name} becomes fixed: an <equality><joint> without joint2 holds it"
            self._findings.add("changed", "joints", text)
            yield name, "fixed", axis, zero, None, at
            return
        self._moving.append(name)
        kind = "continuous" if bounds is None else "revolute"
        yield name, "prismatic" if slides else kind, axis, zero, bounds, at

    def _joint(self, name: str, kind: str, parent: str, child: str, X: Array) -> Any:
        element = etree.SubElement(self._root, "joint", name=name, type=kind)
        origin(element, X)
        etree.SubElement(element, "parent", link=parent)
        etree.SubElement(element, "child", link=child)
        return element

    def _limit(self, element: Any, name: str, kind: str, bounds: Any) -> None:
        limit = etree.SubElement(element, "limit")
        if kind == "prismatic" and bounds is None:
            bounds = (-_FREE_RANGE, _FREE_RANGE)
            text = f"{name}: {-_FREE_RANGE:g} to {_FREE_RANGE:g} m (the MJCF has none)"
            self._findings.add("guessed", "limits.position", text)
        if bounds is not None:
            limit.set("lower", number(bounds[0]))
            limit.set("upper", number(bounds[1]))
        if name in self._joints:
            drive = self._drives.get(name)
            if drive is not None and drive.max_effort is not None:
                limit.set("effort", number(drive.max_effort))
            j = self._joints.index(name)
            dof = int(self._model.jnt_dofadr[j])
            friction = number(self._model.dof_frictionloss[dof])
            damping = number(self._model.dof_damping[dof])
            etree.SubElement(element, "dynamics", damping=damping, friction=friction)

    def _inertial(self, link: Any, body: int, X_LB: Array) -> None:
        model = self._model
        mass = float(model.body_mass[body])
        if mass <= 0.0:
            return
        element = etree.SubElement(link, "inertial")
        origin(element, X_LB @ pose_of(model.body_ipos[body], model.body_iquat[body]))
        etree.SubElement(element, "mass", value=number(mass))
        xx, yy, zz = (number(value) for value in model.body_inertia[body])
        etree.SubElement(element, "inertia", ixx=xx, iyy=yy, izz=zz, ixy="0", ixz="0", iyz="0")

    # ---- constraints, keyframes, actuators

    def _mimic(self) -> None:
        """Add the constraints between two joints as mimic joints."""
        model = self._model
        for e in _joint_equalities(model):
            first, second = int(model.eq_obj1id[e]), int(model.eq_obj2id[e])
            if second < 0:
                continue
            self._check_linear(e, self._joints[first], self._joints[second])
            zero, slope = (float(value) for value in model.eq_data[e, :2])
            refs = [float(model.qpos0[model.jnt_qposadr[j]]) for j in (first, second)]
            offset = refs[0] + zero - slope * refs[1]
            follower, leader = self._joints[first], self._joints[second]
            taken = self._leaders()
            driven = follower in self._drives and leader not in self._drives
            if (driven or follower in taken) and leader not in taken:
                follower, leader = leader, follower
                offset, slope = -offset / slope, 1.0 / slope
            if follower in taken or _first(follower, taken) == _first(leader, taken):
                raise InvalidDescription(
                    f"{self._file}: <equality>: the joints '{follower}' and '{leader}' are coupled "
                    "more than once; let each joint of a group follow one other, without a circle."
                )
            element = next(e for e in self._root.iter("joint") if e.get("name") == follower)
            etree.SubElement(
                element, "mimic", joint=leader, multiplier=number(slope), offset=number(offset)
            )

    def _check_linear(self, e: int, follower: str, leader: str) -> None:
        """Refuse a polynomial that is not a straight line."""
        data = self._model.eq_data[e, :5]
        if bool(data[2:].any()):
            raise InvalidDescription(
                f"{self._file}: <equality><joint>: '{follower}' is a polynomial of '{leader}' "
                f'(polycoef="{numbers(data)}"); a follower must be a straight line of its '
                'leader: approximate it as polycoef="offset ratio 0 0 0", or remove it to drive '
                "both joints."
            )
        if data[1] == 0.0:
            raise InvalidDescription(
                f"{self._file}: <equality><joint>: the ratio of '{follower}' to '{leader}' is 0 "
                f'(polycoef="{numbers(data)}"), so it never moves; leave out joint2.'
            )

    def _check_loops(self) -> None:
        """Refuse parallel mechanisms."""
        driven = set(self._drives) - self._leaders().keys()
        for words in check_closed_loops(
            self._model, self._joints, driven, self._X_LB.keys(), self._file
        ):
            text = f"groups end at closed loops, whose passive joints are only measured: {words}"
            self._findings.add("missing", "groups", text)

    def _home(self) -> dict[str, float]:
        """Return the keyframe 'home', or the first one."""
        model = self._model
        if model.nkey == 0:
            return {}
        names = [model.key(k).name.lower() for k in range(model.nkey)]
        q = model.key_qpos[names.index("home") if "home" in names else 0]
        home = {}
        for j, name in enumerate(self._joints):
            at = int(model.jnt_qposadr[j])
            if name in self._moving:
                home[name] = float(q[at])
            elif f"{name}_x" in self._moving:  # a ball joint
                angles = Rotation.from_quat(np.roll(q[at : at + 4], -1)).as_euler("XYZ")
                home |= {f"{name}_{c}": float(a) for c, a in zip("xyz", angles, strict=True)}
        return home

    def _passive(self) -> tuple[str, ...]:
        """Return the joints without an actuator."""
        if not self._drives:
            return ()
        followers = self._leaders()
        passive = tuple(n for n in self._moving if n not in self._drives and n not in followers)
        if passive:
            text = f"without an actuator in the MJCF: {listed(passive)}"
            self._findings.add("guessed", "passive_joints", text)
        return passive

    def _leaders(self) -> dict[str, str]:
        """Return the joint that each mimic joint follows, by name."""
        mimics = ((j.get("name"), j.find("mimic")) for j in self._root.iter("joint"))
        return {name: mimic.get("joint") for name, mimic in mimics if mimic is not None}

    def _unnamed(self, j: int) -> str:
        body = self._bodies[int(self._model.jnt_bodyid[j])]
        return f"{body}_joint_{j - int(self._model.body_jntadr[self._model.jnt_bodyid[j]]) + 1}"


def _first(name: str, leaders: Mapping[str, str]) -> str:
    """Return the joint that a joint follows in the end."""
    while name in leaders:
        name = leaders[name]
    return name


def _plain(name: str) -> str:
    return _PLAIN.sub("_", name)


def _about(axis: Array, angle: float) -> Array:
    X = np.eye(4)
    X[:3, :3] = rotation_about(axis, np.array(angle))
    return X
