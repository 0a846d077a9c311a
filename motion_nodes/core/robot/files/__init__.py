# SPDX-License-Identifier: Apache-2.0
"""File formats of robots and their settings: one module per format."""
