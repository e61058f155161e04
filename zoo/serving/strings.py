"""Texts as bytes, which are what TensorFlow's strings are."""

import numpy as np
import tensorflow as tf

from zoo.text.tokenizer import valid_utf8


def to_bytes(texts):
    """A list of str or bytes as a list of bytes; what the shell could not decode is kept."""
    if isinstance(texts, (tf.Tensor, np.ndarray)):
        texts = np.asarray(texts).tolist()
    is_list = isinstance(texts, (list, tuple))
    if not is_list or not all(isinstance(text, (str, bytes)) for text in texts):
        raise ValueError(f"`texts` must be a list of strings. Received: texts={texts!r:.1000}")
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


# In the graph.


def spaced(texts):
    """Texts with one space between words and none around them, and valid UTF-8."""
    return tf.strings.strip(tf.strings.regex_replace(valid_utf8(texts), r"\s+", " "))


def without(texts, beginnings):
    """Texts (rows, n) without what they begin with (rows, 1)."""
    sizes = tf.strings.length(texts)
    first = tf.minimum(tf.strings.length(beginnings), sizes)
    return tf.strings.substr(texts, first, sizes - first)
