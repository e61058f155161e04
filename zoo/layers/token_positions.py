import keras
import numpy as np
from keras import ops

from zoo.layers.dropout import Dropout

POSITIONS = ("sinusoidal", "learned")


class TokenPositions(keras.layers.Layer):
    """Embeds tokens and adds where they stand: sqrt(dim) * embedding(token) + position(t).

    Arguments:
        vocabulary_size, dim: ints.
        positions: "sinusoidal", position(t) = [sin(t / 10000 ** (2i / dim)); cos(...)]
            (Vaswani et al. 2017), or "learned".
        max_length: int, the learned positions.
        dropout: float, applied to the sum.
    """

    def __init__(self, vocabulary_size, dim, positions, max_length, dropout, **kwargs):
        super().__init__(**kwargs)
        self.dim = dim
        self.positions = positions
        self.max_length = max_length
        self.embedding = keras.layers.Embedding(
            vocabulary_size,
            dim,
            embeddings_initializer=keras.initializers.RandomNormal(stddev=dim**-0.5),
            dtype=self.dtype_policy,
            name="embedding",
        )
        self.dropout_layer = Dropout(dropout, dtype=self.dtype_policy)

    def build(self, tokens_shape):
        if not self.embedding.built:  # an encoder may share it
            self.embedding.build(tokens_shape)
        if self.positions == "learned":
            self.position_embeddings = self.add_weight(
                shape=(self.max_length, self.dim),
                initializer=keras.initializers.RandomNormal(stddev=0.02),
                name="positions",
            )
        self.built = True

    def call(self, tokens, start=0, training=None):
        """tokens (batch, time), the first of which stands at `start`."""
        x = self.embedding(tokens) * ops.cast(self.dim**0.5, self.compute_dtype)
        where = start + ops.arange(ops.shape(tokens)[1])  # (time,)
        x = x + ops.cast(self.encode(where), self.compute_dtype)
        return self.dropout_layer(x, training=training)

    def check_length(self, name, length):
        if self.positions == "learned" and length is not None and length > self.max_length:
            raise ValueError(
                f"Learned positions end at max_length={self.max_length}. Received: {name} of "
                f"length {length}"
            )

    def encode(self, where):
        """Positions (time,) to vectors (time, dim)."""
        if self.positions == "learned":
            where = ops.minimum(where, self.max_length - 1)  # of the rest nothing is used
            return ops.take(self.position_embeddings, where, axis=0)
        rates = 10000.0 ** (-np.arange(0, self.dim, 2) / self.dim)  # (dim / 2,)
        rates = ops.convert_to_tensor(rates, dtype="float32")
        angles = ops.cast(where, "float32")[:, None] * rates
        return ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=-1)[:, : self.dim]
