# SPDX-License-Identifier: Apache-2.0
"""Tasks: from sentences to plans of skills, validated, executed and repaired; without ROS."""
