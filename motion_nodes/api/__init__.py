# SPDX-License-Identifier: Apache-2.0
"""The public API: classes and functions of ``import motion_nodes``."""
