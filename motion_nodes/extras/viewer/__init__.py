# SPDX-License-Identifier: Apache-2.0
"""The browser viewer: robots in a web page, drawn by viser, without ROS."""
