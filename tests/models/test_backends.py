"""Models that were saved under TensorFlow give the same under every backend.

`python -m tests.models.test_backends` writes tests/goldens/backends anew: models with random
weights, and what they give under the backend that it runs on.
"""

import ast
import subprocess
import sys

import keras
import numpy as np
import pytest

from tests.tools import GOLDENS, close, randomize, to_numpy
from zoo import (
    AttentionCell,
    BahdanauAttention,
    BahdanauMonotonicAttention,
    BeamSearchDecoder,
    CopyDecoder,
    CopyEncoder,
    Ensemble,
    EnsembleEncoder,
    LuongAttention,
    RecurrentDecoder,
    RecurrentEncoder,
    RecurrentLanguageModel,
    ResidualRNNCells,
    Seq2Seq,
    TransformerDecoder,
    TransformerEncoder,
)

FOLDER = GOLDENS / "backends"
SOURCE = np.array([[3, 4, 5, 6, 7], [8, 9, 10, 0, 0], [4, 0, 0, 0, 0]], "int32")
TARGET = np.array([[1, 4, 5, 6], [1, 8, 2, 0], [1, 9, 3, 2]], "int32")
SIZES = {"dim": 8, "num_layers": 2, "num_heads": 2, "feedforward_dim": 12}


def recurrent(cell):
    encoder = RecurrentEncoder(11, 4, 5, cell="lstm", bidirectional=True, num_layers=2)
    return Seq2Seq(encoder, RecurrentDecoder(11, 4, cell))


def bahdanau():
    attention = BahdanauAttention(5, normalize=True)
    return recurrent(AttentionCell(keras.layers.GRUCell(6), attention, query="previous_state"))


def luong():
    cells = ResidualRNNCells([keras.layers.LSTMCell(6), keras.layers.LSTMCell(6)])
    return recurrent(AttentionCell(cells, LuongAttention(scale=True), 7, activation="tanh"))


def monotonic():
    return recurrent(AttentionCell(keras.layers.SimpleRNNCell(6), BahdanauMonotonicAttention(5)))


def transformer():
    decoder = TransformerDecoder(11, tie_embeddings=True, **SIZES)
    return Seq2Seq(TransformerEncoder(11, positions="learned", max_length=9, **SIZES), decoder)


def copying():
    encoder = RecurrentEncoder(11, 4, 5, cell="lstm", bidirectional=True)
    cell = AttentionCell(keras.layers.GRUCell(6), LuongAttention(), 4, activation="tanh")
    decoder = RecurrentDecoder(11, 4, cell, tie_embeddings=True)
    return Seq2Seq(CopyEncoder(encoder), CopyDecoder(decoder), share_embeddings=True)


def ensemble():
    members = [luong(), transformer()]
    return Seq2Seq(
        EnsembleEncoder([member.encoder for member in members]),
        Ensemble([member.decoder for member in members]),
    )


def language_model(decoder):
    tokens = keras.Input((None,), dtype="int32")
    return keras.Model(tokens, decoder(tokens))


def attentive_language_model():
    cell = keras.layers.GRUCell(6)
    return language_model(RecurrentLanguageModel(11, 4, cell, BahdanauAttention(5), window=3))


def transformer_language_model():
    return language_model(TransformerDecoder(11, cross_attention=False, **SIZES))


SEQ2SEQ = (bahdanau, luong, monotonic, transformer, ensemble, copying)
LANGUAGE_MODELS = (attentive_language_model, transformer_language_model)
MODELS = {make.__name__: make for make in (*SEQ2SEQ, *LANGUAGE_MODELS)}


def outputs(model):
    """Logits of a given target, and what a beam finds."""
    if isinstance(model, Seq2Seq):
        logits = model({"source": SOURCE, "target": TARGET})
        encoded, decoder = model.encoder(SOURCE), model.decoder
    else:
        logits, encoded, decoder = model(TARGET), (), model.layers[-1]
    search = BeamSearchDecoder(decoder, 4, max_length=8, length_penalty=0.6)
    result = search(*encoded, batch_size=3)
    arrays = {"logits": logits, **{name: x for name, x in result._asdict().items()}}
    return {name: to_numpy(x) for name, x in arrays.items()}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_tensorflow_gives_the_same(name):
    expected = dict(np.load(FOLDER / f"{name}.npz"))
    actual = outputs(keras.saving.load_model(FOLDER / f"{name}.keras"))
    assert (actual["tokens"] == expected["tokens"]).all()
    assert (actual["lengths"] == expected["lengths"]).all()
    for array in ("logits", "scores", "log_probs", "alignments"):
        close(actual[array], expected[array], 1e-4)


@pytest.mark.skipif(keras.backend.backend() == "tensorflow", reason="that is TensorFlow")
def test_layers_and_models_import_no_tensorflow():
    code = (
        "import sys, zoo.layers, zoo.models; print([m for m in sys.modules if 'tensorflow' in m])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert not [name for name in ast.literal_eval(result.stdout) if name.startswith("tensorflow")]


if __name__ == "__main__":
    for seed, (name, make) in enumerate(MODELS.items()):
        model = make()
        outputs(model)
        randomize(model, seed, scale=0.5)
        model.save(FOLDER / f"{name}.keras")
        np.savez_compressed(FOLDER / f"{name}.npz", **outputs(model))
