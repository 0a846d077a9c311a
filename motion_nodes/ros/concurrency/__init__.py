# SPDX-License-Identifier: Apache-2.0
"""Threads, queues and loops between executors, control loops and actions."""
