# SPDX-License-Identifier: Apache-2.0
"""From a URDF to a complete robot: missing data is derived, measured, or estimated."""
