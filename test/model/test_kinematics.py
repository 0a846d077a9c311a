# SPDX-License-Identifier: Apache-2.0
"""Kinematics of random trees and of the shipped robots, against independent oracles."""

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import mujoco
import numpy as np
import pytest
from kernels.random_trees import Oracle, random_tree
from mujoco_urdf import imported
from raised_errors import about

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.errors import (
    InvalidCommand,
    InvalidConfig,
    MotionError,
    UnknownFrame,
    UnknownJoint,
)
from motion_nodes.kernels import native

ROBOTS = ("franka", "jetbot")


@pytest.fixture(autouse=True, scope="module")
def _generated_code_needs_no_numba():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NUMBA_DISABLE_JIT", "0")
        yield


@pytest.fixture(scope="module")
def arm():
    return Kinematics(load_robot("franka").tree)


def tree_of(robot):
    return load_robot(robot).tree if isinstance(robot, str) else random_tree(robot, robot + 1)


@pytest.mark.parametrize("robot", [*range(12), *ROBOTS])
def test_against_pinocchio_and_the_generic_kernels(robot):
    tree = tree_of(robot)
    oracle, kinematics = Oracle(tree), Kinematics(tree)
    generic = Kinematics(tree, generic=True)
    assert kinematics.generated
    assert not generic.generated
    n = len(tree.joint_names)
    rng = np.random.default_rng(7)
    frames = rng.permutation(tree.frame_names)[:4] if isinstance(robot, int) else tree.frame_names
    for q in [np.zeros(n), *rng.uniform(-3, 3, (3, n))]:
        X_all = kinematics.frames(q)
        np.testing.assert_allclose(X_all, generic.frames(q), atol=1e-12)
        for X, frame in zip(X_all, tree.frame_names, strict=True):
            np.testing.assert_allclose(X, oracle.pose(q, frame), atol=1e-12)
        for frame in frames:
            X, J = kinematics.pose_and_jacobian(q, frame)
            np.testing.assert_allclose(X, oracle.pose(q, frame), atol=1e-12)
            np.testing.assert_allclose(J, oracle.jacobian(q, frame), atol=1e-12)
            np.testing.assert_allclose(kinematics.jacobian(q, frame), J, atol=1e-15)
            np.testing.assert_allclose(kinematics.pose(q, frame), X, atol=1e-14)
            np.testing.assert_allclose(generic.jacobian(q, frame), J, atol=1e-12)
            np.testing.assert_allclose(generic.pose(q, frame), X, atol=1e-12)


@pytest.mark.parametrize("name", ROBOTS)
def test_against_mujoco(name):
    robot = load_robot(name)
    model = imported(robot)
    data = mujoco.MjData(model)
    kinematics = Kinematics(robot.tree)
    bodies = {model.body(i).name: i for i in range(1, model.nbody)}
    assert len(bodies) >= len(kinematics.frame_names) - 1
    q = np.random.default_rng(12).uniform(-1, 1, model.nq)
    data.qpos = [q[kinematics.joint_names.index(model.joint(i).name)] for i in range(model.njnt)]
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    X_all = kinematics.frames(q)
    for frame, i in bodies.items():
        X = X_all[kinematics.frame_names.index(frame)]
        np.testing.assert_allclose(X[:3, 3], data.xpos[i], atol=1e-9)
        np.testing.assert_allclose(X[:3, :3], data.xmat[i].reshape(3, 3), atol=1e-9)
        linear, angular = np.zeros((2, 3, model.nv))
        mujoco.mj_jacBody(model, data, linear, angular, i)
        order = [kinematics.joint_names.index(model.joint(j).name) for j in range(model.njnt)]
        J = kinematics.jacobian(q, frame)[:, order]
        np.testing.assert_allclose(J, np.vstack([linear, angular]), atol=1e-9)


@pytest.mark.parametrize("robot", [2, 5, "franka"])
def test_the_jacobian_is_the_derivative_of_the_pose(robot):
    tree = tree_of(robot)
    kinematics, frame = Kinematics(tree), tree.frame_names[-1]
    q = np.random.default_rng(8).uniform(-1, 1, len(tree.joint_names))
    X, J = kinematics.pose_and_jacobian(q, frame)
    step = 1e-6
    for i, e in enumerate(np.eye(len(q))):
        difference = kinematics.pose(q + step * e, frame) - kinematics.pose(q - step * e, frame)
        rate = difference / (2 * step)
        spin = rate[:3, :3] @ X[:3, :3].T
        angular = [spin[2, 1], spin[0, 2], spin[1, 0]]
        np.testing.assert_allclose(J[:, i], [*rate[:3, 3], *angular], atol=1e-8)


