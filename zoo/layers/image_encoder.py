import keras
from keras import ops

from zoo.layers import checks
from zoo.layers.dense import Dense
from zoo.layers.dropout import Dropout
from zoo.layers.layer_normalization import LayerNormalization

# How red, green and blue of 0 to 255 reach a network: the names of keras.applications, and of it
# whether blue comes first, what is taken off each, and what it is then divided by.
SCALINGS = {
    "tf": (False, (127.5, 127.5, 127.5), (127.5, 127.5, 127.5)),
    "torch": (False, (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)),
    "caffe": (True, (103.939, 116.779, 123.68), (1.0, 1.0, 1.0)),
    "none": (False, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
}


@keras.saving.register_keras_serializable("zoo")
class ImageEncoder(keras.layers.Layer):
    """Looks at images with a convolutional network and leaves a grid of vectors behind as memory.

        memory(i) = norm(network(image)(i) W + b + position(i))       (Xu et al. 2015)
        summary   = mean of the memory over what is image

    What a decoder attends to are places of the image. The position, which is learnt, tells it where
    they are: a convolution sees what is beside what, but not what is left and what is right.

    Arguments:
        network: a Keras model or layer, of images (batch, height, width, 3) to a grid (batch, rows,
            columns, channels), such as `keras.applications.VGG16(include_top=False, weights=None,
            input_shape=(224, 224, 3))`. It is always called as in inference: batch normalisation
            keeps the statistics that it came with, so that a batch's rows do not mix.
        dim: int, of the memory.
        scaling: how pixels reach the network: "tf" (-1 to 1), "torch", "caffe", which are the modes
            of keras.applications, or "none" (0 to 255).
        train_network: bool, whether the network's weights are trained too.
        dropout: float, applied to the memory.

    Call arguments:
        images: (batch, height, width, 3) pixels of 1 to 255; where all three are 0 there is no
            image, as beside one that is no square. `zoo.image.ImageReader` gives such.

    Returns what a decoder's `call` and a search take:
        memory: (batch, rows * columns, dim), row by row.
        memory_mask: (batch, rows * columns) bool, True where there is a pixel.
        summary: (batch, dim).

    Example:

    ```python
    import keras
    import numpy as np
    from zoo import ImageEncoder

    network = keras.Sequential([
        keras.layers.Conv2D(16, 3, strides=2, padding="same", activation="relu"),
        keras.layers.Conv2D(32, 3, strides=2, padding="same", activation="relu"),
    ])
    encoder = ImageEncoder(network, dim=24)
    images = np.random.randint(1, 256, size=(2, 32, 32, 3), dtype="uint8")
    images[1, :, 16:] = 0  # the second is half as wide
    memory, memory_mask, summary = encoder(images)
    assert memory.shape == (2, 64, 24) and summary.shape == (2, 24)
    assert memory_mask.shape == (2, 64) and keras.ops.sum(memory_mask[1]) == 32
    ```
    """

    def __init__(self, network, dim, scaling="tf", train_network=True, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        if not isinstance(network, keras.layers.Layer):
            raise ValueError(
                f"`network` must be a Keras model or layer of images. Received: network={network!r}"
            )
        self.network = network
        self.dim = checks.integer("dim", dim, 1)
        self.scaling = checks.one_of("scaling", scaling, tuple(SCALINGS))
        self.train_network = checks.boolean("train_network", train_network)
        self.dropout = checks.rate("dropout", dropout)
        self.network.trainable = train_network
        self.projection = Dense(dim, dtype=self.dtype_policy, name="projection")
        self.norm = LayerNormalization(dtype=self.dtype_policy, name="norm")
        self.dropout_layer = Dropout(dropout, dtype=self.dtype_policy)

    def build(self, images_shape):
        if not self.network.built:
            self.network.build(images_shape)
        _, *self.grid, channels = self.network.compute_output_shape((None, *images_shape[1:]))
        self._require_patches(images_shape)
        count = self.grid[0] * self.grid[1]
        self.projection.build((None, count, channels))
        self.norm.build((None, count, self.dim))
        self.positions = self.add_weight(
            shape=(count, self.dim), initializer="random_normal", name="positions"
        )
        self.built = True

    def _require_patches(self, images_shape):
        sides = images_shape[1:3]
        if any(grid is None or side % grid for side, grid in zip(sides, self.grid, strict=True)):
            raise ValueError(
                "The grid of `network` must divide the image, for each position to stand for a "
                f"patch. Received: a grid of {tuple(self.grid)} for images of {tuple(sides)}"
            )

    def call(self, images, training=None):
        checks.shape("images", images, ("batch", "height", "width", "channels"), (None,) * 3 + (3,))
        rows, columns = self.grid
        height, width = images.shape[1:3]
        is_image = ops.any(ops.not_equal(images, 0), axis=-1)  # (batch, height, width)
        patches = ops.reshape(is_image, (-1, rows, height // rows, columns, width // columns))
        mask = ops.reshape(ops.any(ops.any(patches, axis=4), axis=2), (-1, rows * columns))
        features = self.network(self._scaled(images, is_image), training=False)
        features = ops.reshape(features, (-1, rows * columns, features.shape[-1]))
        memory = self.projection(ops.cast(features, self.compute_dtype))
        memory = self.norm(memory + ops.cast(self.positions, self.compute_dtype))
        there = ops.cast(mask, memory.dtype)[:, :, None]
        summary = ops.sum(memory * there, axis=1) / ops.maximum(ops.sum(there, axis=1), 1)
        return self.dropout_layer(memory, training=training), mask, summary

    def _scaled(self, images, is_image):
        """What the network sees: 0 beside an image."""
        reverses, offset, scale = SCALINGS[self.scaling]
        pixels = ops.cast(images, self.compute_dtype)
        pixels = ops.flip(pixels, axis=-1) if reverses else pixels
        offset, scale = (ops.convert_to_tensor(x, dtype=pixels.dtype) for x in (offset, scale))
        return ops.where(is_image[..., None], (pixels - offset) / scale, 0)

    def get_config(self):
        return {
            **super().get_config(),
            "network": keras.saving.serialize_keras_object(self.network),
            "dim": self.dim,
            "scaling": self.scaling,
            "train_network": self.train_network,
            "dropout": self.dropout,
        }

    @classmethod
    def from_config(cls, config):
        network = keras.saving.deserialize_keras_object(config["network"])
        return cls(**{**config, "network": network})
