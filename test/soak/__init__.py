# SPDX-License-Identifier: Apache-2.0
"""Hours of valid random work, and what drifts meanwhile: memory, handles, threads, latency.

``make soak MINUTES=120`` runs it.
"""
