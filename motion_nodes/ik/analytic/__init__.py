# SPDX-License-Identifier: Apache-2.0
"""Analytic inverse kinematics: all solutions of arms whose axes permit a closed form.

:class:`~motion_nodes.ik.analytic.solver.AnalyticIk` is the solver;
:mod:`~motion_nodes.ik.analytic.structure` determines whether an arm has a closed form, and which.
"""
