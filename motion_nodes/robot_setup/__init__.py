# SPDX-License-Identifier: Apache-2.0
"""From a URDF to a robot that the whole suite runs: what is missing is found, measured, guessed."""
