# SPDX-License-Identifier: Apache-2.0
"""Inverse kinematics: joint positions for a pose of a chain's tip, or the reason why none exist.

:class:`chain.IkChain` defines the chain;
:func:`solvers.make_solver` returns a solver for it by name; a solver converts an
:class:`problem.IkRequest` to an
:class:`problem.IkResult`.
"""
