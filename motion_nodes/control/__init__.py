# SPDX-License-Identifier: Apache-2.0
"""Controllers of joints: commands in, references out. No ROS."""
