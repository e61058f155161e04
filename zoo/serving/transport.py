"""What the ways to a server have in common."""

import collections


class Temporary(ConnectionError):
    """It may go well a moment later: the server is away, or full."""


# The version that a server has, as a str, and its signatures, {name: a SignatureDef}.
Metadata = collections.namedtuple("Metadata", ["version", "signatures"])


def first_line(text):
    """The first line of what a server said, which may be long, or nothing."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")
