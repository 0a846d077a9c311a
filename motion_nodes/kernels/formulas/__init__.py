# SPDX-License-Identifier: Apache-2.0
"""Formulas, each written once, over an object ``ops`` (:mod:`~motion_nodes.kernels.formulas.ops`).

With an :class:`~motion_nodes.kernels.expression_graph.ExpressionGraph` they become generated code;
with :class:`~motion_nodes.kernels.formulas.ops.NumpyOps` they are evaluated on arrays, for reports.
"""
