# SPDX-License-Identifier: Apache-2.0
"""Inverse kinematics: joint positions for a pose of a chain's tip, or the reason why none exist.

:class:`~motion_nodes.ik.chain.IkChain` defines the chain;
:func:`~motion_nodes.ik.solvers.make_solver` returns a solver for it by name; a solver converts an
:class:`~motion_nodes.ik.problem.IkRequest` to an
:class:`~motion_nodes.ik.problem.IkResult`.
"""
