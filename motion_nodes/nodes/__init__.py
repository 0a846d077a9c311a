# SPDX-License-Identifier: Apache-2.0
"""The nodes: each joins a core object to ROS endpoints and contains no formula."""
