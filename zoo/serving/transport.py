"""What the ways to a server have in common."""

import collections


class Temporary(ConnectionError):
    """It may go well a moment later: the server is away, or full."""


# The version that a server has, as a str, and its signatures, {name: a SignatureDef}.
Metadata = collections.namedtuple("Metadata", ["version", "signatures"])
