"""What only a machine with GPUs can show: `make gpu-check` there, and read what it prints.

It measures what a step takes on one GPU and on all; then it trains two small models on all GPUs (a
Transformer compiled by XLA in bfloat16; an LSTM whose encoder is cuDNN's, in float16), exports them
while the GPUs are visible, and has a process that sees no GPU give the same answers.

Without a GPU it says so and ends. `python bench/gpu_check.py --logical-cpus` goes through the same
steps on two logical CPUs, which says that the steps work and nothing of GPUs.
"""

import argparse
import itertools
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

from devices import recipe_config, step_times, two_logical_cpus

HERE = pathlib.Path(__file__).resolve()
NOTHING_FOUND = 3  # an exit code
THEN = "--then"
TRAININGS = {
    "transformer": [
        *("--model", "transformer", "--mixed-precision", "bfloat16", "--jit"),
        *("--learning-rate", "7e-3"),
    ],
    "luong": [
        *("--model", "luong", "--mixed-precision", "float16", "--recurrent-dropout", "0"),
        *("--learning-rate", "1.5e-2"),
    ],
}
# 200 sentences are learnt by heart in seconds.
SMALL = {
    "units": 64, "layers": 1, "epochs": 20, "vocabulary-size": 46, "dropout": 0.0,
    "label-smoothing": 0.0, "batch-tokens": 256, "num-buckets": 1, "warmup-steps": 10,
    "max-length": 20, "average": 1, "beam-width": 2, "num-results": 2, "length-penalty": 0.0,
}  # fmt: skip
# Each sentence has a word of each, and in the other language the verb is the last.
WORDS = (
    ("Tom", "Ida", "She", "Eva"),
    ("sees", "finds", "likes", "hears"),
    ("a", "my", "no", "his"),
    ("car", "boat", "house", "book"),
)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logical-cpus", action="store_true", help="two of them instead of GPUs")
    parser.add_argument("--inside", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        return run_inside(options.inside, options.logical_cpus)

    def inside(*words, check=True):
        flags = ["--logical-cpus"] if options.logical_cpus else []
        command = [sys.executable, HERE, *flags, "--inside", *words]
        return subprocess.run([str(word) for word in command], check=check).returncode

    code = inside("speed", check=False)
    if code:
        nothing = "No GPU was found here, so that nothing was checked."
        sys.exit(nothing if code == NOTHING_FOUND else code)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write_sentences(folder / "data")
        for name, flags in TRAININGS.items():
            train_and_export(folder, name, flags, inside)
    print("All of it went well", "on logical CPUs: no GPU was used." * options.logical_cpus)


def train_and_export(folder, name, flags, inside):
    """One model: trained on all devices, exported beside them, and run without them."""
    run, model, data = folder / name, folder / "saved_models" / name, folder / "data"
    sizes = [word for key, value in SMALL.items() for word in (f"--{key}", value)]
    where = ["--data", data, "--source", "en", "--target", "de", "--output", run]
    train = ["train", "translate", "--strategy", "mirrored", *where, *sizes, *flags]
    predict = ["predict", model, "--input", data / "val.en", "--output"]
    here, there = folder / f"{name}.here", folder / f"{name}.there"
    inside(*train, THEN, "export", run, "--output", model, THEN, *predict, here)

    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    score = max(line["bleu"] for line in lines)
    assert score > 60, f"{name} has learnt nothing: BLEU {score:.1f}"
    content = (model / "1" / "saved_model.pb").read_bytes()
    assert b"Cudnn" not in content, f"the export of {name} needs cuDNN"
    zoo = [sys.executable, "-c", "from zoo.cli import main; main()", *predict, there]
    blind = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1"}
    subprocess.run([str(word) for word in zoo], check=True, env=blind)
    answers = there.read_text().splitlines()
    assert answers == here.read_text().splitlines(), f"{name} answers otherwise without GPUs"
    print(f"{name}: BLEU {score:.1f}; exported; the same {len(answers)} answers without GPUs")


def write_sentences(folder):
    """200 of the 256 that there are, and the same in capitals with the verb at the end."""
    chosen = random.Random(1).sample(list(itertools.product(*WORDS)), 200)
    texts = {
        "en": [f"{who} {does} {how} {what}." for who, does, how, what in chosen],
        "de": [f"{who} {how} {what} {does}.".upper() for who, does, how, what in chosen],
    }
    folder.mkdir()
    for language, lines in texts.items():
        for split, some in {"train": lines, "val": lines[:20]}.items():
            (folder / f"{split}.{language}").write_text("\n".join(some) + "\n")


def run_inside(words, logical_cpus):
    """What runs in a process of its own, on the devices that are to be checked."""
    if logical_cpus:
        two_logical_cpus()
    if words == ["speed"]:
        return measure(logical_cpus)
    from zoo.cli import main as zoo

    for is_then, command in itertools.groupby(words, lambda word: word == THEN):
        if not is_then:
            sys.argv = ["zoo", *command]
            zoo()


def measure(logical_cpus):
    """What a step of the translation recipe takes on one device and on all, at its own size."""
    import tensorflow as tf

    kind = "CPU" if logical_cpus else "GPU"
    names = [device.name for device in tf.config.list_logical_devices(kind)]
    stand_in = "logical CPUs, which stand in for GPUs" if logical_cpus else "GPUs"
    print(f"{len(names)} {stand_in}: {', '.join(names)}")
    if not names:
        sys.exit(NOTHING_FOUND)
    for count in sorted({1, len(names)}):
        # On CPUs the sizes are small: their speed says nothing.
        config = recipe_config(logical_cpus, effective_batch_tokens=4096 * count)
        with tf.distribute.MirroredStrategy(names[:count]).scope():
            seconds = statistics.median(step_times(config, 6))
        tokens = config.update_tokens / seconds
        print(f"{count} of them: {1e3 * seconds:.0f} ms a step, {tokens:,.0f} tokens/s")


if __name__ == "__main__":
    main()
