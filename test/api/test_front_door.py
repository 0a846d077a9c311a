# SPDX-License-Identifier: Apache-2.0
"""``import motion_nodes as mn``: lazy imports, completeness, documentation, main uses."""

import ast
import dataclasses
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import motion_nodes as mn
from motion_nodes.errors import InvalidCommand, InvalidConfig, UnknownGroup, UnknownState
from motion_nodes.extras.robot_setup import derived_robot
from motion_nodes.settings import KEY

ROOT = Path(__file__).parents[2]
HEAVY = ("numpy", "scipy", "numba", "llvmlite", "mujoco", "rclpy", "yaml")


def public_members(cls):
    """Yield the public methods that a class of the public API defines itself."""
    for name, member in vars(cls).items():
        if name.startswith("_"):
            continue
        if isinstance(member, classmethod | staticmethod):
            yield f"{cls.__name__}.{name}", member.__func__
        elif inspect.isfunction(member):
            yield f"{cls.__name__}.{name}", member


def documented():
    for name in mn.__all__:
        value = getattr(mn, name)
        if inspect.isclass(value):
            yield from public_members(value)
        else:
            yield name, value


def test_importing_the_package_loads_nothing_heavy():
    code = "import sys, json, motion_nodes; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(json.loads(done.stdout)) & set(HEAVY)


def test_every_public_name_is_there_and_known_to_type_checkers():
    stub = ast.parse((ROOT / "motion_nodes" / "__init__.pyi").read_text())
    imported = [a.asname for n in stub.body if isinstance(n, ast.ImportFrom) for a in n.names]
    assert sorted(imported) == sorted(mn.__all__)
    for name in mn.__all__:
        assert getattr(mn, name).__doc__ or isinstance(getattr(mn, name), type(mn.Box | int)), name
    assert set(mn.__all__) <= set(dir(mn))
    with pytest.raises(AttributeError):
        mn.load_robots


FUNCTIONS = list(documented())


@pytest.mark.parametrize(("name", "function"), FUNCTIONS, ids=[name for name, _ in FUNCTIONS])
def test_docstrings_name_arguments_and_results(name, function):
    text = inspect.getdoc(function) or ""
    assert text, name
    signature = inspect.signature(function)
    names = [
        p.name
        for p in signature.parameters.values()
        if p.name not in ("self", "cls") and p.kind is not p.VAR_KEYWORD
    ]
    shared = re.search(r"Arguments( and errors)? are those of|as for|as in", text)
    if names and not shared:
        assert "Args:" in text, (name, names)
        for argument in names:
            assert re.search(rf"^\s+\*?{argument}( \(|:)", text, re.MULTILINE), (name, argument)
    if signature.return_annotation not in (None, "None", inspect.Signature.empty):
        assert "Returns:" in text or text.startswith("Return"), name


def test_properties_are_documented():
    for name in mn.__all__:
        cls = getattr(mn, name)
        for member in vars(cls).values() if inspect.isclass(cls) else ():
            if isinstance(member, property) and not member.fget.__name__.startswith("_"):
                assert inspect.getdoc(member), f"{name}.{member.fget.__name__}"


def test_public_dataclasses_document_their_fields():
    for name in mn.__all__:
        cls = getattr(mn, name)
        if not dataclasses.is_dataclass(cls):
            continue
        settings = {f.name for f in dataclasses.fields(cls) if KEY in f.metadata}
        source = inspect.getsource(cls)
        body = ast.parse(source).body[0].body
        for node, after in zip(body, [*body[1:], None], strict=True):
            if isinstance(node, ast.AnnAssign) and not node.target.id.startswith("_"):
                text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
                assert text or node.target.id in settings, f"{name}.{node.target.id}"


@pytest.fixture(scope="module")
def arm():
    return mn.load_robot("franka")["arm"]


def test_an_arm_speaks_of_its_own_joints(arm):
    assert len(arm.joint_names) == 7
    q = arm.state("ready")
    assert q.shape == (7,)
    assert arm.jacobian(q).shape == (6, 7)
    Q = arm.random(20, seed=1)
    assert np.allclose(arm.fk_batch(Q)[3], arm.fk(Q[3]), atol=1e-12)
    # The Jacobian is the derivative of the position.
    step = 1e-6 * np.eye(7)
    for k in range(7):
        moved = (arm.fk(q + step[k]) - arm.fk(q - step[k]))[:3, 3] / 2e-6
        assert np.allclose(moved, arm.jacobian(q)[:3, k], atol=1e-6)


