# SPDX-License-Identifier: Apache-2.0
"""Random kinematic trees, and the same trees in pinocchio."""

import numpy as np
import pinocchio as pin
from scipy.spatial.transform import Rotation

from motion_nodes.core.robot.tree import Joint, JointKind, KinematicTree, Link, Mimic, frozen

MOVING = (JointKind.REVOLUTE, JointKind.PRISMATIC, JointKind.CONTINUOUS)


def random_tree(seed: int, actuated: int) -> KinematicTree:
    """Return a branching tree with so many actuated joints, and fixed and mimic ones in between."""
    rng = np.random.default_rng(seed)
    links, joints, masters = ["root"], [], []
    while len(masters) < actuated or len(joints) < actuated + 3:
        index, kind, mimic = len(joints), JointKind.FIXED, None
        draw = rng.uniform()
        if draw < 0.6 and len(masters) < actuated:
            kind = MOVING[rng.integers(3)]
            masters.append(f"joint{index}")
        elif draw < 0.75 and masters:
            kind = MOVING[rng.integers(3)]
            mimic = Mimic(str(rng.choice(masters)), *rng.uniform(-2.0, 2.0, 2))
        parent = links[-1] if rng.uniform() < 0.7 else str(rng.choice(links))
        joints.append(
            Joint(
                f"joint{index}",
                kind,
                parent,
                f"link{index}",
                frozen(_random_pose(rng)),
                frozen(_random_axis(rng)),
                mimic=mimic,
            )
        )
        links.append(f"link{index}")
    return KinematicTree(
        f"random{seed}", {name: Link(name) for name in links}, {j.name: j for j in joints}
    )


def _random_pose(rng: np.random.Generator) -> np.ndarray:
    X = np.eye(4)
    if rng.uniform() < 0.5:  # as robots are built: quarter turns, one offset
        X[:3, :3] = Rotation.from_euler("xyz", rng.integers(-2, 3, 3) * np.pi / 2).as_matrix()
        X[rng.integers(3), 3] = rng.uniform(-0.5, 0.5)
    else:
        X[:3, :3] = Rotation.random(random_state=rng).as_matrix()
        X[:3, 3] = rng.uniform(-0.5, 0.5, 3)
    return X


def _random_axis(rng: np.random.Generator) -> np.ndarray:
    axis = np.zeros(3)
    if rng.uniform() < 0.5:
        axis[rng.integers(3)] = rng.choice([-1.0, 1.0])
        return axis
    axis = rng.normal(size=3)
    return axis / np.linalg.norm(axis)


class Oracle:
    """Kinematics of a tree by pinocchio, which sees every moving joint as one of its own."""

    def __init__(self, tree: KinematicTree) -> None:
        self.tree = tree
        self.model = pin.Model()
        placement = {tree.root: (0, pin.SE3.Identity())}
        columns: list[tuple[int, float, float]] = []
        for link in tree.frame_names[1:]:
            joint = tree.parent_joint[link]
            parent, X_parent = placement[joint.parent]
            X = X_parent * pin.SE3(np.array(joint.X_PJ))
            if joint.movable:
                prismatic = joint.kind is JointKind.PRISMATIC
                kind = pin.JointModelPrismaticUnaligned if prismatic else None
                kind = kind or pin.JointModelRevoluteUnaligned
                index = self.model.addJoint(parent, kind(np.array(joint.axis)), X, joint.name)
                placement[link] = (index, pin.SE3.Identity())
                mimic = joint.mimic or Mimic(joint.name)
                master = tree.joint_names.index(mimic.joint)
                columns.append((master, mimic.multiplier, mimic.offset))
            else:
                placement[link] = (parent, X)
        self.frame_id = {
            link: self.model.addFrame(pin.Frame(link, *at, pin.FrameType.OP_FRAME))
            for link, at in placement.items()
        }
        self.data = self.model.createData()
        self.expand = np.zeros((self.model.nq, len(tree.joint_names)))
        self.shift = np.zeros(self.model.nq)
        for row, (master, multiplier, offset) in enumerate(columns):
            self.expand[row, master], self.shift[row] = multiplier, offset

    def pose(self, q: np.ndarray, frame: str, base: str | None = None) -> np.ndarray:
        pin.framesForwardKinematics(self.model, self.data, self.expand @ q + self.shift)
        X = self.data.oMf[self.frame_id[frame]]
        if base is not None:
            X = self.data.oMf[self.frame_id[base]].actInv(X)
        return X.homogeneous.copy()

    def jacobian(self, q: np.ndarray, frame: str, base: str | None = None) -> np.ndarray:
        full = self.expand @ q + self.shift
        pin.computeJointJacobians(self.model, self.data, full)
        pin.updateFramePlacements(self.model, self.data)
        J = self._jacobian(frame)
        if base is None:
            return J
        X_RB, X_RF = (self.data.oMf[self.frame_id[name]] for name in (base, frame))
        J_B = self._jacobian(base)
        lever = pin.skew(X_RF.translation - X_RB.translation)
        linear = J[:3] - J_B[:3] + lever @ J_B[3:]
        turn = X_RB.rotation.T
        return np.vstack([turn @ linear, turn @ (J[3:] - J_B[3:])])

    def _jacobian(self, frame: str) -> np.ndarray:
        reference = pin.ReferenceFrame.LOCAL_WORLD_ALIGNED
        J = pin.getFrameJacobian(self.model, self.data, self.frame_id[frame], reference)
        return J.reshape(6, self.model.nv) @ self.expand  # one joint: it comes as a vector
