"""Keras' own checks of a layer, for each of ours, and what `.keras` files and graphs need."""

import keras
import numpy as np
import pytest

# Private, so imported here only: https://github.com/keras-team/keras/tree/master/keras/src/testing
from keras.src.testing import TestCase

from tests.tools import ATTENTIONS, CELLS, PLAIN, attention_decoder, close, slow_on_tensorflow
from zoo import (
    AttentionCell,
    BahdanauAttention,
    BahdanauMonotonicAttention,
    BeamSearchDecoder,
    Ensemble,
    GreedyDecoder,
    LuongAttention,
    LuongMonotonicAttention,
    RecurrentDecoder,
    RecurrentEncoder,
    RecurrentLanguageModel,
    SamplingDecoder,
    TransformerDecoder,
    TransformerEncoder,
)

QUERY_AND_VALUE = {"query_shape": (2, 3, 4), "value_shape": (2, 5, 4)}
ENCODED = {"memory_shape": (2, 7, 5), "summary_shape": (2, 6)}
SEARCH = {"decoder": RecurrentDecoder(9, 4, keras.layers.GRUCell(6), "zeros"), "max_length": 4}


def cell_of(kind="gru", **options):
    return AttentionCell(CELLS[kind](6), BahdanauAttention(5), **options)


LAYERS = {
    "bahdanau": (BahdanauAttention, {"units": 5}, QUERY_AND_VALUE),
    "bahdanau_normalized": (BahdanauAttention, {"units": 5, "normalize": True}, QUERY_AND_VALUE),
    "dot": (LuongAttention, {"score": "dot"}, QUERY_AND_VALUE),
    "general": (LuongAttention, {"score": "general", "scale": True}, QUERY_AND_VALUE),
    "concat": (LuongAttention, {"score": "concat", "units": 5}, QUERY_AND_VALUE),
    "scaled_dot": (LuongAttention, {"score": "scaled_dot"}, QUERY_AND_VALUE),
    "monotonic": (
        BahdanauMonotonicAttention,
        {"units": 5, "sigmoid_noise": 0.5, "seed": 1},
        QUERY_AND_VALUE,
    ),
    "recursive": (LuongMonotonicAttention, {"mode": "recursive"}, QUERY_AND_VALUE),
    "hard": (LuongMonotonicAttention, {"mode": "hard"}, QUERY_AND_VALUE),
    "decoder": (
        RecurrentDecoder,
        {"vocabulary_size": 9, "embedding_dim": 4, "cell": keras.layers.LSTMCell(6)},
        {"tokens_shape": (2, 3), **ENCODED},
    ),
    "attention_decoder": (
        RecurrentDecoder,
        {"vocabulary_size": 9, "embedding_dim": 4, "cell": cell_of(attention_size=8)},
        {"tokens_shape": (2, 3), **ENCODED},
    ),
    "bahdanau_decoder": (
        RecurrentDecoder,
        {"vocabulary_size": 9, "embedding_dim": 4, "cell": cell_of(query="previous_state")},
        {"tokens_shape": (2, 3), **ENCODED},
    ),
    "scheduled_sampling": (
        RecurrentDecoder,
        {
            "vocabulary_size": 9,
            "embedding_dim": 4,
            "cell": cell_of(),
            "sampling_probability": keras.optimizers.schedules.PolynomialDecay(0.0, 9, 0.3),
        },
        {"tokens_shape": (2, 3), **ENCODED},
    ),
    "language_model": (
        RecurrentLanguageModel,
        {"vocabulary_size": 9, "embedding_dim": 4, "cell": keras.layers.GRUCell(6)},
        {"tokens_shape": (2, 3)},
    ),
    "attentive_language_model": (
        RecurrentLanguageModel,
        {
            "vocabulary_size": 9,
            "embedding_dim": 4,
            "cell": keras.layers.LSTMCell(6),
            "attention": BahdanauAttention(5),
            "window": 3,
        },
        {"tokens_shape": (2, 3)},
    ),
    "ensemble": (
        Ensemble,
        {"decoders": [TransformerDecoder(9, 8, cross_attention=False), SEARCH["decoder"]]},
        {"tokens_shape": (2, 3)},
    ),
    "transformer_decoder": (
        TransformerDecoder,
        {"vocabulary_size": 9, "dim": 8, "num_layers": 1, "num_heads": 2},
        {"tokens_shape": (2, 3), **ENCODED},
    ),
    "transformer_language_model": (
        TransformerDecoder,
        {"vocabulary_size": 9, "dim": 8, "num_layers": 1, "cross_attention": False},
        {"tokens_shape": (2, 3)},
    ),
}


class LayerTest(TestCase):
    """`run_layer_test` wants to be a method of this."""

    def runTest(self):
        pass


