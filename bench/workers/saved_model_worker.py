"""A SavedModel of the zoo, from text to text, as a server has it: without Keras and the zoo.

With more than one of `clients` the batches come from as many threads, each with a thread of
TensorFlow's to itself.
"""

import concurrent.futures
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf
import tensorflow_text  # noqa: F401  (its ops)
import worker


def search_texts(spec):
    clients = spec.get("clients", 1)
    if clients > 1:
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(clients)
    decode = tf.saved_model.load(spec["path"] + "/1").signatures["serving_default"]
    batches = [tf.constant(lines) for lines in worker.texts(spec)]
    pool = concurrent.futures.ThreadPoolExecutor(clients)

    def one(lines):
        began = worker.time.perf_counter()
        found = decode(text=lines)["text"].numpy()
        return worker.time.perf_counter() - began, found[0].decode()

    def work():
        results = list(pool.map(one, batches))
        each = [seconds for seconds, _ in results]
        return {"sentences": spec["batch"] * len(batches), "each": each, "last": results[-1][1]}

    return work


if __name__ == "__main__":
    worker.serve(search_texts)
