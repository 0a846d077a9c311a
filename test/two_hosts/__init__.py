# SPDX-License-Identifier: Apache-2.0
"""Two hosts on one machine: network namespaces connected by a cable that can be cut."""
