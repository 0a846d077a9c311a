# SPDX-License-Identifier: Apache-2.0
"""Reinforcement learning: PPO on NumPy, tasks in MuJoCo, and export of policies to ONNX."""
