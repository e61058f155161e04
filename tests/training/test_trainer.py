"""A step of training does what the formulas say, on the weights that it should."""

import itertools
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.serving.tools import tiny_image_pipeline, tiny_pipeline
from tests.tools import close, log_softmax
from zoo.serving import Pipeline
from zoo.training.adam import Adam
from zoo.training.settings import Settings
from zoo.training.token_crossentropy import disagreement
from zoo.training.trainer import Trainer

BATCH = {
    "source": np.array([[4, 5, 6, 0], [7, 8, 9, 4], [0, 0, 0, 0]], "int32"),
    "target": np.array([[1, 4, 5, 2, 0], [1, 6, 7, 8, 2], [0, 0, 0, 0, 0]], "int32"),
}


# Scheduled sampling that counts its steps, and never samples.
NEVER = keras.optimizers.schedules.PolynomialDecay(0.0, 10, 0.0)


def trainer(total_steps=100, dropout=0.0, sampling_probability=0.0, **settings):
    settings = {"learning_rate": 0.01, "warmup_steps": 0, "decay": "constant", **settings}
    model = tiny_pipeline(dropout=dropout, sampling_probability=sampling_probability).model
    return Trainer(model, Settings(output="nowhere", **settings), total_steps)


IMAGES = {
    "source": np.random.default_rng(0).integers(0, 256, (3, 16, 16, 3), "uint8"),
    "target": BATCH["target"],
}


def image_trainer(**settings):
    """A model that reads images, with a plain optimizer."""
    pipeline = tiny_image_pipeline()
    spec = {"source": pipeline.reader.source_spec, "target": tf.TensorSpec((None, None), tf.int32)}
    settings = {"learning_rate": 0.05, "warmup_steps": 0, "decay": "constant", **settings}
    settings = Settings(output="nowhere", **settings)
    return Trainer(pipeline.model, settings, 100, keras.optimizers.SGD(0.05), spec=spec)


def test_the_loss_is_summed_over_tokens_and_padding_counts_for_nothing():
    one = trainer(label_smoothing=0.1)
    inputs = {"source": BATCH["source"], "target": BATCH["target"][:, :-1]}
    log_probs = log_softmax(one.model(inputs).numpy())
    labels = BATCH["target"][:, 1:]
    expected = 0.0
    for row, column in zip(*np.nonzero(labels), strict=True):
        q = np.full(log_probs.shape[-1], 0.1 / log_probs.shape[-1])
        q[labels[row, column]] += 0.9
        expected -= (q * log_probs[row, column]).sum()
    loss, tokens, *_ = one.step(BATCH)
    close(loss, expected, 1e-4)
    assert float(tokens) == 7


