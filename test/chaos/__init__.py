# SPDX-License-Identifier: Apache-2.0
"""Faults of processes, disks, clocks and networks in a working suite, and what must hold meanwhile.

``make chaos`` runs it; ``python -m chaos --help`` lists the options.
"""
