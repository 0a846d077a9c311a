# SPDX-License-Identifier: Apache-2.0
"""Hours of valid random work, and the drift of memory, handles, threads and latency.

``make soak MINUTES=120`` runs it.
"""
