# SPDX-License-Identifier: Apache-2.0
"""Joint controllers: commands in, references out. No ROS."""
