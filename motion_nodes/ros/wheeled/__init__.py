# SPDX-License-Identifier: Apache-2.0
"""Common code of the nodes of wheeled bases."""
