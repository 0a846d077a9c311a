# SPDX-License-Identifier: Apache-2.0
"""Compiles the message packages that are not on PyPI, on top of the ROS 2 wheels.

``packages/`` declares them field by field. ``motion setup``, the first ``motion up`` and
``python -m motion_nodes.interface_build`` compile them to a wheel and install it.
"""
