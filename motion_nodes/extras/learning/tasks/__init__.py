# SPDX-License-Identifier: Apache-2.0
"""Tasks to learn in MuJoCo: reach, grasp and drawer with the Franka, walk with the Go2."""
