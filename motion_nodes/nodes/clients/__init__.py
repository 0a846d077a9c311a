# SPDX-License-Identifier: Apache-2.0
"""Clients of a running suite, which implement commands of `motion`."""
