# SPDX-License-Identifier: Apache-2.0
"""Planning: from a goal to a collision-free path, and to a trajectory."""
