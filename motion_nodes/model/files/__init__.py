# SPDX-License-Identifier: Apache-2.0
"""Files about robots and their settings, each read and written in one module."""
