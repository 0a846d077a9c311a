# SPDX-License-Identifier: Apache-2.0
"""Fault injection (processes, disks, clocks, networks) into a working suite, with invariants.

``make chaos`` runs it; ``python -m chaos --help`` lists the options.
"""
