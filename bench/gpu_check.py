"""What only a machine with GPUs can show: `make gpu-check` there, and read what it prints.

It trains two small models on all GPUs (a Transformer compiled by XLA in bfloat16; an LSTM whose
encoder is cuDNN's, in float16), exports them while the GPUs are visible, has a process that sees no
GPU give the same answers, and measures what a step takes on one GPU and on all.

Without a GPU it says so and ends. `python bench/gpu_check.py --logical-cpus` goes through the same
steps on two logical CPUs, which says that the steps work and nothing of GPUs.
"""

import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve()
TRAININGS = {
    "transformer": ["--model", "transformer", "--mixed-precision", "bfloat16", "--jit"],
    "luong": ["--model", "luong", "--mixed-precision", "float16", "--recurrent-dropout", "0"],
}
SMALL = {
    "units": 64, "layers": 1, "epochs": 40, "vocabulary-size": 64, "dropout": 0.0,
    "batch-tokens": 512, "num-buckets": 1, "learning-rate": 1e-2, "warmup-steps": 20,
    "max-length": 24, "average": 1,
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logical-cpus", action="store_true", help="two of them instead of GPUs")
    parser.add_argument("--inside", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        return run_inside(options.inside, options.logical_cpus)

    def inside(*words, **more):
        flags = ["--logical-cpus"] if options.logical_cpus else []
        command = [sys.executable, HERE, *flags, "--inside", *words]
        return subprocess.run([str(w) for w in command], check=True, text=True, **more)

    found = json.loads(inside("devices", stdout=subprocess.PIPE).stdout)
    kind = "logical CPUs, which stand in for GPUs" if options.logical_cpus else "GPUs"
    print(f"{len(found)} {kind}: {', '.join(found)}")
    if not found:
        sys.exit("No GPU was found here, so that nothing was checked.")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write_sentences(folder / "data")
        for name, flags in TRAININGS.items():
            train_and_export(folder, name, flags, inside)
    for count in sorted({1, len(found)}):
        inside("speed", str(count))


def train_and_export(folder, name, flags, inside):
    """One model: trained on all devices, exported beside them, and run without them."""
    run, model = folder / name, folder / "saved_models" / name
    sizes = [word for key, value in SMALL.items() for word in (f"--{key}", value)]
    where = ["--data", folder / "data", "--source", "en", "--target", "de", "--output", run]
    inside("zoo", "train", "translate", "--strategy", "mirrored", *where, *sizes, *flags)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    score = max(line["bleu"] for line in lines)
    assert score > 60, f"{name} has learnt nothing: BLEU {score:.1f}"
    inside("zoo", "export", run, "--output", model)
    content = (model / "1" / "saved_model.pb").read_bytes()
    assert b"Cudnn" not in content, f"the export of {name} needs cuDNN"
    texts = (folder / "data" / "val.en").read_text().splitlines()
    predict = ["zoo", "predict", model, *texts, "--n-best", "2"]
    here = inside(*predict, stdout=subprocess.PIPE).stdout
    blind = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1"}
    there = inside(*predict, stdout=subprocess.PIPE, env=blind).stdout
    assert answers(here) == answers(there), f"{name} answers otherwise without GPUs"
    print(f"{name}: BLEU {score:.1f}; exported; the same {len(texts)} answers without GPUs")


def answers(printed):
    """The best answer to each text, without its score, which differs in the last digits."""
    return [line.split("\t")[2] for line in printed.splitlines()[::2]]


def write_sentences(folder):
    """Made-up sentences, and the same in capitals."""
    rng = random.Random(1)
    words = [
        "a",
        "the",
        "man",
        "dog",
        "cat",
        "rides",
        "sees",
        "red",
        "big",
        "ball",
        "two",
        "and",
        "on",
        "car",
    ]
    folder.mkdir()
    for split, count in {"train": 2000, "val": 20}.items():
        lines = [" ".join(rng.choices(words, k=rng.randint(3, 8))) for _ in range(count)]
        (folder / f"{split}.en").write_text("\n".join(lines) + "\n")
        (folder / f"{split}.de").write_text("\n".join(lines).upper() + "\n")


def run_inside(words, logical_cpus):
    """What runs in a process of its own, on the devices that are to be checked."""
    import tensorflow as tf

    if logical_cpus:
        (cpu,) = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * 2
        )
    what, *words = words
    if what == "zoo":
        from zoo.cli import main as zoo

        sys.argv = ["zoo", *words]
        return zoo()
    kind = "CPU" if logical_cpus else "GPU"
    names = [device.name for device in tf.config.list_logical_devices(kind)]
    if what == "devices":
        return print(json.dumps(names))
    return measure(names[: int(words[0])])


def measure(names):
    """What a step of the translation recipe takes, at the recipe's size."""
    import numpy as np
    import tensorflow as tf

    import zoo
    from recipes import translate
    from zoo.training.trainer import Trainer

    config = translate.Config(output="nowhere", effective_batch_tokens=4096 * len(names))
    rng = np.random.default_rng(0)
    shape = (config.update_tokens // 16, 16)
    ids = rng.integers(3, config.vocabulary_size, size=shape, dtype="int32")
    with tf.distribute.MirroredStrategy(names).scope():
        sizes = (config.vocabulary_size, config.vocabulary_size)
        model = zoo.Seq2Seq(*translate.transformer(*sizes, config), share_embeddings=True)
        model({"source": ids[:2], "target": ids[:2]})
        trainer = Trainer(model, config, 1000)
    took = []
    for _ in range(8):
        began = time.perf_counter()
        float(trainer.step({"source": ids, "target": ids})[0])
        took.append(time.perf_counter() - began)
    tokens = config.update_tokens / float(np.median(took[2:]))
    print(
        f"{len(names)} of them: {1e3 * np.median(took[2:]):.0f} ms a step, {tokens:,.0f} tokens/s"
    )


if __name__ == "__main__":
    main()
