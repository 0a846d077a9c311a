# SPDX-License-Identifier: Apache-2.0
"""The leaves of RMPflow, their distances and their resolution as generated code."""
