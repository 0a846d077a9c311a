# SPDX-License-Identifier: Apache-2.0
"""Reactive model predictive control of an arm by sampled motions."""
