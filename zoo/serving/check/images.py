"""Images, and bytes that are none, that clients will send one day."""

import base64
import struct
import zlib

import numpy as np
import tensorflow as tf

# Two pictures of 3 x 2 pixels, red and green; and 8 x 8 pixels in CMYK.
GIF = (
    "R0lGODlhAwACAIEAAP8AAAD/AAAAAAAAACH/C05FVFNDQVBFMi4wAwEAAAAh+QQABQAAACwAAAAAAwACAAAIBgAB"
    "CBwYEAAh+QQBBQABACwAAAAAAwACAIEA/wAAAAAAAAAAAAAIBgABCBwYEAA7"
)
CMYK = (
    "/9j/7gAOQWRvYmUAZAAAAAAA/9sAQwAbEhQXFBEbFxYXHhwbIChCKyglJShROj0wQmBVZWRfVV1baniZgWpxkHNb"
    "XYW1hpCeo6utq2eAvMm6pseZqKuk/8AAFAgACAAIBEMRAE0RAFkRAEsRAP/EABUAAQEAAAAAAAAAAAAAAAAAAAUG"
    "/8QAFBABAAAAAAAAAAAAAAAAAAAAAP/aAA4EQwBNAFkASwAAPwCmEiVM/9k="
)


def awkward_images(whole):
    """Files that a model of images has to answer, {name: bytes}; `whole` is one that it knows."""
    return {
        "no bytes": b"",
        "a text": b"this is no image",
        "zeros": b"\x00" * 1000,
        "the first bytes of a JPEG": b"\xff\xd8\xff\xe0\x00\x10JFIF\x00",
        "the first bytes of a PNG": b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
        "half of a file": whole[: len(whole) // 2],
        "a file with more behind it": whole + b"\x00more" * 100,
        "a PNG that says it has 2**31 - 1 pixels a side": _boast(2**31 - 1),
        "a PNG that says it has 10,000 pixels a side": _boast(10_000),
        "one pixel": _png((1, 1, 3)),
        "a picture of 2,000 x 1 pixels": _png((1, 2000, 3)),
        "a grey picture": _png((5, 7, 1)),
        "a grey picture that is partly clear": _png((5, 7, 2)),
        "a picture that is partly clear": _png((5, 7, 4)),
        "16 bits": _png((5, 7, 3), "uint16"),
        "a grey JPEG": tf.io.encode_jpeg(_pixels((5, 7, 1))).numpy(),
        "a JPEG in CMYK": base64.b64decode(CMYK),
        "a GIF of two pictures": base64.b64decode(GIF),
        "a picture of 4,000 x 3,000 pixels": tf.io.encode_png(
            np.zeros((3000, 4000, 1), "uint8"), compression=9
        ).numpy(),
    }


def _pixels(shape, dtype="uint8"):
    return np.random.default_rng(0).integers(0, np.iinfo(dtype).max, shape, dtype)


def _png(shape, dtype="uint8"):
    return tf.io.encode_png(_pixels(shape, dtype)).numpy()


def _boast(side):
    """The header of a large PNG, and nothing behind it."""
    header = b"IHDR" + struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    checksum = struct.pack(">I", zlib.crc32(header))
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", len(header) - 4) + header + checksum
