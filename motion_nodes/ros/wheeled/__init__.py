# SPDX-License-Identifier: Apache-2.0
"""What the nodes of wheeled bases share."""
