"""What a Transformer learns exactly: to copy, reverse and sort.

`python -m tests.system.test_transformer_tasks 5` trains each task with 5 seeds, and prints the
shares of exact matches: up to the length of training, and beyond it.
"""

import sys
import time

import keras
import numpy as np
import pytest

from tests.system.test_reverse import LONGEST, VOCABULARY, exact_match, reverse, train
from zoo import Seq2Seq, TransformerDecoder, TransformerEncoder

TASKS = {"copy": lambda x: x, "reverse": reverse, "sort": np.sort}
BEYOND = (13, 14, 16, 20)


def run(task, seed, steps=3000):
    """Exact match on lengths of training, and on each length beyond."""
    keras.utils.set_random_seed(seed)
    rng = np.random.default_rng(seed)
    sizes = {"dim": 64, "num_layers": 2, "num_heads": 4, "feedforward_dim": 128}
    model = Seq2Seq(
        TransformerEncoder(VOCABULARY, **sizes), TransformerDecoder(VOCABULARY, **sizes)
    )
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0, steps, warmup_target=2e-3, warmup_steps=200
    )
    train(model, rng, steps, schedule, task=TASKS[task])
    within = exact_match(model, rng, task=TASKS[task])
    beyond = {n: exact_match(model, rng, 200, n, TASKS[task]) for n in BEYOND}
    return within, beyond


@pytest.mark.slow
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="trained on one backend")
def test_a_transformer_learns_one_of_them_at_random():
    rng = np.random.default_rng()
    task, seed = str(rng.choice(list(TASKS))), int(rng.integers(2**31))
    within, beyond = run(task, seed)
    print(f"{task}, lengths beyond the {LONGEST} of training: {beyond}")
    assert within >= 0.98, f"{task}, seed {seed}: {within}"


if __name__ == "__main__":
    for seed in range(int(sys.argv[1])):
        for task in TASKS:
            began = time.time()
            within, beyond = run(task, seed)
            print(f"{task} seed {seed}: {within:.3f}, beyond {beyond}, ", end="")
            print(f"{time.time() - began:.0f} s", flush=True)
