def address(host, port):
    """HOST:PORT, where an IPv6 host has colons of its own."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
