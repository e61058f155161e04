import math

import keras
from keras import ops

from zoo.layers.attention import masked_softmax
from zoo.layers.dense import Dense
from zoo.layers.dropout import Dropout
from zoo.layers.reshape import reshape


class HeadAttention(keras.layers.Layer):
    """Multi-head attention in the two halves that decoding needs (Vaswani et al. 2017).

        keys, values = memory W_k + b_k, memory W_v + b_v       (`project`, once per position)
        head_i = softmax(query_i . keys_i / sqrt(dim / heads)) values_i
        output = [head_1; ...; head_n] W_o + b_o                (`attend`)

    Arguments:
        dim: int, of the output, and of keys and values over all heads.
        num_heads: int, a divisor of dim.
        dropout: float, applied to the weights.
    """

    def __init__(self, dim, num_heads, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.dim = dim
        self.num_heads = num_heads
        self.head_dim = dim // num_heads

        def dense(name):
            return Dense(dim, dtype=self.dtype_policy, name=name)

        self.query_dense = dense("query")
        self.key_dense = dense("key")
        self.value_dense = dense("value")
        self.output_dense = dense("output")
        self.dropout_layer = Dropout(dropout, dtype=self.dtype_policy)

    def build(self, query_shape, memory_shape):
        self.query_dense.build(query_shape)
        self.key_dense.build(memory_shape)
        self.value_dense.build(memory_shape)
        self.output_dense.build((*query_shape[:-1], self.dim))
        self.built = True

    def project(self, memory):
        """memory (batch, length, any) to keys and values (batch, heads, length, head_dim)."""
        return self._heads(self.key_dense(memory)), self._heads(self.value_dense(memory))

    def attend(self, query, keys, values, mask, training=None):
        """query (batch, queries, any) on keys and values (batch, heads, length, head_dim).

        mask is bool and broadcasts to (batch, queries, length). Returns the output (batch, queries,
        dim) and the weights (batch, heads, queries, length); what is fully masked gets none.
        """
        query = self._heads(self.query_dense(query))  # (batch, heads, queries, head_dim)
        scores = ops.matmul(query, ops.transpose(keys, (0, 1, 3, 2)))
        scores = ops.cast(scores, "float32") / math.sqrt(self.head_dim)
        weights = masked_softmax(scores, mask[:, None])  # the mask is (batch, 1, queries, length)
        weights = ops.cast(weights, self.compute_dtype)
        dropped = self.dropout_layer(weights, training=training)
        context = ops.matmul(dropped, values)  # (batch, heads, queries, head_dim)
        context = swapped(context)  # (batch, queries, heads, head_dim)
        context = reshape(context, (*ops.shape(context)[:2], self.dim))
        return self.output_dense(context), weights

    def call(self, query, memory, mask, training=None):
        return self.attend(query, *self.project(memory), mask, training)

    def _heads(self, x):
        """(batch, length, dim) to (batch, heads, length, head_dim)."""
        return swapped(reshape(x, (*ops.shape(x)[:2], self.num_heads, self.head_dim)))


def swapped(x):
    """(a, b, c, d) to (a, c, b, d). Nothing moves if b or c is 1, as the length of a step is."""
    if 1 in x.shape[1:3]:
        a, b, c, d = ops.shape(x)
        return reshape(x, (a, c, b, d))
    return ops.transpose(x, (0, 2, 1, 3))
