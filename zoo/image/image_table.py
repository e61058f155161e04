import hashlib

import tensorflow as tf


class ImageTable:
    """Encoded images by their number, from 1 on, for `Batches(look_up=)`; 0 is none.

    Each is decoded anew whenever it is in a batch: encoded, they take a tenth of the memory.

    Arguments:
        reader: an `ImageReader`.
        images: list of bytes, the contents of files.

    `ImageReader.encode` makes one, beside the ids.
    """

    def __init__(self, reader, images):
        self.spec = reader.source_spec
        digest = hashlib.sha256(repr(reader.serialize()).encode())
        for image in images:
            digest.update(hashlib.sha256(image).digest())
        self.fingerprint = digest.hexdigest()
        with tf.device("CPU:0"):
            self.images = tf.constant([b"", *images])
        self._read = tf.function(
            reader.read, input_signature=[tf.TensorSpec((None,), tf.string)], autograph=False
        )

    def __call__(self, ids):
        """Ids (rows, width) to pixels (rows, height, width, 3), by the first column."""
        return self._read(tf.gather(self.images, ids[:, 0]))
