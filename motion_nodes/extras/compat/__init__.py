# SPDX-License-Identifier: Apache-2.0
"""Interfaces, conventions and file formats of other systems.

Isaac Sim's and Lula's classes, Isaac SDK's kinematic files, Denavit-Hartenberg tables, dual
quaternions. Nothing else in the suite depends on this package.
"""
