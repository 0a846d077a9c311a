# SPDX-License-Identifier: Apache-2.0
"""The front door: what ``import motion_nodes`` offers is defined here and in the rooms below."""
