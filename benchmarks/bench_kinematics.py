# SPDX-License-Identifier: Apache-2.0
"""Kinematics of the Franka beside pinocchio and MuJoCo, and the start of a fresh process.

Run: ``python benchmarks/bench_kinematics.py`` (a minute; needs ``pin`` and ``mujoco``).

Contenders take turns in short rounds on one core, so that a busy machine slows all of them alike;
medians over the rounds are shown. Results are compared before anything is timed.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import mujoco
import numpy as np
import pinocchio as pin
from mujoco_urdf import without_shapes

from motion_nodes.kernels import native
from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.loader import load_robot

FRAME = "panda_hand_tcp"
Task = Mapping[str, Callable[[], object]]


class Pinocchio:
    """The robot in pinocchio."""

    def __init__(self, urdf: str) -> None:
        self.model = pin.buildModelFromXML(urdf)
        self.data = self.model.createData()
        self.frame = self.model.getFrameId(FRAME)
        self.reference = pin.ReferenceFrame.LOCAL_WORLD_ALIGNED

    def frames(self, q: np.ndarray) -> None:
        """Compute all frames; they stay in C++."""
        pin.framesForwardKinematics(self.model, self.data, q)

    def frames_to_numpy(self, q: np.ndarray) -> np.ndarray:
        """Compute all frames and bring them to Python."""
        pin.framesForwardKinematics(self.model, self.data, q)
        return np.array([X.homogeneous for X in self.data.oMf])

    def jacobian(self, q: np.ndarray) -> np.ndarray:
        """Return the Jacobian of the frame."""
        return pin.computeFrameJacobian(self.model, self.data, q, self.frame, self.reference)

    def both(self, q: np.ndarray) -> tuple[object, np.ndarray]:
        """Return pose and Jacobian of the frame."""
        pin.computeJointJacobians(self.model, self.data, q)
        pin.updateFramePlacements(self.model, self.data)
        J = pin.getFrameJacobian(self.model, self.data, self.frame, self.reference)
        return self.data.oMf[self.frame], J

    def both_fast(self, q: np.ndarray) -> tuple[object, np.ndarray]:
        """Return the same by the shortest way, which leaves the other frames out."""
        J = pin.computeFrameJacobian(self.model, self.data, q, self.frame, self.reference)
        return pin.updateFramePlacement(self.model, self.data, self.frame), J


class Mujoco:
    """The robot in MuJoCo, which keeps only bodies with mass: the frame is a point of one."""

    def __init__(self, urdf: str, X_LF: np.ndarray, link: str) -> None:
        spec = mujoco.MjSpec.from_string(without_shapes(urdf))
        spec.compiler.fusestatic = False
        self.model = spec.compile()
        self.data = mujoco.MjData(self.model)
        self.body = mujoco.mj_name2id(self.model, mujoco.mjtObj.mjOBJ_BODY, link)
        self.offset = X_LF[:3, 3]
        self.linear = np.zeros((3, self.model.nv))
        self.angular = np.zeros((3, self.model.nv))

    def frames(self, q: np.ndarray) -> np.ndarray:
        """Compute the poses of all bodies."""
        self.data.qpos[:] = q
        mujoco.mj_kinematics(self.model, self.data)
        return self.data.xpos

    def jacobian(self, q: np.ndarray) -> np.ndarray:
        """Compute the Jacobian at the frame's origin."""
        self.frames(q)
        mujoco.mj_comPos(self.model, self.data)
        R = self.data.xmat[self.body].reshape(3, 3)
        point = self.data.xpos[self.body] + R @ self.offset
        mujoco.mj_jac(self.model, self.data, self.linear, self.angular, point, self.body)
        return self.linear