@pytest.mark.parametrize(("layer", "options", "shapes"), LAYERS.values(), ids=LAYERS)
def test_keras_checks(layer, options, shapes):
    # Configuration round trip, eager against symbolic shapes and dtypes, mixed precision, masking.
    # Keras' training check passes a dict as one argument; ours follows below.
    LayerTest().run_layer_test(
        layer,
        init_kwargs=options,
        input_shape=shapes,
        supports_masking=True if issubclass(layer, (BahdanauAttention, LuongAttention)) else None,
        run_training_check=False,
    )


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_keras_checks_of_the_encoder(cell, bidirectional):
    LayerTest().run_layer_test(
        RecurrentEncoder,
        init_kwargs={
            "vocabulary_size": 9,
            "embedding_dim": 4,
            "units": 5,
            "cell": cell,
            "num_layers": 2,
            "bidirectional": bidirectional,
            "residual": True,
        },
        input_data=np.array([[3, 4, 5], [6, 7, 0]]),
        run_training_check=False,
    )


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_keras_checks_of_the_transformer_encoder(positions):
    LayerTest().run_layer_test(
        TransformerEncoder,
        init_kwargs={"vocabulary_size": 9, "dim": 8, "num_layers": 1, "positions": positions},
        input_data=np.array([[3, 4, 5], [6, 7, 0]]),
        run_training_check=False,
    )


@pytest.mark.parametrize("search", [BeamSearchDecoder, GreedyDecoder, SamplingDecoder])
def test_keras_checks_of_searches(search):
    LayerTest().run_layer_test(
        search,
        init_kwargs=SEARCH,
        input_shape={"memory_shape": (2, 7, 5)},
        run_training_check=False,
        run_mixed_precision_check=False,  # scores are float32 in every policy
    )


def functional(decoder, search=None, units=5):
    """source, target -> logits, or source -> what a search finds, in the functional API."""
    source = keras.Input((None,), dtype="int32", name="source")
    encoded = RecurrentEncoder(11, 4, units)(source)
    if search is not None:
        return keras.Model(source, search(decoder)(*encoded))
    target = keras.Input((None,), dtype="int32", name="target")
    logits, weights = decoder(target, *encoded, return_attention_scores=True)
    return keras.Model({"source": source, "target": target}, {"logits": logits, "weights": weights})


SOURCE = np.array([[3, 4, 5, 6], [7, 8, 0, 0], [9, 0, 0, 0]])
TARGET = np.array([[1, 4, 5], [1, 8, 2], [1, 9, 2]])


# Each attention in one order, and in the other where there is time.
PAIRS = [
    pytest.param(name, query, marks=() if i % 2 == k else slow_on_tensorflow)
    for i, name in enumerate(ATTENTIONS)
    for k, query in enumerate(["output", "previous_state"])
]


@pytest.mark.parametrize(("attention", "query"), PAIRS)
def test_functional_models_train_save_and_load(attention, query, tmp_path):
    model = functional(attention_decoder(attention=attention, query=query, layers=2, cell="lstm"))
    inputs = {"source": SOURCE, "target": TARGET}
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", {"logits": loss}, **PLAIN)
    model.fit(inputs, {"logits": TARGET}, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    expected, actual = model(inputs), loaded(inputs)
    for name in ("logits", "weights"):
        close(actual[name], expected[name])


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_attention_alone_trains_saves_and_loads(attention, tmp_path):
    ids = keras.Input((None,), dtype="int32")
    embedded = keras.layers.Embedding(11, 4, mask_zero=True)(ids)
    query = keras.layers.Dense(4)(keras.layers.GlobalAveragePooling1D(keepdims=True)(embedded))
    context = ATTENTIONS[attention](5)(query, embedded)
    model = keras.Model(ids, keras.layers.Dense(1)(keras.layers.Flatten()(context)))
    model.compile("adam", "mse", **PLAIN)
    before = model.get_weights()
    model.fit(SOURCE, np.ones((3, 1)), verbose=0)
    for new, old in zip(model.get_weights(), before, strict=True):
        assert np.abs(new - old).max() > 0
    close(model(np.pad(SOURCE, ((0, 0), (0, 2)))), model(SOURCE))  # the mask has arrived
    model.save(tmp_path / "model.keras")
    close(keras.saving.load_model(tmp_path / "model.keras")(SOURCE), model(SOURCE))


@pytest.mark.parametrize(
    ("search", "options"),
    [
        (BeamSearchDecoder, {"length_penalty": 0.6}),
        (GreedyDecoder, {"length_penalty": 0.6}),
        (SamplingDecoder, {"top_p": 0.9, "seed": 1}),
    ],
)
def test_functional_searches_save_and_load(search, options, tmp_path):
    model = functional(
        attention_decoder(),
        lambda decoder: search(decoder, max_length=6, no_repeat_ngram=2, **options),
    )
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert model.layers[-1].get_config().keys() == loaded.layers[-1].get_config().keys()
    for expected, actual in zip(model(SOURCE), loaded(SOURCE), strict=True):
        close(actual, expected)
