"""Texts as bytes, which are what TensorFlow's strings are."""

import numpy as np
import tensorflow as tf


def to_bytes(texts):
    """A list of str or bytes as a list of bytes; what the shell could not decode is kept."""
    if isinstance(texts, (tf.Tensor, np.ndarray)):
        texts = np.asarray(texts).tolist()
    is_list = isinstance(texts, (list, tuple))
    if not is_list or not all(isinstance(text, (str, bytes)) for text in texts):
        raise ValueError(f"`texts` must be a list of strings. Received: texts={texts!r}")
    return [text if isinstance(text, bytes) else _encode(text) for text in texts]


def _encode(text):
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def is_utf8(text):
    """Whether bytes are a text that JSON can have as it is."""
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