def rounds(tasks: Task, seconds: float, count: int) -> dict[str, float]:
    """Return the median time of one call of each task [ns]."""
    repeat = {}
    for name, task in tasks.items():
        start = time.perf_counter()
        for _ in range(20):
            task()
        repeat[name] = max(1, int(seconds * 20 / (time.perf_counter() - start)))
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(count):
        for name, task in tasks.items():
            start = time.perf_counter_ns()
            for _ in range(repeat[name]):
                task()
            times[name].append((time.perf_counter_ns() - start) / repeat[name])
    return {name: statistics.median(values) for name, values in times.items()}


def table(title: str, times: Mapping[str, float], per: float = 1.0) -> None:
    """Print times and their ratio to the first peer's, which is the second line."""
    print(f"\n{title}")
    names = list(times)
    for name in names:
        ratio = f"{times[name] / times[names[1]]:8.3f}" if len(names) > 1 else ""
        print(f"  {name:<58}{times[name] / per:10.1f} ns {ratio}")


def check(ours: Kinematics, peer: Pinocchio, other: Mujoco, q: np.ndarray) -> None:
    """Compare the results of all contenders."""
    X, J = ours.pose_and_jacobian(q, FRAME)
    X_peer, J_peer = peer.both(q)
    np.testing.assert_allclose(X, X_peer.homogeneous, atol=1e-12)
    np.testing.assert_allclose(J, J_peer, atol=1e-12)
    other.jacobian(q)
    np.testing.assert_allclose(J[:3], other.linear, atol=1e-9)
    np.testing.assert_allclose(J[3:], other.angular, atol=1e-9)


def steady(seconds: float, count: int, batch: int) -> None:
    """Time single calls and batches."""
    robot = load_robot("franka")
    ours, peer = Kinematics(robot.tree), Pinocchio(robot.urdf)
    link, X_LF = body_of(robot.tree, FRAME)
    other = Mujoco(robot.urdf, X_LF, link)
    ours.warm_up([FRAME])
    joints = [robot.tree.joint(name) for name in ours.joint_names]
    limits = [(max(joint.lower, -3.0), min(joint.upper, 3.0)) for joint in joints]
    Q = np.random.default_rng(0).uniform(*np.array(limits).T, (batch, len(limits)))
    q = Q[0].copy()
    check(ours, peer, other, q)
    out = np.empty((len(ours.frame_names), 4, 4))
    table(
        f"Single call: poses of all {len(out)} frames",
        rounds(
            {
                "motion_nodes frames(q)": lambda: ours.frames(q),
                "pinocchio framesForwardKinematics, results left in C++": lambda: peer.frames(q),
                "pinocchio, results brought to Python": lambda: peer.frames_to_numpy(q),
                "MuJoCo mj_kinematics": lambda: other.frames(q),
            },
            seconds,
            count,
        ),
    )
    table(
        f"Single call: Jacobian of {FRAME}",
        rounds(
            {
                "motion_nodes jacobian(q, frame)": lambda: ours.jacobian(q, FRAME),
                "pinocchio computeFrameJacobian": lambda: peer.jacobian(q),
                "MuJoCo mj_kinematics, mj_comPos, mj_jac": lambda: other.jacobian(q),
            },
            seconds,
            count,
        ),
    )
    table(
        "Single call: pose and Jacobian",
        rounds(
            {
                "motion_nodes pose_and_jacobian(q, frame)": lambda: ours.pose_and_jacobian(
                    q, FRAME
                ),
                "pinocchio computeFrameJacobian, updateFramePlacement": lambda: peer.both_fast(q),
                "pinocchio JointJacobians, FramePlacements, FrameJacobian": lambda: peer.both(q),
                "MuJoCo mj_kinematics, mj_comPos, mj_jac": lambda: other.jacobian(q),
            },
            seconds,
            count,
        ),
    )
    batches(ours, peer, other, Q, seconds, count)


