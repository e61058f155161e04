"""How the cost of a search grows: with beam, batch, source, target and vocabulary.

    python bench/growth.py [--output bench/growth.json] [--plot docs/growth.png]

Each point is a process of its own, in the graph without XLA, as a SavedModel has it, from ids to
ids, encoder and all. Around the base (batch 16, beam 5, source 16, 20 words written, 8,000 words)
one size at a time is varied. Time is the median of 5 runs. Memory is the
peak of the process less that before its first search.
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "workers"))

BASE = {"batch": 16, "beam": 5, "source": 16, "target": 20, "vocabulary": 8000}
SIZES = {
    "beam": (1, 2, 4, 8),
    "batch": (1, 4, 16, 64),
    "source": (16, 50, 200, 400),
    "target": (10, 20, 40, 80),
    "vocabulary": (1000, 8000, 32000),
}
LONG = {"batch": 64, "source": 200, "target": 32}  # where beams 1 and 8 are compared
MODELS = ("bahdanau", "transformer")


def measure(model, sizes):
    """Prints seconds and megabytes of one search."""
    import keras
    import numpy as np
    import tensorflow as tf
    from worker import END
    from zoo_worker import model_of

    from zoo import BeamSearchDecoder

    keras.utils.set_random_seed(0)
    spec = {"model": model, "units": 256, "layers": 3, "vocabulary": sizes["vocabulary"]}
    whole = model_of(spec)
    ids = np.ones((1, 2), "int32")
    whole({"source": ids, "target": ids})
    bias = whole.decoder.output_dense.bias  # no sentence ends of itself
    bias.assign(np.where(np.arange(bias.shape[0]) == END, -30.0, 0.0))
    search = BeamSearchDecoder(whole.decoder, sizes["beam"], max_length=sizes["target"])
    run = tf.function(
        lambda source: search(*whole.encoder(source)).tokens,
        input_signature=[tf.TensorSpec((None, None), tf.int32)],
        autograph=False,
    )

    def source(length):
        return tf.random.uniform((sizes["batch"], length), 4, sizes["vocabulary"], tf.int32)

    run.get_concrete_function()  # tracing is not measured
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    long = source(sizes["source"])
    seconds = []
    for _ in range(6):
        began = time.perf_counter()
        run(long).numpy()
        seconds.append(time.perf_counter() - began)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"seconds": statistics.median(seconds[1:]), "mb": (peak - before) / 1024}))


def run(model, sizes):
    command = [sys.executable, __file__, "--one", model, json.dumps(sizes)]
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    if result.returncode:
        raise SystemExit(f"{command} failed:\n{result.stderr[-3000:]}")
    return json.loads(result.stdout.splitlines()[-1])


def plot(points, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    labels = {
        "beam": "beam",
        "batch": "batch",
        "source": "source length",
        "target": "target length",
        "vocabulary": "vocabulary",
    }
    figure, axes = plt.subplots(1, len(SIZES), figsize=(12, 2.8), sharey=True)
    for axis, (name, values) in zip(axes, SIZES.items(), strict=True):
        for model, color in zip(MODELS, ("tab:blue", "tab:orange"), strict=True):
            found = [p for p in points if p["model"] == model and p["varied"] == name]
            times = [1000 * p["seconds"] for p in found]
            axis.plot(values, times, marker="o", markersize=4, color=color, label=model)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xticks(values, [f"{v:,}" for v in values])
        axis.minorticks_off()
        axis.set_xlabel(labels[name])
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    ticks = (10, 20, 50, 100, 200, 500, 1000)
    lowest, highest = axes[0].get_ylim()
    axes[0].set_yticks(ticks, map(str, ticks))
    axes[0].set_ylim(lowest, highest)
    axes[0].set_ylabel("milliseconds a batch")
    axes[0].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", default="bench/growth.json")
    parser.add_argument("--plot", default="docs/growth.png")
    parser.add_argument("--one", nargs=2, help="model and sizes, for the inner process")
    args = parser.parse_args()
    if args.one:
        measure(args.one[0], json.loads(args.one[1]))
        return
    points = []
    for model in MODELS:
        for name, values in SIZES.items():
            for value in values:
                point = run(model, {**BASE, name: value})
                points.append({"model": model, "varied": name, "value": value, **point})
            line = ", ".join(
                f"{p['value']:,}: {1000 * p['seconds']:.0f} ms" for p in points[-len(values) :]
            )
            print(f"{model:12} {name:11} {line}", flush=True)
    print(f"\nbeam 8 over beam 1; of each model the second line reads {LONG['source']} tokens")
    for model in MODELS:
        for sizes in ({**BASE, "batch": 1}, {**BASE, **LONG}):
            one, eight = (run(model, {**sizes, "beam": beam}) for beam in (1, 8))
            points.append({"model": model, "varied": "beams", "sizes": sizes, "1": one, "8": eight})
            slower, larger = eight["seconds"] / one["seconds"], eight["mb"] / max(one["mb"], 1)
            milliseconds = [1000 * x["seconds"] for x in (one, eight)]
            print(
                f"{model:12} batch {sizes['batch']:2}  "
                "time {:.1f}x ({:.0f} to {:.0f} ms)  ".format(slower, *milliseconds)
                + f"memory {larger:.1f}x ({one['mb']:.0f} to {eight['mb']:.0f} MB)",
                flush=True,
            )
    pathlib.Path(args.output).write_text(json.dumps(points, indent=1) + "\n")
    plot([p for p in points if "value" in p], args.plot)


if __name__ == "__main__":
    main()
