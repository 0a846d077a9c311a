# SPDX-License-Identifier: Apache-2.0
"""Clients behind commands of `motion`: each asks a running suite and ends."""
