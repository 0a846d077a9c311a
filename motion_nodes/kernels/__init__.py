# SPDX-License-Identifier: Apache-2.0
"""Numerical kernels: generated per robot with LLVM, or compiled once by Numba.

The straight-line code of one robot is generated in four steps, one module each:

1. :mod:`~motion_nodes.kernels.kinematic_arrays`: the robot as plain arrays, with fixed joints and
   another root frame where requested.
2. :mod:`~motion_nodes.kernels.expression_graph`, :mod:`~motion_nodes.kernels.robot_codegen`:
   evaluate the textbook formulas on symbols and record the operations that are needed.
3. :mod:`~motion_nodes.kernels.llvm_text`: write these operations as LLVM code, for one
   configuration or for 2 to 16 side by side in SIMD registers.
4. :mod:`~motion_nodes.kernels.native`, :mod:`~motion_nodes.kernels.cache`: compile to machine code
   and cache it on disk, so that the next start only loads it.

:mod:`~motion_nodes.kernels.robot_codegen` combines these steps.
:mod:`~motion_nodes.kernels.numpy_kinematics` computes the same from the arrays with plain loops,
for robots that are evaluated a few times, and as the reference of the tests.

Formulas are in ``formulas``, each once: evaluated on symbols they become generated code, with NumPy
they serve reports. Code for one purpose has its own folder: ``collision``, ``rmp``, ``ik``,
``search`` (trees and paths of the planners), ``timing``, ``mpc`` and ``voxels``. Importing this
package imports neither Numba nor LLVM.
"""

uses_blas = True
"""Whether functions of Numba may call BLAS, which loads SciPy's linear algebra (0.13 s, 14 MB); no
kernel does. Processes of nodes set this to False before they import kernels."""
