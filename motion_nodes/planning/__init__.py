# SPDX-License-Identifier: Apache-2.0
"""Planning: from a goal to a path free of collisions, and to a trajectory."""
