# SPDX-License-Identifier: Apache-2.0
"""Functions with which a language model controls a suite: validation, dry runs, an MCP server."""
