# SPDX-License-Identifier: Apache-2.0
"""Hostile messages to every endpoint of a running suite, with invariants.

``make fuzz`` runs it; ``python -m fuzz --help`` lists the options.
"""
