# SPDX-License-Identifier: Apache-2.0
"""What joints may push with, where the robot's own drives follow positions.

Such a drive takes no effort limit with a command. But its push is its stiffness times the distance
to its target, so a target that never leads by more than ``bound / stiffness`` bounds the push:

    |q* - q| <= bound / kp   =>   |kp (q* - q)| <= bound

Its damping only takes from that, for a target that is held back has no speed.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from motion_nodes.control.joint_controller import JointReference

Array = NDArray[np.float64]


def held_back(
    reference: JointReference, position: Array, bounds: Array, stiffness: Array
) -> JointReference:
    """Return a reference that leads joints by no more than their bounds allow.

    Args:
        reference: where they are led.
        position: where they are [rad or m], shape (n,).
        bounds: what each may push with [N m or N], shape (n,); infinite for no bound.
        stiffness: of their drives [N m/rad or N/m], shape (n,); 0 where it is not known, and
            nothing is held back.
    """
    if np.isinf(bounds).all():
        return reference
    reach = np.divide(bounds, stiffness, out=np.full_like(bounds, np.inf), where=stiffness > 0.0)
    near = reference.positions.clip(position - reach, position + reach)
    back = near != reference.positions
    back &= ~np.isnan(reference.positions)
    velocities = np.where(back, 0.0, reference.velocities)
    return dataclasses.replace(reference, positions=near, velocities=velocities)
