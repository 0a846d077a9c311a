# SPDX-License-Identifier: Apache-2.0
"""RMPflow as generated code: RMPs, distances and the resolution of accelerations."""
