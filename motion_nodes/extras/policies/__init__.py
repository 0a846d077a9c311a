# SPDX-License-Identifier: Apache-2.0
"""Learned policies: networks, their descriptions, observations and actions."""
