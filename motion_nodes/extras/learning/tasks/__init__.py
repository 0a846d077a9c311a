# SPDX-License-Identifier: Apache-2.0
"""Tasks to learn: reach, grasp and drawer with the Franka, in MuJoCo."""