@pytest.mark.parametrize("jit", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_two_readings_without_dropout_agree_and_change_nothing(jit):
    one, other = trainer(jit=jit), trainer(consistency=2.5, jit=jit)
    for _ in range(2):
        (loss, tokens, *_), (same_loss, same_tokens, *_) = one.step(BATCH), other.step(BATCH)
        close(same_loss, loss, 1e-5)
        assert float(same_tokens) == float(tokens) == 7
    for a, b in zip(one.model.weights, other.model.weights, strict=True):
        close(a, b, 1e-4)


def test_consistency_brings_draws_of_dropout_together():
    def apart(consistency):
        one = trainer(dropout=0.4, consistency=consistency)
        for _ in range(60):
            one.step(BATCH)
        inputs = {"source": BATCH["source"], "target": BATCH["target"][:, :-1]}
        there = BATCH["target"][:, 1:] != 0
        draws = [one.model(inputs, training=True).numpy()[there] for _ in range(6)]
        return np.mean([disagreement(a, b) for a, b in itertools.combinations(draws, 2)])

    assert apart(5.0) < 0.7 * apart(0.0)


@pytest.mark.parametrize("jit", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_rows_without_tokens_and_more_padding_change_no_update(jit):
    one, other = trainer(jit=jit), trainer(jit=jit)
    wide = {name: np.pad(ids[:2], ((0, 3), (0, 2))) for name, ids in BATCH.items()}
    for _ in range(2):
        one.step(BATCH)
        other.step(wide)
    moved = 0
    for a, b, start in zip(
        one.model.weights, other.model.weights, tiny_pipeline().model.weights, strict=True
    ):
        close(a, b, 1e-4)
        moved += np.abs(a.numpy() - start.numpy()).max() > 1e-3
    assert moved == len(one.model.weights)


def test_gradients_are_clipped_together():
    """Adam is blind to the length of a gradient, its moments are not."""
    moments = {}
    for clip_norm in (1e9, 1e-3):
        one = trainer(clip_norm=clip_norm)
        one.step(BATCH)
        named = {v.path: v.numpy() for v in one.optimizer.variables if v.path.endswith("_momentum")}
        moments[clip_norm] = np.concatenate([value.ravel() for value in named.values()]) / 0.1
    assert np.linalg.norm(moments[1e9]) > 0.01
    assert np.linalg.norm(moments[1e-3]) == pytest.approx(1e-3, rel=1e-3)
    direction = moments[1e9] / np.linalg.norm(moments[1e9])
    close(moments[1e-3] / 1e-3, direction, 1e-3)


@pytest.mark.parametrize("jit", [False, True])
def test_adam_moves_as_that_of_keras(jit):
    schedule = keras.optimizers.schedules.PolynomialDecay(0.01, 5, 0.001)
    start = np.random.RandomState(0).normal(size=(7, 3)).astype("float32")
    weights = [keras.Variable(start), keras.Variable(start)]
    makes = (Adam, keras.optimizers.Adam)
    optimizers = [make(schedule, beta_2=0.98) for make in makes]
    for optimizer, weight in zip(optimizers, weights, strict=True):
        optimizer.build([weight])
        apply = tf.function(optimizer.apply, jit_compile=jit)
        for i in range(8):
            apply([tf.constant(np.sin(start * i) * 10.0 ** (i - 6), tf.float32)])
    assert np.abs(weights[0].numpy() - start).mean() > 5e-3
    close(weights[0], weights[1], 1e-6)
    for one, other in zip(*(x.variables for x in optimizers), strict=True):
        close(one, other, 1e-6)


@pytest.mark.parametrize("options", [{"amsgrad": True}, {"weight_decay": 0.1, "use_ema": True}])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_adam_keeps_the_options_of_keras(options, dtype):
    start = np.linspace(-1, 1, 6)
    weights = [keras.Variable(start, dtype=dtype) for _ in range(2)]
    for make, weight in zip((Adam, keras.optimizers.Adam), weights, strict=True):
        optimizer = make(0.1, **options)
        for i in range(4):
            optimizer.apply([tf.constant(np.cos(start * i) * (4 - i), dtype)], [weight])
    close(*weights)


def test_mixed_precision_learns_with_weights_in_float32():
    pipeline = tiny_pipeline(dropout=0.0)
    model = Pipeline.from_config(pipeline.get_config(), "mixed_bfloat16").model
    settings = {"learning_rate": 0.05, "warmup_steps": 0, "decay": "constant", "label_smoothing": 0}
    one = Trainer(model, Settings(output="nowhere", **settings), 100)
    losses = [float(one.step(BATCH)[0]) for _ in range(30)]
    assert losses[-1] < losses[0] / 2
    assert {tf.as_dtype(v.dtype) for v in model.weights} == {tf.float32}


def test_losses_in_float16_are_scaled_so_that_small_gradients_count():
    """And where a scaled gradient is too large for float16, the step is left out, not counted."""
    pipeline = tiny_pipeline(dropout=0.0)
    model = Pipeline.from_config(pipeline.get_config(), "mixed_float16").model
    settings = {"learning_rate": 0.05, "warmup_steps": 0, "decay": "constant", "label_smoothing": 0}
    settings = Settings(output="nowhere", mixed_precision="float16", **settings)
    one = Trainer(model, settings, 100)
    one.scale.assign(2.0**40)
    before = [weight.numpy() for weight in model.weights]
    _, tokens, bad_steps, _ = one.step(BATCH)
    assert (float(tokens), float(bad_steps)) == (0, 0)
    for weight, value in zip(model.weights, before, strict=True):
        np.testing.assert_array_equal(weight, value)
    assert float(one.scale) == 2.0**39
    losses = [float(one.step(BATCH)[0]) for _ in range(60)]
    assert 1 < float(one.scale) < 2.0**39
    assert losses[-1] < max(losses) / 2
    assert {tf.as_dtype(v.dtype) for v in model.weights} == {tf.float32}


@pytest.mark.parametrize("jit", [False, True])
def test_a_step_that_is_no_number_changes_nothing_and_is_counted(jit):
    one = trainer(jit=jit)
    one.step(BATCH)
    weight = one.model.trainable_variables[0]
    right = weight.numpy()
    weight.assign(np.full(weight.shape, np.nan))
    before = [v.numpy() for v in one.variables]
    for count in (1, 2):
        loss, tokens, bad_steps, _ = one.step(BATCH)
        assert (float(loss), float(tokens), float(bad_steps)) == (0, 0, count)
    after = [v.numpy() for v in one.variables[:-1]]  # the last one is the count
    for a, b in zip(after, before[:-1], strict=True):
        np.testing.assert_array_equal(a, b)
    weight.assign(right)
    loss, tokens, bad_steps, _ = one.step(BATCH)
    assert (float(tokens), float(bad_steps)) == (7, 0)
    assert float(loss) > 0


def test_scheduled_sampling_counts_a_step_of_several_turns_once():
    """From the third step on it would sample, and the losses be others."""
    late = keras.optimizers.schedules.PiecewiseConstantDecay([2], [0.0, 1.0])
    sizes = {"batch_tokens": 4, "effective_batch_tokens": 8}
    one, other = trainer(sampling_probability=late), trainer(sampling_probability=late, **sizes)
    assert (one.turns, other.turns) == (1, 2)
    for _ in range(3):
        close(other.step(BATCH)[0], one.step(BATCH)[0], 1e-4)
    assert [int(count) for count in (*one.counts, *other.counts)] == [3, 3]


REPLICAS = """
import sys

import numpy as np
import tensorflow as tf

(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from tests.training.test_trainer import BATCH, IMAGES, NEVER, image_trainer, trainer

with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
    one = trainer(clip_norm=0.5, sampling_probability=NEVER)
    two = image_trainer()
sums = [[float(value) for value in one.step(BATCH)] for _ in range(3)]
of_images = [[float(value) for value in two.step(IMAGES)] for _ in range(3)]
weights = [v.numpy() for v in (*one.model.weights, *two.model.weights)]
np.savez(sys.argv[1], *weights, sums, of_images)
"""


def steps_on_one_device(**settings):
    """Weights after three steps, and what the steps told."""
    one = trainer(clip_norm=0.5, **settings)
    one.parts = 1
    sums = [[float(value) for value in one.step(BATCH)] for _ in range(3)]
    return [*[v.numpy() for v in one.model.weights], np.array(sums)]


def steps_on_images(**settings):
    """The same of a model that reads images."""
    one = image_trainer(**settings)
    sums = [[float(value) for value in one.step(IMAGES)] for _ in range(3)]
    return [*[v.numpy() for v in one.model.weights], np.array(sums)]


def test_images_in_turns_do_what_one_turn_does():
    one, first = steps_on_images(), image_trainer().model.weights
    turns = {"batch_tokens": 4, "effective_batch_tokens": 8}
    for a, b in zip(steps_on_images(**turns), one, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    assert all(np.abs(a - b.numpy()).max() > 1e-6 for a, b in zip(one, first, strict=False))


def steps_elsewhere(script, tmp_path):
    """The same, of a script in a process of its own."""
    saved = tmp_path / "saved.npz"
    command = [sys.executable, "-c", script, str(saved)]
    subprocess.run(command, check=True, cwd=pathlib.Path(__file__).parents[2])
    return list(np.load(saved).values())


def test_two_replicas_do_what_one_does(tmp_path):
    """Rows of a batch on two logical devices, unequally many: the same losses and weights."""
    *one, sums = steps_on_one_device(sampling_probability=NEVER)
    *weights, of_images = steps_on_images()
    one = [*one, *weights, sums, of_images]
    two = steps_elsewhere(REPLICAS, tmp_path)
    for a, b in zip(two, one, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    (count,) = [array for array in two if array.dtype == "int32"]
    assert count == 3  # steps that scheduled sampling has seen


PARTS = """
import sys

import numpy as np
import tensorflow as tf

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(5)
from tests.training.test_trainer import BATCH, NEVER, trainer

assert trainer(sampling_probability=NEVER).parts == 1
one = trainer(clip_norm=0.5)
assert one.parts == 5
sums = [[float(value) for value in one.step(BATCH)] for _ in range(3)]
np.savez(sys.argv[1], *[v.numpy() for v in one.model.weights], sums)
"""


def test_cores_that_share_a_batch_do_what_one_does(tmp_path):
    """Also where there are fewer rows than cores."""
    one, five = steps_on_one_device(), steps_elsewhere(PARTS, tmp_path)
    assert len(one) > 10
    for a, b in zip(five, one, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_settings_that_cannot_be():
    for name, value in {"epochs": 0, "label_smoothing": 1.0, "clip_norm": 0.0}.items():
        with pytest.raises(ValueError, match=f"`{name}` must be .*Received: {name}={value}"):
            Settings(output="nowhere", **{name: value}).validate()
