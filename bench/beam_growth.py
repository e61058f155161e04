"""How the cost of a search grows with its beam: the source is not copied per hypothesis.

    python bench/beam_growth.py [--source-length 200] [--batch 64]

Each beam runs in a process of its own, in the graph without XLA, as a SavedModel would. Memory is
what long sources and their search add to the peak of a process that has run the same search on
sources of length 2; time is the median of 5 runs.
"""

import argparse
import resource
import statistics
import subprocess
import sys
import time

BEAMS = (1, 2, 4, 8)


def measure(attention, beam, batch, source_length):
    """Prints megabytes and seconds of one search."""
    import keras
    import tensorflow as tf

    from zoo import (
        AttentionCell,
        BahdanauAttention,
        BeamSearchDecoder,
        LuongAttention,
        RecurrentDecoder,
    )

    keras.utils.set_random_seed(0)
    layer = LuongAttention() if attention == "luong" else BahdanauAttention(256)
    cell = AttentionCell(keras.layers.GRUCell(256), layer, attention_size=256)
    decoder = RecurrentDecoder(8000, 256, cell, initial_state="zeros")
    search = BeamSearchDecoder(decoder, beam, max_length=32)
    run = tf.function(search, input_signature=[tf.TensorSpec((None, None, 512))])
    run(tf.zeros((batch, 2, 512)))  # tracing and weights are not the search's memory
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    memory = tf.random.normal((batch, source_length, 512))
    run(memory)
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        run(memory).tokens.numpy()
        seconds.append(time.perf_counter() - began)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print((peak - before) / 1024, statistics.median(seconds))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source-length", type=int, default=200)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--one", nargs=2, help="attention and beam, for the inner process")
    args = parser.parse_args()
    if args.one:
        measure(args.one[0], int(args.one[1]), args.batch, args.source_length)
        return
    print(f"batch {args.batch}, source length {args.source_length}, 32 steps, 8000 words, GRU 256")
    print(
        f"{'attention':10} {'beam':>4} {'memory MB':>10} {'over beam 1':>12} "
        f"{'seconds':>8} {'over beam 1':>12}"
    )
    for attention in ("luong", "bahdanau"):
        first = None
        for beam in BEAMS:
            command = [sys.executable, __file__, "--one", attention, str(beam)]
            command += ["--batch", str(args.batch), "--source-length", str(args.source_length)]
            output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            memory, seconds = map(float, output.split())
            first = first or (memory, seconds)
            print(
                f"{attention:10} {beam:4d} {memory:10.0f} {memory / first[0]:11.1f}x "
                f"{seconds:8.2f} {seconds / first[1]:11.1f}x",
                flush=True,
            )


if __name__ == "__main__":
    main()
