# SPDX-License-Identifier: Apache-2.0
"""Motion planning with constraints along the path."""
