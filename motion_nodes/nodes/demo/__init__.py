# SPDX-License-Identifier: Apache-2.0
"""What `motion demo` shows: clients of a suite that is starting, and what they do with it."""
