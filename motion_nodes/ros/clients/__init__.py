# SPDX-License-Identifier: Apache-2.0
"""Clients of other nodes' actions and services, and lifecycle transitions."""
