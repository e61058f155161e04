import codecs
import gzip
import itertools
import zlib

UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_lines(path):
    """The lines of a file or pipe, gzip or not; bytes that are no UTF-8 become U+FFFD.

    The file is opened at once, and read as it goes.
    """
    return _lines(open(path, "rb"), path)  # noqa: SIM115


def _lines(file, path):
    with file:
        is_gzip = file.peek(2)[:2] == b"\x1f\x8b"
        try:
            yield from decode_lines(gzip.GzipFile(fileobj=file) if is_gzip else file, path)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{path} is damaged: {error}") from error


def decode_lines(lines, name="The input"):
    """Yields lines of bytes as text, without their ends and without a byte order mark."""
    lines = iter(lines)
    for first in itertools.islice(lines, 1):
        if first.startswith(UTF_16):
            raise ValueError(f"{name} is UTF-16. `iconv -f UTF-16 -t UTF-8` writes it as UTF-8")
        yield _text(first.removeprefix(codecs.BOM_UTF8))
    yield from map(_text, lines)


def _text(line):
    return line.decode("utf-8", "replace").rstrip("\r\n")
