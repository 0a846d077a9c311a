# SPDX-License-Identifier: Apache-2.0
"""RMPflow: a reactive motion policy towards a target with obstacle avoidance."""