@pytest.mark.parametrize("robot", [0, 4, 11, "franka"])
@pytest.mark.parametrize("generic", [False, True])
def test_batches_are_the_single_calls_one_after_another(robot, generic):
    tree = tree_of(robot)
    kinematics, frame = Kinematics(tree, generic=generic), tree.frame_names[-1]
    Q = np.random.default_rng(9).uniform(-3, 3, (33, len(tree.joint_names)))
    X_all = np.array([kinematics.frames(q) for q in Q])
    X = np.array([kinematics.pose(q, frame) for q in Q])
    J = np.array([kinematics.jacobian(q, frame) for q in Q])
    for m in [*range(34)]:
        np.testing.assert_allclose(kinematics.frames_batch(Q[:m]), X_all[:m], atol=1e-14)
        np.testing.assert_allclose(kinematics.pose_batch(Q[:m], frame), X[:m], atol=1e-14)
        np.testing.assert_allclose(kinematics.jacobian_batch(Q[:m], frame), J[:m], atol=1e-14)
    out = np.empty_like(J)
    assert kinematics.jacobian_batch(Q.tolist(), frame, out) is out
    np.testing.assert_allclose(out, J, atol=1e-14)
    wide = np.repeat(Q, 2, axis=1)[:, ::2]  # not contiguous
    np.testing.assert_allclose(kinematics.pose_batch(wide, frame), X, atol=1e-14)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("generic", [False, True])
def test_relative_to_any_frame(seed, generic):
    tree = random_tree(seed + 50, seed + 1)
    oracle, rng = Oracle(tree), np.random.default_rng(seed)
    base, frame = (str(name) for name in rng.choice(tree.frame_names, 2, replace=False))
    kinematics = Kinematics(tree, base=base, generic=generic)
    assert kinematics.base == base
    assert kinematics.frame_names == tree.frame_names
    q = rng.uniform(-3, 3, len(tree.joint_names))
    X, J = kinematics.pose_and_jacobian(q, frame)
    np.testing.assert_allclose(X, oracle.pose(q, frame, base), atol=1e-12)
    np.testing.assert_allclose(J, oracle.jacobian(q, frame, base), atol=1e-12)
    for X, name in zip(kinematics.frames(q), tree.frame_names, strict=True):
        np.testing.assert_allclose(X, oracle.pose(q, name, base), atol=1e-12)
    np.testing.assert_array_equal(kinematics.pose(q, base), np.eye(4))
    np.testing.assert_array_equal(kinematics.jacobian(q, base), np.zeros((6, len(q))))


@pytest.mark.parametrize("generic", [False, True])
def test_some_joints_move_in_their_own_order_and_others_are_fixed(generic):
    tree = random_tree(8, 9)
    oracle, rng = Oracle(tree), np.random.default_rng(10)
    order = rng.permutation(9)
    moving, held = order[:5], order[5:8]  # one more joint is in neither: it stays at 0
    names = [tree.joint_names[i] for i in moving]
    fixed = {tree.joint_names[i]: float(v) for i, v in zip(held, rng.uniform(-2, 2, 3))}  # noqa: B905
    kinematics = Kinematics(tree, names, fixed=fixed, generic=generic)
    assert kinematics.joint_names == tuple(names)
    q, full = rng.uniform(-3, 3, 5), np.zeros(9)
    full[moving] = q
    full[held] = list(fixed.values())
    for X, frame in zip(kinematics.frames(q), tree.frame_names, strict=True):
        np.testing.assert_allclose(X, oracle.pose(full, frame), atol=1e-12)
    frame = tree.frame_names[-1]
    J = oracle.jacobian(full, frame)[:, moving]
    np.testing.assert_allclose(kinematics.jacobian(q, frame), J, atol=1e-12)


def test_no_joints_at_all():
    tree = random_tree(1, 2)
    kinematics = Kinematics(tree, [])
    assert kinematics.frames([]).shape == (len(tree.frame_names), 4, 4)
    assert kinematics.jacobian(np.zeros(0), tree.frame_names[-1]).shape == (6, 0)
    assert kinematics.jacobian_batch(np.zeros((9, 0)), tree.frame_names[-1]).shape == (9, 6, 0)
    assert kinematics.pose_batch(np.zeros((9, 0)), tree.root).tolist() == [np.eye(4).tolist()] * 9


def test_any_kind_of_numbers_may_be_given(arm):
    q = np.array([0.0, 1.0, 2.0, -1.0, 0.0, 1.0, 0.0, 0.0, 0.0])
    want = arm.pose(q, "panda_hand")
    wide = np.zeros(18)
    wide[::2] = q
    for same in (
        q.tolist(),
        tuple(q),
        q.astype(int),
        q.astype(np.float32),
        wide[::2],
        q[::-1][::-1],
    ):
        np.testing.assert_array_equal(arm.pose(same, "panda_hand"), want)
    q.setflags(write=False)
    np.testing.assert_array_equal(arm.pose(q, "panda_hand"), want)


