# SPDX-License-Identifier: Apache-2.0
"""Feetech STS servos: SO-100, SO-101 and other arms with a serial bus."""
