# SPDX-License-Identifier: Apache-2.0
"""Joints of a controller under impedance control, until another command preempts it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from motion_nodes.control.impedance.cartesian_impedance import CartesianImpedance
from motion_nodes.control.joint_controller import ArticulationController
from motion_nodes.model.limits import joint_indices
from motion_nodes.typing import Array


class Compliance:
    """Applies an impedance law to the joints of an :class:`ArticulationController`.

    The references of these joints follow the measured state, which is the start state of the next
    command.
    """

    def __init__(self, controller: ArticulationController) -> None:
        """Create without a law."""
        self._controller = controller
        self.law: CartesianImpedance | None = None
        """The active law; None if there is none."""
        self.joints: NDArray[np.intp] = np.zeros(0, np.intp)
        """Indices of its joints."""

    def joints_of(self, law: CartesianImpedance) -> NDArray[np.intp]:
        """Return the indices of a law's joints, shape (n,).

        Raises:
            UnknownJoint: a joint that the controller does not have.
        """
        return joint_indices(law.joint_names, self._controller.joint_names, "this controller")

    def begin(
        self, law: CartesianImpedance, position: Array, velocity: Array, effort: Array | None
    ) -> None:
        """Activate a law, which holds the current pose of the tool.

        Args:
            law: law of a subset of the controller's joints.
            position: measured positions of all joints [rad or m], shape (n,).
            velocity: measured [rad/s or m/s], shape (n,).
            effort: measured efforts [N m or N], shape (n,); None: not measured.
        """
        joints = self.joints_of(law)
        efforts = None if effort is None else effort[joints]
        law.reset(position[joints], velocity[joints], efforts)
        self.law, self.joints = law, joints

    def end(self) -> NDArray[np.intp]:
        """Deactivate the law; return the indices of its joints, (n,); references keep moving."""
        joints = self.joints
        if self.law is not None:
            self._controller.end_compliance(joints)
            self.law, self.joints = None, np.zeros(0, np.intp)
        return joints

    def step(self, dt: float, position: Array, velocity: Array, effort: Array | None) -> None:
        """Set the efforts of this step in the controller.

        Args:
            dt: time since the last step [s].
            position: measured positions of all joints [rad or m], shape (n,).
            velocity: measured [rad/s or m/s], shape (n,).
            effort: measured efforts [N m or N], shape (n,); None: no new measurement.
        """
        if self.law is None or dt <= 0.0:
            return
        j = self.joints
        tau = self.law.step(position[j], velocity[j], dt, None if effort is None else effort[j])
        self._controller.comply(j, tau, position, velocity)
