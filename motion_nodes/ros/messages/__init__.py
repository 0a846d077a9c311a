# SPDX-License-Identifier: Apache-2.0
"""Conversion between messages and the core's types."""
