# SPDX-License-Identifier: Apache-2.0
"""File formats of other systems."""
