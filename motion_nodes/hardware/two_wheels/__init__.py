# SPDX-License-Identifier: Apache-2.0
"""Two-wheeled bases with a microcontroller on a serial line."""