def test_inverse_kinematics_forward_and_back(arm):
    Q = arm.random(50, seed=2)
    X = arm.fk_batch(Q)
    batch = arm.ik_batch(X)
    assert batch.solved.all()
    assert np.abs(arm.fk_batch(batch.q)[:, :3, 3] - X[:, :3, 3]).max() < 1e-3
    one = arm.ik(X[0], seed=Q[0])
    assert one.success
    assert np.abs(one.q - Q[0]).max() < 0.05
    assert not arm.ik(mn.pose(xyz=(3.0, 0.0, 0.5))).success


def test_solutions_among_obstacles_are_collision_free(arm):
    world = mn.World()
    world.add("table", mn.Box(0.8, 1.0, 0.1), mn.pose(xyz=(0.7, 0.0, 0.1)))
    X = mn.pose(xyz=(0.5, 0.0, 0.3), rpy=(np.pi, 0.0, 0.0))
    found = arm.ik(X, world=world)
    assert found.success
    assert arm.collision_free(found.q, world)
    inside = arm.ik(mn.pose(xyz=(0.5, 0.0, 0.12), rpy=(np.pi, 0.0, 0.0)), world=world)
    assert not inside.success
    assert "table" in inside.reason


def test_a_plan_leads_around_a_wall(arm):
    world = mn.World()
    world.add("wall", mn.Box(0.4, 0.02, 0.8), mn.pose(xyz=(0.5, 0.0, 0.4)))
    start = np.array([-0.8, 0.3, 0.0, -1.8, 0.0, 2.1, 0.8])
    goal = start * [-1, 1, 1, 1, 1, 1, 1]
    plan = arm.plan(start, goal, world)
    assert plan.success
    assert plan.path.shape[1] == 7
    assert not arm.checker(world).edge_free(start, goal)
    assert arm.collision_free_batch(plan.trajectory.positions, world).all()
    assert np.allclose(plan.trajectory.sample(plan.trajectory.duration).position, goal)
    # A pose and a named state are goals, too.
    to_pose = arm.plan(start, arm.fk(goal), world)
    assert to_pose.success
    assert np.abs(arm.fk(to_pose.path[-1])[:3, 3] - arm.fk(goal)[:3, 3]).max() < 1e-3
    assert np.allclose(arm.plan(start, "ready").path[-1], arm.state("ready"))


def test_a_reactive_policy_arrives(arm):
    policy = arm.rmpflow()
    q, qd = arm.state("ready"), np.zeros(7)
    target = np.array([0.4, 0.3, 0.5])
    for _ in range(400):
        q, qd = policy.step(q, qd, target, 0.01)
    assert np.linalg.norm(arm.fk(q)[:3, 3] - target) < 5e-3
    assert not policy.status.stuck


def test_a_base_turns_twists_into_wheel_speeds_and_back():
    base = mn.load_robot("jetbot").base
    assert np.allclose(base.wheels_from_twist(0.3, 0.0, 1.0), [8.125, 11.875])
    assert np.allclose(base.twist_from_wheels([8.125, 11.875]), [0.3, 0.0, 1.0])
    odometry = base.odometry()
    odometry.advance(base.twist_from_wheels([10.0, 10.0]), 1.0)
    assert odometry.x == pytest.approx(0.3)


def test_bad_input_is_refused_by_type(arm):
    with pytest.raises(InvalidCommand):
        arm.fk([0.0, 1.0])
    with pytest.raises(InvalidCommand):
        arm.plan(np.zeros(6), "ready")
    with pytest.raises(InvalidCommand):
        arm.plan("ready", np.zeros((3, 3)))
    with pytest.raises(UnknownState):
        arm.state("redy")
    with pytest.raises(UnknownGroup):
        mn.load_robot("franka")["leg"]
    with pytest.raises(InvalidConfig):
        mn.load_robot("franka").base
    with pytest.raises(InvalidConfig):
        mn.load_robot("franka")["gripper"].ik(np.eye(4))
    with pytest.raises(InvalidCommand):
        mn.pose(quat_xyzw=(0.0, 0.0, 0.0, 0.0))
    with pytest.raises(InvalidCommand):
        mn.pose(xyz=(0.0, np.nan, 0.0))
    with pytest.raises(InvalidCommand):
        arm.rmpflow().step(arm.state("ready"), np.zeros(7), np.zeros(5))
    world = mn.World()
    for shape in (mn.Box(0.0, 1.0, 1.0), mn.Sphere(-1.0), mn.Box(1.0, 1.0, float("inf"))):
        with pytest.raises(InvalidCommand):
            world.add("thing", shape)
    assert not world.scene.objects
    base = mn.load_robot("jetbot").base
    with pytest.raises(InvalidCommand):
        base.wheels_from_twist(float("nan"))
    with pytest.raises(InvalidCommand):
        base.twist_from_wheels([1.0])


