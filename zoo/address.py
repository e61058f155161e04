def address(host, port):
    """HOST:PORT, where an IPv6 host has colons of its own."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_address(text):
    """Whether a text is HOST:PORT."""
    host, _, port = text.rpartition(":")
    return bool(host) and port.isdecimal() and 0 < int(port) < 65536
