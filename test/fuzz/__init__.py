# SPDX-License-Identifier: Apache-2.0
"""Hostile messages to every endpoint of a running suite, and what must hold meanwhile.

``make fuzz`` runs it; ``python -m fuzz --help`` lists what can be chosen.
"""