def batches(
    ours: Kinematics, peer: Pinocchio, other: Mujoco, Q: np.ndarray, seconds: float, count: int
) -> None:
    """Time batches; the peers have none, so they loop in Python."""
    m, n = Q.shape
    X_all = np.empty((m, len(ours.frame_names), 4, 4))
    X, J = np.empty((m, 4, 4)), np.empty((m, 6, n))
    title = f"Batch of {m}, per configuration"
    table(
        f"{title}: poses of all frames",
        rounds(
            {
                "motion_nodes frames_batch(Q, out)": lambda: ours.frames_batch(Q, X_all),
                "pinocchio framesForwardKinematics": lambda: [peer.frames(q) for q in Q],
                "MuJoCo mj_kinematics": lambda: [other.frames(q) for q in Q],
            },
            seconds,
            count,
        ),
        m,
    )
    table(
        f"{title}: pose of one frame",
        rounds(
            {
                "motion_nodes pose_batch(Q, frame, out)": lambda: ours.pose_batch(Q, FRAME, X),
                "pinocchio framesForwardKinematics": lambda: [peer.frames(q) for q in Q],
            },
            seconds,
            count,
        ),
        m,
    )
    table(
        f"{title}: Jacobian",
        rounds(
            {
                "motion_nodes jacobian_batch(Q, frame, out)": lambda: ours.jacobian_batch(
                    Q, FRAME, J
                ),
                "pinocchio computeFrameJacobian": lambda: [peer.jacobian(q) for q in Q],
                "MuJoCo mj_kinematics, mj_comPos, mj_jac": lambda: [other.jacobian(q) for q in Q],
            },
            seconds,
            count,
        ),
        m,
    )


def body_of(tree: object, frame: str) -> tuple[str, np.ndarray]:
    """Return the nearest link above a frame that has mass, and the frame's pose in it."""
    X_LF, link = np.eye(4), frame
    while tree.links[link].inertial is None:
        joint = tree.parent_joint[link]
        X_LF, link = joint.X_PJ @ X_LF, joint.parent
    return link, X_LF


START = """
import time
start = time.perf_counter()
import numpy
numpy_in = time.perf_counter()
from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.loader import load_robot
tree = load_robot("franka").tree
ready = time.perf_counter()
kinematics = Kinematics(tree)
kinematics.warm_up()
warm = time.perf_counter()
import sys
lean = "numba" not in sys.modules
import numba
print(warm - ready, time.perf_counter() - warm, numpy_in - start, ready - numpy_in, int(lean))
"""


def starts(count: int) -> None:
    """Time Kinematics(tree).warm_up() in fresh processes, without and with a filled cache."""
    print("\nStart in a fresh process, all frames, milliseconds (median)")
    print("                        Kinematics + warm_up   (import numba)   Numba needed")
    with tempfile.TemporaryDirectory() as folder:
        for label in ("cold, empty cache", "warm, from the cache"):
            rows = []
            for index in range(count):
                name = f"{index}" if label.startswith("cold") else "0"
                environment = {**os.environ, "MOTION_NODES_CACHE_DIR": str(Path(folder, name))}
                command = [sys.executable, "-c", START]
                done = subprocess.run(
                    command, env=environment, capture_output=True, text=True, check=True
                )
                rows.append([float(word) for word in done.stdout.split()])
            warm_up, numba, *_, lean = (statistics.median(c) for c in zip(*rows, strict=True))
            needed = "no" if lean else "yes"
            print(f"  {label:<26}{warm_up * 1e3:12.0f}{numba * 1e3:20.0f}{needed:>14}")


def machine() -> None:
    """Print what the figures were measured on."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    cpu = native.host_cpu()
    print(f"CPU: {names[0] if names else platform.processor()} ({cpu.name}),", end=" ")
    print(f"{cpu.register_bits}-bit registers, {os.cpu_count()} cores")
    packages = ("numpy", "numba", "llvmlite", "pin", "mujoco")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    print(f"Python {platform.python_version()}, {versions}")


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.01, help="length of a round")
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--batch", type=int, default=256, help="configurations in a batch")
    parser.add_argument("--starts", type=int, default=3, help="fresh processes of each kind")
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    machine()
    steady(options.seconds, options.rounds, options.batch)
    starts(options.starts)


if __name__ == "__main__":
    main()
