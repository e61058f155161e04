"""The learning rate by its formulas, and as Keras keeps it."""

import math

import keras
import pytest

from zoo.training.warmup import Warmup

FORMULAS = {
    "constant": lambda t: 1.0,
    "inverse_sqrt": lambda t: math.sqrt(10 / t),
    "cosine": lambda t: (1 + math.cos(math.pi * min(1, (t - 10) / 90))) / 2,
}


@pytest.mark.parametrize("decay", FORMULAS)
def test_it_rises_and_falls(decay):
    schedule = Warmup(0.5, warmup_steps=10, decay=decay, total_steps=100)
    for step in range(10):
        assert float(schedule(step)) == pytest.approx(0.5 * (step + 1) / 10)
    for step in (10, 11, 40, 99, 100, 150):
        assert float(schedule(step)) == pytest.approx(0.5 * FORMULAS[decay](step), abs=1e-7)
    again = keras.optimizers.schedules.deserialize(keras.optimizers.schedules.serialize(schedule))
    assert float(again(40)) == float(schedule(40))


@pytest.mark.parametrize("decay", FORMULAS)
def test_no_warm_up(decay):
    """The first step moves already."""
    assert float(Warmup(0.5, warmup_steps=0, decay=decay, total_steps=9)(0)) == 0.5


def test_errors():
    with pytest.raises(ValueError, match="`decay` must be one of .* Received: decay='linear'"):
        Warmup(0.5, 10, "linear")
    with pytest.raises(ValueError, match="needs `total_steps`"):
        Warmup(0.5, 10, "cosine")
