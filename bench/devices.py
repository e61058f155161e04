"""What an update takes on one device, in two turns, on two devices and on two machines.

    python bench/devices.py [--tokens 4096] [--steps 20] [--small]

The Transformer of recipes/translate.py, the same batch each time, float32. Two logical CPUs stand
in for devices and two processes for machines, on the same cores: what they take beyond the one
device is what it costs to divide the work and to add up gradients. Time is the median of the steps,
memory the peak of a process, or of both together.
"""

import argparse
import json
import os
import pathlib
import resource
import socket
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve()
KINDS = {
    "one": "one device",
    "turns": "two turns",
    "mirrored": "mirrored, 2 devices",
    "multiworker": "multiworker, 2 processes",
}


def two_logical_cpus():
    import tensorflow as tf

    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


def step_times(config, steps):
    """Seconds of updates by the translation recipe's Transformer, on the strategy around."""
    import numpy as np

    import zoo
    from recipes import translate
    from zoo.training.devices import current
    from zoo.training.trainer import Trainer

    rng = np.random.default_rng(0)
    shape = (config.update_tokens // 16, 16)
    ids = rng.integers(3, config.vocabulary_size, size=shape, dtype="int32")
    with current().strategy.scope():
        sizes = (config.vocabulary_size, config.vocabulary_size)
        model = zoo.Seq2Seq(*translate.transformer(*sizes, config), share_embeddings=True)
        model({"source": ids[:2], "target": ids[:2]})
        trainer = Trainer(model, config, 1000)
    took = []
    for _ in range(steps + 2):  # the first two compile, and find their memory
        began = time.perf_counter()
        float(trainer.step({"source": ids, "target": ids})[0])
        took.append(time.perf_counter() - began)
    return took[2:]


def recipe_config(small, **options):
    """The recipe's sizes, or some that are quickly done."""
    from recipes import translate

    sizes = {"units": 32, "layers": 1, "vocabulary_size": 500} if small else {}
    return translate.Config(output="nowhere", **sizes, **options)


def measure(kind, tokens, steps, small):
    """Prints seconds and megabytes, in a process of its own."""
    from zoo.training import devices
    from zoo.training.trainer import use_all_cores

    if kind == "mirrored":
        two_logical_cpus()
    use_all_cores()
    taken = devices.start({"mirrored": kind, "multiworker": kind}.get(kind, "cpu"))
    share = tokens // 2 if kind == "turns" else tokens
    config = recipe_config(small, batch_tokens=share, effective_batch_tokens=tokens)
    took = step_times(config, steps)
    if taken.workers > 1:
        taken.sum(0.0)  # nobody leaves before the other has finished
    mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": statistics.median(took), "mb": mb}), flush=True)


def run(kind, arguments):
    """The seconds of a kind, and its megabytes."""
    environments = [{**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}]
    if kind == "multiworker":
        with socket.socket() as one, socket.socket() as other:
            for listener in (one, other):
                listener.bind(("localhost", 0))
            cluster = {"worker": [f"localhost:{s.getsockname()[1]}" for s in (one, other)]}
        environments = [
            {
                **environments[0],
                "TF_CONFIG": json.dumps(
                    {"cluster": cluster, "task": {"type": "worker", "index": i}}
                ),
            }
            for i in range(2)
        ]
    command = [sys.executable, str(HERE), "--inside", kind, *arguments]
    processes = [
        subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
        for env in environments
    ]
    written = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        raise SystemExit(f"{' '.join(command)} failed")
    results = [json.loads(text.splitlines()[-1]) for text in written]
    return results[0]["seconds"], sum(result["mb"] for result in results)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=4096, help="of an update")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--small", action="store_true", help="a tiny model, to see that it works")
    parser.add_argument("--inside", choices=KINDS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        return measure(options.inside, options.tokens, options.steps, options.small)
    print("| | ms an update | tokens/s | beside one device | memory, MB |")
    print("|---|---|---|---|---|")
    for kind, name in KINDS.items():
        seconds, mb = run(kind, sys.argv[1:])
        if kind == "one":
            alone, alone_mb = seconds, mb
        print(
            f"| {name} | {1000 * seconds:.0f} | {options.tokens / seconds:,.0f} | "
            f"time {seconds / alone:.2f}x, memory {mb / alone_mb:.2f}x | {mb:,.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
