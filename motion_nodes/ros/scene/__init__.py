# SPDX-License-Identifier: Apache-2.0
"""The planning scene over ROS: messages to scenes and back, and what follows a scene."""
