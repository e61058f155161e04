import json
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest

from tests.tools import PLAIN, attention_decoder, close, slow_on_tensorflow, to_numpy
from zoo import (
    BeamSearchDecoder,
    RecurrentDecoder,
    RecurrentEncoder,
    Seq2Seq,
    TokenAccuracy,
    TokenCrossentropy,
)

ROOT = pathlib.Path(__file__).parents[2]
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
every_model = pytest.mark.parametrize(
    "model",
    [
        pytest.param(model, id=name, marks=() if name == "bahdanau" else slow_on_tensorflow)
        for name, model in MODELS.items()
    ],
)


# XLA takes its time to compile a loop.
@pytest.mark.parametrize("jit_compile", [False, pytest.param(True, marks=slow_on_tensorflow)])
@every_model
def test_fit_learns(model, jit_compile):
    if keras.backend.backend() == "jax" and not jit_compile:
        pytest.skip("JAX compiles every operation of every step anew")
    model = model()
    model.compile(
        keras.optimizers.Adam(0.02),
        TokenCrossentropy(label_smoothing=0.05),
        metrics=[TokenAccuracy()],
        jit_compile=jit_compile,
    )
    # 6 + 6 + 4: the last batch is smaller, so the graph does not know the size of a batch
    history = model.fit(INPUTS, LABELS, batch_size=6, epochs=20, verbose=0).history
    assert history["loss"][-1] < history["loss"][0] * 0.8
    assert history["token_accuracy"][-1] > history["token_accuracy"][0]
    assert model.evaluate(INPUTS, LABELS, verbose=0, return_dict=True)["loss"] > 0
    assert model.predict(INPUTS, verbose=0).shape == (16, 6, 11)


# Of each dtype one model, and the others where there is time.
QUICK = {("luong", "mixed_float16"), ("bahdanau", "mixed_bfloat16")}
MIXED = [
    pytest.param(model, dtype, marks=() if (model, dtype) in QUICK else pytest.mark.slow)
    for model in MODELS
    for dtype in ("mixed_float16", "mixed_bfloat16")
]


@pytest.mark.parametrize(("model", "dtype"), MIXED)
def test_fit_in_mixed_precision(model, dtype):
    keras.config.set_dtype_policy(dtype)
    try:
        model = MODELS[model]()
        model.compile("adam", TokenCrossentropy(), **PLAIN)
        losses = model.fit(INPUTS, LABELS, batch_size=8, epochs=3, verbose=0).history["loss"]
    finally:
        keras.config.set_dtype_policy("float32")
    assert np.isfinite(losses).all()
    assert losses[-1] < losses[0]


@every_model
def test_save_and_load(model, tmp_path):
    model = model()
    model.compile("adam", TokenCrossentropy(0.1), metrics=[TokenAccuracy()], **PLAIN)
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
    weights = to_numpy(weights)
    close(weights.sum(-1), np.ones((16, 6)))
    assert (weights[::2, :, 3:] == 0).all()


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="tf.function")
def test_no_retracing_while_shapes_repeat():
    import tensorflow as tf

    traces = []

    class Traced(Seq2Seq):
        def call(self, inputs, training=None):
            traces.append(None)
            return super().call(inputs, training=training)

    model = Traced(RecurrentEncoder(11, 4, 6), attention_decoder())
    model.compile("adam", TokenCrossentropy(), jit_compile=False)
    data = tf.data.Dataset.from_tensor_slices((INPUTS, LABELS)).batch(8).repeat(3)
    model.fit(data, verbose=0)
    count = len(traces)
    model.fit(data, verbose=0)
    assert len(traces) == count


MIRRORED = """
import json, keras, numpy as np, tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from tests.models.test_seq2seq import INPUTS, LABELS, PLAIN, TokenCrossentropy, plain
results = []
for devices in (["/cpu:0"], ["/cpu:0", "/cpu:1"]):
    keras.utils.set_random_seed(0)
    with tf.distribute.MirroredStrategy(devices).scope():
        model = plain()
        model.compile(keras.optimizers.SGD(0.5), TokenCrossentropy(), **PLAIN)
    losses = model.fit(INPUTS, LABELS, batch_size=8, epochs=3, shuffle=False, verbose=0)
    results.append((losses.history["loss"], [w.tolist() for w in model.get_weights()]))
print(json.dumps(results))
"""


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="tf.distribute")
def test_mirrored_fit_is_fit():
    # In a process of its own: logical devices must be set before TensorFlow starts. Every replica
    # has as many tokens, so that the mean of their means is the mean.
    run = subprocess.run(
        [sys.executable, "-c", MIRRORED], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert run.returncode == 0, run.stderr[-2000:]
    (losses, weights), (two_losses, two_weights) = json.loads(run.stdout.splitlines()[-1])
    close(two_losses, np.array(losses), 1e-4)
    assert losses[-1] < losses[0] - 0.01  # the weights have moved
    for one, two in zip(weights, two_weights, strict=True):
        close(np.array(two), np.array(one), 1e-4)


class Two(keras.layers.Layer):
    def call(self, source):
        return source, source


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Seq2Seq(attention_decoder(), RecurrentEncoder(11, 4, 6)), "encoder="),
        (lambda: Seq2Seq(RecurrentEncoder(11, 4, 6), keras.layers.GRUCell(6)), "decoder="),
        (lambda: Seq2Seq(Two(), attention_decoder())(INPUTS), "2 from Two"),
    ],
)
def test_parts_are_checked(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("inputs", "message"),
    [({"source": SOURCE}, r"Received: \['source'\]"), (SOURCE, "'source' and 'target'")],
)
def test_errors_say_what_was_received(inputs, message):
    with pytest.raises(ValueError, match=message):
        make()(inputs)
