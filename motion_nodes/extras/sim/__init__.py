# SPDX-License-Identifier: Apache-2.0
"""Simulated robots: a MuJoCo world and a mock behind one protocol."""
