# SPDX-License-Identifier: Apache-2.0
"""Inverse kinematics: which joint values bring the tip of a chain to a pose, or why none do.

:class:`~motion_nodes.ik.chain.IkChain` says what moves what;
:func:`~motion_nodes.ik.solvers.make_solver` returns a solver for it by name; a solver takes an
:class:`~motion_nodes.ik.problem.IkRequest` and returns an
:class:`~motion_nodes.ik.problem.IkResult`.
"""
