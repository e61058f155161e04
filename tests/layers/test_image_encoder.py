import keras
import numpy as np
import pytest

from tests.tools import close, randomize, to_numpy
from zoo import AttentionCell, BahdanauAttention, ImageEncoder, RecurrentDecoder, Seq2Seq

IMAGES = np.random.default_rng(0).integers(1, 256, (3, 16, 16, 3)).astype("uint8")
IMAGES[1, :8] = 0  # the second has only a lower half
IMAGES[2] = 0  # the third is none


def network():
    return keras.Sequential([keras.layers.Conv2D(5, 4, strides=4, padding="same")])


def built(**options):
    encoder = ImageEncoder(network(), dim=6, **options)
    encoder.build(IMAGES.shape)
    return randomize(encoder)


@pytest.mark.parametrize("scaling", ["tf", "torch", "caffe", "none"])
def test_the_memory_is_the_formula(scaling):
    encoder = built(scaling=scaling)
    memory, mask, summary = map(to_numpy, encoder(IMAGES))
    pixels = IMAGES[:1].astype("float32")
    if scaling == "tf":
        pixels = pixels / 127.5 - 1
    elif scaling == "torch":
        pixels = (pixels / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    elif scaling == "caffe":
        pixels = pixels[..., ::-1] - [103.939, 116.779, 123.68]
    kernel, bias = map(to_numpy, encoder.network.weights)
    patches = pixels.reshape(1, 4, 4, 4, 4, 3).transpose(0, 1, 3, 2, 4, 5).reshape(16, -1)
    vectors = patches @ kernel.reshape(-1, 5) + bias
    kernel, bias = to_numpy(encoder.projection.kernel), to_numpy(encoder.projection.bias)
    vectors = vectors @ kernel + bias + to_numpy(encoder.positions)
    vectors -= vectors.mean(-1, keepdims=True)
    vectors /= np.sqrt((vectors**2).mean(-1, keepdims=True) + 1e-3)
    expected = vectors * to_numpy(encoder.norm.gamma) + to_numpy(encoder.norm.beta)
    close(memory[0], expected, 1e-3)
    assert mask[0].all()
    close(summary[0], expected.mean(0), 1e-3)


def test_where_there_is_no_image_nothing_is_looked_at():
    encoder = built()
    memory, mask, summary = map(to_numpy, encoder(IMAGES))
    assert mask[1].tolist() == [False] * 8 + [True] * 8
    close(summary[1], memory[1, 8:].mean(0))
    assert not mask[2].any()
    close(summary[2], np.zeros(6))
    cell = AttentionCell(keras.layers.GRUCell(5), BahdanauAttention(4), query="previous_state")
    model = Seq2Seq(encoder, RecurrentDecoder(7, 4, cell))
    logits, weights = model(
        {"source": IMAGES, "target": np.ones((3, 2), "int32")}, return_attention_scores=True
    )
    assert np.isfinite(to_numpy(logits)).all()
    assert to_numpy(weights)[1, :, :8].max() == 0
    close(to_numpy(weights).sum(-1), [[1, 1], [1, 1], [0, 0]])


def test_a_row_does_not_depend_on_others():
    """Also with batch normalisation, whose statistics stay as they are."""
    layers = [keras.layers.Conv2D(5, 4, strides=4), keras.layers.BatchNormalization()]
    encoder = ImageEncoder(keras.Sequential(layers), dim=6)
    together = encoder(IMAGES, training=True)
    close(encoder(IMAGES[:1], training=True)[0], together[0][:1])
    moving = [to_numpy(v) for v in encoder.network.non_trainable_weights]
    close(moving[0], np.zeros(5))
    close(moving[1], np.ones(5))


def test_the_network_may_be_left_as_it_is():
    assert len(built(train_network=False).trainable_weights) == 5
    encoder = built(train_network=True)
    assert len(encoder.trainable_weights) == 7
    again = ImageEncoder.from_config(built(train_network=False).get_config())
    again.build(IMAGES.shape)
    assert len(again.trainable_weights) == 5


def test_it_saves_and_loads(tmp_path):
    images = keras.Input((16, 16, 3), dtype="uint8")
    memory, _, summary = built(dropout=0.5)(images)
    model = keras.Model(images, [memory, summary])
    model.save(tmp_path / "encoder.keras")
    again = keras.saving.load_model(tmp_path / "encoder.keras")
    for ours, theirs in zip(model(IMAGES), again(IMAGES), strict=True):
        close(ours, theirs)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ImageEncoder("VGG16", 6), "`network` must be a Keras model"),
        (lambda: ImageEncoder(network(), 0), "dim=0"),
        (lambda: ImageEncoder(network(), 6, scaling="x"), "scaling='x'"),
        (lambda: built()(np.ones((2, 16, 16), "uint8")), r"images.shape=\(2, 16, 16\)"),
        (lambda: ImageEncoder(network(), 6)(IMAGES[:, :15]), r"a grid of \(4, 4\) for images of"),
    ],
)
def test_errors_say_what_was_received(call, message):
    with pytest.raises(ValueError, match=message):
        call()
