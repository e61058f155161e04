import keras
import numpy as np
import pytest

from tests.tools import attention_decoder, close
from zoo import (
    BeamSearchDecoder,
    RecurrentDecoder,
    RecurrentEncoder,
    Seq2Seq,
    TokenAccuracy,
    TokenCrossentropy,
)

RNG = np.random.default_rng(0)
SOURCE = RNG.integers(3, 11, size=(16, 5))
SOURCE[::2, 3:] = 0
TARGET = np.concatenate([np.ones((16, 1), int), RNG.integers(2, 11, size=(16, 6))], axis=1)
INPUTS, LABELS = {"source": SOURCE, "target": TARGET[:, :-1]}, TARGET[:, 1:]


def make(**options):
    encoder = RecurrentEncoder(11, 4, 6, bidirectional=True, dropout=0.1)
    return Seq2Seq(encoder, attention_decoder(**{"attention_size": 8, **options}))


def plain():
    decoder = RecurrentDecoder(11, 4, keras.layers.GRUCell(6), "summary", feed_summary=True)
    return Seq2Seq(RecurrentEncoder(11, 4, 6), decoder)


MODELS = {
    "luong": make,
    "bahdanau": lambda: make(attention="bahdanau", query="previous_state"),
    "no_feeding": lambda: make(input_feeding=False),
    "bottleneck": plain,
}
every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


@pytest.mark.parametrize("jit_compile", [False, True])
@every_model
def test_fit_learns(model, jit_compile):
    model = model()
    model.compile(
        keras.optimizers.Adam(0.02),
        TokenCrossentropy(label_smoothing=0.05),
        metrics=[TokenAccuracy()],
        jit_compile=jit_compile,
    )
    history = model.fit(INPUTS, LABELS, batch_size=8, epochs=20, verbose=0).history
    assert history["loss"][-1] < history["loss"][0] * 0.8
    assert history["token_accuracy"][-1] > history["token_accuracy"][0]
    assert model.evaluate(INPUTS, LABELS, verbose=0, return_dict=True)["loss"] > 0
    assert model.predict(INPUTS, verbose=0).shape == (16, 6, 11)


@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16"])
@every_model
def test_fit_in_mixed_precision(model, dtype):
    keras.config.set_dtype_policy(dtype)
    try:
        model = model()
        model.compile("adam", TokenCrossentropy())
        losses = model.fit(INPUTS, LABELS, batch_size=8, epochs=3, verbose=0).history["loss"]
    finally:
        keras.config.set_dtype_policy("float32")
    assert np.isfinite(losses).all()
    assert losses[-1] < losses[0]


@every_model
def test_save_and_load(model, tmp_path):
    model = model()
    model.compile("adam", TokenCrossentropy(0.1), metrics=[TokenAccuracy()])
    model.fit(INPUTS, LABELS, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    close(loaded(INPUTS), model(INPUTS))
    results = [
        BeamSearchDecoder(each.decoder, 3, max_length=6)(*each.encoder(SOURCE))
        for each in (model, loaded)
    ]
    for actual, expected in zip(*results, strict=True):
        close(actual, expected)
    before = loaded.evaluate(INPUTS, LABELS, verbose=0)
    loaded.fit(INPUTS, LABELS, verbose=0)  # goes on where it was
    assert loaded.evaluate(INPUTS, LABELS, verbose=0) != before


def test_alignments_of_a_given_target():
    logits, weights = make()(INPUTS, return_attention_scores=True)
    assert logits.shape == (16, 6, 11)
    close(np.sum(weights, axis=-1), np.ones((16, 6)))
    assert (np.array(weights)[::2, :, 3:] == 0).all()


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="tf.function")
def test_no_retracing_while_shapes_repeat():
    import tensorflow as tf

    traces = []

    class Traced(Seq2Seq):
        def call(self, inputs, training=None):
            traces.append(None)
            return super().call(inputs, training=training)

    model = Traced(RecurrentEncoder(11, 4, 6), attention_decoder())
    model.compile("adam", TokenCrossentropy(), jit_compile=True)
    data = tf.data.Dataset.from_tensor_slices((INPUTS, LABELS)).batch(8).repeat(3)
    model.fit(data, verbose=0)
    count = len(traces)
    model.fit(data, verbose=0)
    assert len(traces) == count


def test_a_mirrored_strategy_trains_it():
    if keras.backend.backend() != "tensorflow":
        pytest.skip("tf.distribute")
    import tensorflow as tf

    with tf.distribute.MirroredStrategy(["/cpu:0"]).scope():
        model = make()
        model.compile("adam", TokenCrossentropy())
    losses = model.fit(INPUTS, LABELS, batch_size=8, epochs=3, verbose=0).history["loss"]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [({"source": SOURCE}, r"Received: \['source'\]"), (SOURCE, "'source' and 'target'")],
)
def test_errors_say_what_was_received(inputs, message):
    with pytest.raises(ValueError, match=message):
        make()(inputs)
