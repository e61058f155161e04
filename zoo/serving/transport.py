"""What the ways to a server have in common."""

import collections


class Temporary(ConnectionError):
    """It may go well a moment later: the server is away, or full."""


# The version that a server has, as a str, and its signatures, {name: a SignatureDef}.
Metadata = collections.namedtuple("Metadata", ["version", "signatures"])


def address(host, port):
    """HOST:PORT, where an IPv6 host has colons of its own."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
