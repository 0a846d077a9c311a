# SPDX-License-Identifier: Apache-2.0
"""What stands on the core and can be left out: simulation, viewer, drivers, learning and more."""
