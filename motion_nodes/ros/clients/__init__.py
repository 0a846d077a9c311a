# SPDX-License-Identifier: Apache-2.0
"""What asks others: actions, services, lifecycle changes."""
