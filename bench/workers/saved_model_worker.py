"""A SavedModel of the zoo, from text to text, as a server has it: without Keras and the zoo.

An operation has one thread, as README advises: a batch is two searches side by side, and with more
than one of `clients` as many batches come at a time.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf
import tensorflow_text  # noqa: F401  (its ops)
import worker


def search_texts(spec):
    worker.limit(tf, intra=1)
    decode = tf.saved_model.load(spec["path"] + "/1").signatures["serving_default"]

    def search(lines):
        return [text.decode() for text in decode(text=tf.constant(lines))["text"].numpy()]

    return worker.searching(spec, search)


if __name__ == "__main__":
    worker.serve(search_texts)
