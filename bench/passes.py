"""What a pass over the vocabulary takes, by the functions of Keras and by those of the zoo.

    python bench/passes.py [--rows 320] [--words 8000]

The rows are those of a step of beam 5 on 64 sentences; medians of 30 runs, in milliseconds.
"""

import argparse
import os
import statistics
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import tensorflow as tf
from keras import ops

from zoo import TokenCrossentropy
from zoo.layers.vocabulary import log_totals, top_k


def milliseconds(function, *arguments):
    compiled = tf.function(function, autograph=False)
    compiled(*arguments)
    times = []
    for _ in range(30):
        began = time.perf_counter()
        compiled(*arguments)
        times.append(time.perf_counter() - began)
    return 1000 * statistics.median(times)


def gradient_of(loss):
    def run(labels, logits):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            value = loss(labels, logits)
        return tape.gradient(value, logits)

    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=320)
    parser.add_argument("--words", type=int, default=8000)
    args = parser.parse_args()
    logits = tf.random.normal((args.rows, args.words))
    hidden, kernel = tf.random.normal((args.rows, 256)), tf.random.normal((256, args.words))
    labels = tf.random.uniform((16, args.rows // 16), 1, args.words, tf.int32)
    given = tf.reshape(logits, (16, args.rows // 16, args.words))
    losses = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
    print(f"{args.rows} rows, {args.words} words; the matrix product that gives them, 256 wide: ")
    print(f"{milliseconds(tf.matmul, hidden, kernel):30.2f} ms")
    print(f"{'':24} {'Keras':>8} {'zoo':>8}")
    for name, theirs, ours, arguments in (
        ("9 largest", lambda x: ops.top_k(x, 9), lambda x: top_k(x, 9), (logits,)),
        ("log(sum(exp))", lambda x: ops.logsumexp(x, axis=-1), log_totals, (logits,)),
        (
            "loss and gradient",
            gradient_of(losses),
            gradient_of(TokenCrossentropy()),
            (labels, given),
        ),
    ):
        first, second = milliseconds(theirs, *arguments), milliseconds(ours, *arguments)
        print(f"{name:24} {first:8.2f} {second:8.2f}")


if __name__ == "__main__":
    main()
