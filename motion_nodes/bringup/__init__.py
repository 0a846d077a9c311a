# SPDX-License-Identifier: Apache-2.0
"""Processes of a robot: the single source of the launch files and of ``motion up``."""