def test_results_belong_to_the_caller(arm):
    first = arm.pose(np.zeros(9), "panda_hand")
    kept = first.copy()
    arm.pose(np.ones(9), "panda_hand")
    np.testing.assert_array_equal(first, kept)
    first[:] = 0.0
    np.testing.assert_array_equal(arm.pose(np.zeros(9), "panda_hand"), kept)
    out = np.empty((len(arm.frame_names), 4, 4))
    assert arm.frames(np.zeros(9), out) is out
    np.testing.assert_array_equal(out, arm.frames(np.zeros(9)))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_nan_reaches_what_the_joint_moves_and_nothing_else(arm, value):
    q = np.zeros(9)
    q[3] = value
    X = arm.frames(q)
    above = arm.frame_names.index("panda_link3") + 1
    np.testing.assert_array_equal(X[:above], arm.frames(np.zeros(9))[:above])
    assert np.isnan(X[above:, :3, :3]).any(axis=(1, 2)).all()
    Q = np.zeros((20, 9))
    Q[7, 3] = value
    sound = np.arange(20) != 7
    J = arm.jacobian_batch(Q, "panda_hand")
    np.testing.assert_array_equal(J[sound], np.broadcast_to(J[0], (19, 6, 9)))
    assert np.isnan(J[7]).any()
    assert np.isfinite(arm.frames(np.zeros(9))).all()  # later calls are not affected


@pytest.mark.parametrize(
    ("q", "shape"),
    [
        (np.zeros(8), "(8,)"),
        (np.zeros(10), "(10,)"),
        (np.zeros((9, 1)), "(9, 1)"),
        (np.zeros((1, 9)), "(1, 9)"),
        (0.0, "()"),
        ([], "(0,)"),
        (None, "object"),
        ("home", "<U4"),
        ([0.0] * 8 + ["x"], "(9,)"),
        ([[0.0], [0.0, 1.0]], "different lengths"),
        ({"panda_joint1": 0.0}, "object"),
    ],
)
def test_a_wrong_configuration_is_named(arm, q, shape):
    for call in (arm.frames, lambda q: arm.pose(q, "panda_hand")):
        with pytest.raises(InvalidCommand) as caught:
            call(q)
        assert "franka: a configuration is 9 numbers (joints: panda_joint1" in str(caught.value)
        assert shape in str(caught.value)


@pytest.mark.parametrize("Q", [np.zeros(9), np.zeros((3, 8)), np.zeros((2, 3, 9)), None, [[0], []]])
def test_a_wrong_batch_is_named(arm, Q):
    for call in (arm.frames_batch, lambda Q: arm.jacobian_batch(Q, "panda_hand")):
        with pytest.raises(InvalidCommand):
            call(Q)


@pytest.mark.parametrize(
    ("out", "text"),
    [
        (np.zeros((4, 13, 4)), "out"),
        (np.zeros((2, 13, 4, 4), np.float32), "out"),
        ([1.0], "out"),
        (np.zeros((2, 13, 4, 8))[..., ::2], "out"),
        (np.broadcast_to(0.0, (2, 13, 4, 4)), "out"),
    ],
)
def test_an_array_that_results_do_not_fit_in_is_refused(arm, out, text):
    with pytest.raises(InvalidCommand, check=about(text)):
        arm.frames_batch(np.zeros((2, 9)), out)


def test_an_unknown_frame_lists_the_frames(arm):
    for call in (arm.pose, arm.jacobian, arm.pose_and_jacobian):
        with pytest.raises(UnknownFrame):
            call(np.zeros(9), "panda_hnad")
    for call in (arm.pose_batch, arm.jacobian_batch):
        with pytest.raises(UnknownFrame, check=about("nowhere")):
            call(np.zeros((1, 9)), "nowhere")
    with pytest.raises(UnknownFrame):
        arm.warm_up(["nowhere"])


def test_wrong_settings_are_named():
    tree = load_robot("franka").tree
    with pytest.raises(UnknownJoint, check=about("panda_joint9")):
        Kinematics(tree, ["panda_joint9"])
    with pytest.raises(UnknownJoint, check=about("panda_joint9")):
        Kinematics(tree, fixed={"panda_joint9": 0.0})
    with pytest.raises(UnknownFrame, check=about("elbow")):
        Kinematics(tree, base="elbow")
    with pytest.raises(InvalidConfig):
        Kinematics(tree, ["panda_joint2", "panda_joint1", "panda_joint2"])
    with pytest.raises(InvalidConfig):
        Kinematics(tree, fixed={"panda_joint1": 0.0})
    with pytest.raises(InvalidConfig):
        Kinematics(tree, ["panda_joint2"], fixed={"panda_joint1": np.nan})
    assert issubclass(InvalidConfig, MotionError)


