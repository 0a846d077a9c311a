# SPDX-License-Identifier: Apache-2.0
"""Fast numerical code: generated per robot, or compiled by Numba for every robot.

The straight-line code of one robot comes to be in four steps, one file each:

1. :mod:`~motion_nodes.kernels.kinematic_arrays`: the robot as plain arrays; fix joints, choose
another base. 2. :mod:`~motion_nodes.kernels.expression_graph`,
:mod:`~motion_nodes.kernels.kinematics_codegen`: run the textbook
   formulas on symbols instead of numbers and write down each multiplication that is really needed.
3. :mod:`~motion_nodes.kernels.llvm_text`: write that list as LLVM code for one configuration, or
   for 4, 8 or 16 side by side in the wide registers of the CPU.
4. :mod:`~motion_nodes.kernels.native`, :mod:`~motion_nodes.kernels.cache`: machine code, kept on
   disk, so that the next start only loads it.

:mod:`~motion_nodes.kernels.robot_codegen` ties the steps together.
:mod:`~motion_nodes.kernels.numpy_kinematics` computes the same from the arrays with plain loops:
the oracle of the tests and the fallback.

What is generated or compiled for one purpose has a folder of its own: ``collision``, ``rmp``,
``ik``, ``search`` (trees and paths of the planners) and ``timing``. Importing
this package imports neither Numba nor LLVM.
"""
