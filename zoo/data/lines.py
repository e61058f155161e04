import gzip


def read_lines(path):
    """Yields the lines of a file or pipe, gzip or not; bytes that are no UTF-8 become U+FFFD."""
    with open(path, "rb") as file:
        is_gzip = file.peek(2)[:2] == b"\x1f\x8b"
        yield from decode_lines(gzip.GzipFile(fileobj=file) if is_gzip else file)


def decode_lines(lines):
    """Yields lines of bytes as text, without their ends."""
    for line in lines:
        yield line.decode("utf-8", "replace").rstrip("\r\n")