def test_after_warm_up_nothing_is_compiled(monkeypatch, tmp_path):
    monkeypatch.setenv("MOTION_NODES_CACHE_DIR", str(tmp_path))  # nothing is kept there
    tree = random_tree(77, 5)
    kinematics, cold = Kinematics(tree), Kinematics(random_tree(78, 5))
    kinematics.warm_up()

    def compiled(text, cpu):
        raise AssertionError("compiled after warm_up")

    monkeypatch.setattr(native, "compiled", compiled)
    q, Q = np.zeros(5), np.zeros((9, 5))
    kinematics.frames(q)
    kinematics.frames_batch(Q)
    for frame in tree.frame_names:
        kinematics.pose(q, frame)
        kinematics.jacobian(q, frame)
        kinematics.pose_and_jacobian(q, frame)
        kinematics.pose_batch(Q, frame)
        kinematics.jacobian_batch(Q, frame)
    with pytest.raises(AssertionError, match="compiled after warm_up"):
        cold.pose(q, "link0")  # the guard itself works


def test_the_code_of_all_poses_gives_the_pose_of_each_frame(monkeypatch, tmp_path):
    monkeypatch.setenv("MOTION_NODES_CACHE_DIR", str(tmp_path))  # nothing is kept there
    tree = random_tree(79, 5)
    texts = []
    compiled = native.compiled
    monkeypatch.setattr(
        native, "compiled", lambda text, cpu: texts.append(text) or compiled(text, cpu)
    )
    kinematics, oracle = Kinematics(tree), Kinematics(tree, generic=True)
    kinematics.warm_up(())
    q = np.random.default_rng(12).uniform(-2, 2, 5)
    for frame in tree.frame_names:
        np.testing.assert_allclose(
            kinematics.pose(q, frame), oracle.pose(q, frame), rtol=0.0, atol=1e-13
        )
    assert len(texts) == 1
    with pytest.raises(InvalidCommand):
        kinematics.pose(q[:4], frame)
    kinematics.jacobian(q, frame)
    assert len(texts) == 2  # a frame's own code is compiled when it is needed
    np.testing.assert_allclose(
        kinematics.pose(q, frame), oracle.pose(q, frame), rtol=0.0, atol=1e-13
    )


def test_code_of_chosen_frames_is_compiled_without_that_of_all(monkeypatch, tmp_path):
    monkeypatch.setenv("MOTION_NODES_CACHE_DIR", str(tmp_path))  # nothing is kept there
    tree = random_tree(80, 5)
    texts = []
    compiled = native.compiled
    monkeypatch.setattr(
        native, "compiled", lambda text, cpu: texts.append(text) or compiled(text, cpu)
    )
    Kinematics(tree).warm_up([tree.frame_names[-1]])
    assert len(texts) == 1
    assert "frames_one" not in texts[0]


def test_threads_do_not_mix_their_configurations(arm):
    rng = np.random.default_rng(11)
    inputs = rng.uniform(-2, 2, (4, 200, 9))
    expected = [arm.jacobian_batch(Q, "panda_hand_tcp") for Q in inputs]
    together = threading.Barrier(4, timeout=60.0)

    def work(Q: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        together.wait()
        single = [arm.pose_and_jacobian(q, "panda_hand_tcp")[1] for q in Q]
        return single, arm.jacobian_batch(Q, "panda_hand_tcp")

    with ThreadPoolExecutor(4) as threads:
        answers = [threads.submit(work, Q) for Q in inputs]
    for answer, want in zip(answers, expected, strict=True):
        single, batch = answer.result()
        np.testing.assert_allclose(single, want, rtol=0.0, atol=1e-13)
        np.testing.assert_array_equal(batch, want)


def test_other_threads_run_during_a_batch(arm):
    # With a switch interval of an hour, this thread runs only if the call releases the GIL.
    Q, out = np.zeros((30000, 9)), np.empty((30000, 6, 9))
    arm.warm_up(["panda_hand"])
    interval = sys.getswitchinterval()
    sys.setswitchinterval(3600.0)
    try:
        assert any(_seen_unfinished(lambda: arm.jacobian_batch(Q, "panda_hand", out)))
    finally:
        sys.setswitchinterval(interval)


def _seen_unfinished(work: Callable[[], object]) -> Iterator[bool]:
    """Yield, for each of 100 attempts, whether this thread ran during another's ``work``."""
    for _ in range(100):
        started, finished = threading.Event(), threading.Event()

        def run(started: threading.Event = started, finished: threading.Event = finished) -> None:
            started.set()
            work()
            finished.set()

        with ThreadPoolExecutor(1) as threads:
            done = threads.submit(run)
            started.wait()
            unfinished = not finished.is_set()
            done.result()
        yield unfinished
