import keras

from zoo.layers.dense import Dense
from zoo.layers.dropout import Dropout
from zoo.layers.head_attention import HeadAttention
from zoo.layers.layer_normalization import LayerNormalization


class TransformerBlock(keras.layers.Layer):
    """One layer of a Transformer: each part reads a normalised x and adds to it ("pre-norm").

        x = x + attention(norm(x))               to itself
        x = x + attention(norm(x), memory)       with `cross_attention`
        x = x + relu(norm(x) W + b) W' + b'

    Arguments:
        dim, num_heads, feedforward_dim: ints.
        dropout: float, applied to what each part adds.
        cross_attention: bool.
        inner_dropout: float, applied to the weights of attention and inside the last part.
    """

    def __init__(
        self,
        dim,
        num_heads,
        feedforward_dim,
        dropout=0.0,
        cross_attention=False,
        inner_dropout=0.0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.has_cross_attention = cross_attention
        self.self_norm = self._norm("self_norm")
        self.self_attention = HeadAttention(
            dim, num_heads, inner_dropout, dtype=self.dtype_policy, name="self_attention"
        )
        if cross_attention:
            self.cross_norm = self._norm("cross_norm")
            self.cross_attention = HeadAttention(
                dim, num_heads, inner_dropout, dtype=self.dtype_policy, name="cross_attention"
            )
        self.feedforward_norm = self._norm("feedforward_norm")
        self.inner_dense = Dense(
            feedforward_dim, activation="relu", dtype=self.dtype_policy, name="inner"
        )
        self.outer_dense = Dense(dim, dtype=self.dtype_policy, name="outer")
        self.dropout_layer = Dropout(dropout, dtype=self.dtype_policy)
        self.inner_dropout_layer = Dropout(inner_dropout, dtype=self.dtype_policy)

    def _norm(self, name):
        return LayerNormalization(epsilon=1e-6, dtype=self.dtype_policy, name=name)

    def build(self, shape, memory_dim=None):
        self.self_norm.build(shape)
        self.self_attention.build(shape, shape)
        if self.has_cross_attention:
            self.cross_norm.build(shape)
            self.cross_attention.build(shape, (None, None, memory_dim))
        self.feedforward_norm.build(shape)
        self.inner_dense.build(shape)
        self.outer_dense.build((None, None, self.inner_dense.units))
        self.built = True

    def call(self, x, mask, source=None, training=None):
        """x (batch, time, dim); mask (batch or 1, time, time) bool, what each may look at.

        source is (keys, values, mask) of a memory. Returns x and the weights on the memory, (batch,
        heads, time, source_length), or None.
        """

        def attend_self(y):
            return self.self_attention(y, y, mask, training=training)[0]

        return self.run(x, attend_self, source, training)

    def run(self, x, attend_self, source=None, training=None):
        """The parts in their order; `attend_self` is a function, since a step has a cache."""
        x = x + self.dropout_layer(attend_self(self.self_norm(x)), training=training)
        weights = None
        if self.has_cross_attention:
            y = self.cross_norm(x)
            y, weights = self.cross_attention.attend(y, *source, training=training)
            x = x + self.dropout_layer(y, training=training)
        y = self.inner_dense(self.feedforward_norm(x))
        y = self.outer_dense(self.inner_dropout_layer(y, training=training))
        return x + self.dropout_layer(y, training=training), weights
