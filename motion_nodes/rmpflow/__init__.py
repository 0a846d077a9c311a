# SPDX-License-Identifier: Apache-2.0
"""RMPflow: a policy that moves a robot towards a target and away from everything in the way."""
