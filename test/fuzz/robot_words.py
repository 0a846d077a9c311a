# SPDX-License-Identifier: Apache-2.0
"""Lists of robots on the command line."""


def robot_words(text: str) -> list[str]:
    """Return the placements in a comma-separated list, which contain commas themselves."""
    words: list[str] = []
    for part in text.split(","):
        if ":=" in part:
            words.append(part)
        else:
            words[-1] += f",{part}"
    return words