def test_reprs_are_short(arm):
    for thing in (arm, mn.load_robot("franka"), mn.load_robot("jetbot").base, mn.World(),
                  arm.ik(arm.fk(arm.state("ready"))), arm.limits, arm.rmpflow()):  # fmt: skip
        text = repr(thing)
        assert len(text) < 200, text
        assert "0x" not in text


TWO_LINKS = """<robot name="franka">
  <link name="base"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0"
    iyz="0"/></inertial></link>
  <joint name="a" type="revolute"><parent link="base"/><child link="one"/><axis xyz="0 0 1"/>
    <origin xyz="0 0 0.1"/><limit lower="-2" upper="2" velocity="2" effort="20"/></joint>
  <link name="one"><inertial><origin xyz="0.15 0 0"/><mass value="1"/><inertia ixx="0.01" iyy="0.01"
    izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial><collision><origin xyz="0.15 0 0"/>
    <geometry><box size="0.3 0.04 0.04"/></geometry></collision></link>
  <joint name="b" type="revolute"><parent link="one"/><child link="two"/><axis xyz="0 1 0"/>
    <origin xyz="0.35 0 0"/><limit lower="-2" upper="2" velocity="2" effort="20"/></joint>
  <link name="two"><inertial><origin xyz="0.1 0 0"/><mass value="0.5"/><inertia ixx="0.01"
    iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial><collision><origin xyz="0.12 0 0"/>
    <geometry><box size="0.2 0.04 0.04"/></geometry></collision></link>
</robot>"""


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_urdf_alone_is_a_robot(tmp_path, monkeypatch):
    (tmp_path / "robots").mkdir()
    monkeypatch.setattr(derived_robot, "_cache_folder", lambda: tmp_path / "robots")
    file = tmp_path / "arm.urdf"
    file.write_text(TWO_LINKS)  # the name of a shipped robot is allowed here
    robot = mn.load_robot(file)
    arm = robot[robot.group_names[0]]
    assert arm.joint_names == ("a", "b")
    assert np.allclose(arm.fk([0.0, 0.0], "two")[:3, 3], [0.35, 0.0, 0.1])
    assert arm.plan([0.0, 0.0], [1.0, 0.5]).success
    made = sorted((tmp_path / "robots").glob("*/robot.yaml"))
    before = made[0].stat().st_mtime_ns
    mn.load_robot(file)
    assert made[0].stat().st_mtime_ns == before, "it was derived twice"
    file.write_text(TWO_LINKS.replace('xyz="0.35 0 0"', 'xyz="0.4 0 0"'))
    changed = mn.load_robot(file)
    assert np.allclose(changed[arm.name].fk([0.0, 0.0], "two")[:3, 3], [0.4, 0.0, 0.1])


def test_the_reference_page_is_current():
    done = subprocess.run(
        [sys.executable, "tools/write_reference.py", "--check"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    "file",
    [*sorted((ROOT / "examples").glob("*.py")), ROOT / "README.md",
     *sorted((ROOT / "docs" / "tutorials").glob("*.md"))],
    ids=lambda file: file.name,
)  # fmt: skip
def test_users_import_nothing_but_the_front_door(file):
    text = file.read_text(encoding="utf-8")
    assert not re.findall(r"^\s*(?:from|import) motion_nodes\..*", text, re.MULTILINE)


README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", README, re.DOTALL))
def test_python_of_the_readme_runs(code):
    if "rclpy" in code:
        compile(code, "README.md", "exec")
    else:
        exec(compile(code, "README.md", "exec"), {})
