# SPDX-License-Identifier: Apache-2.0
"""Trees and paths of the planners, compiled by Numba."""
