# SPDX-License-Identifier: Apache-2.0
"""Arms of Universal Robots: CB3, e-Series and UR series with PolyScope."""
