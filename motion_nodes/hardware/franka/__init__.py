# SPDX-License-Identifier: Apache-2.0
"""Arms of Franka Robotics (FR3, Panda) with the Franka Hand, by franky and libfranka."""
