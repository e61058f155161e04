import keras
import numpy as np
import pytest

from tests.tools import PLAIN, close, to_numpy
from zoo import LanguageModel, LuongAttention, RecurrentLanguageModel, TokenCrossentropy

TOKENS = np.random.default_rng(0).integers(3, 9, size=(4, 7))


def make():
    cell = keras.layers.LSTMCell(6)
    return LanguageModel(RecurrentLanguageModel(9, 6, cell, LuongAttention(), tie_embeddings=True))


def test_it_trains_saves_and_loads(tmp_path):
    model = make()
    model.compile(keras.optimizers.Adam(0.05), TokenCrossentropy(), **PLAIN)
    inputs, labels = {"target": TOKENS[:, :-1]}, TOKENS[:, 1:]
    losses = model.fit(inputs, labels, epochs=8, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    close(loaded(inputs), model(inputs))
    rows = np.array([0, 7, 23])
    close(model.logits_at(rows, inputs), np.reshape(to_numpy(model(inputs)), (-1, 9))[rows])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: LanguageModel(keras.layers.Dense(3)), "`decoder` must be a zoo.Decoder"),
        (lambda: make()(TOKENS), "a dict of 'target'. Received: ndarray"),
        (lambda: make()({"source": TOKENS}), r"a dict of 'target'. Received: \['source'\]"),
    ],
)
def test_errors_say_what_was_received(call, message):
    with pytest.raises(ValueError, match=message):
        call()
