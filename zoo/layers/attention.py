"""What every attention layer shares: masks, the softmax, the context."""

from typing import Any, NamedTuple

import keras
from keras import ops

from zoo.layers.named_arguments import NamedArguments

MASKED = -1e9  # the score of a masked position, before the softmax


class AttentionSource(NamedTuple):
    """What an attention precomputes from one source; every leaf is (batch, source_length, ...)."""

    keys: Any  # (batch, source_length, key_dim), projected once
    values: Any  # (batch, source_length, value_dim)
    mask: Any  # (batch, source_length) bool, True where there is something to look at


def project(inputs, kernel):
    """inputs (batch, time, dim) times kernel (dim, units), as one matrix product."""
    return ops.tensordot(inputs, ops.cast(kernel, inputs.dtype), 1)


class Attention(NamedArguments, keras.layers.Layer):
    """Base class: a subclass says how keys are projected and how a query scores them.

    It implements `build_scores(query_dim, key_dim)`, `project_keys(key)` and
    `compute_scores(query, keys) -> (batch, queries, source_length)`.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True  # the context keeps the mask of the query

    def build(self, query_shape, value_shape, key_shape=None):
        self.query_dim = query_shape[-1]
        self.build_scores(query_shape[-1], (key_shape or value_shape)[-1])
        self.built = True

    def call(
        self,
        query,
        value,
        key=None,
        value_mask=None,
        attention_mask=None,
        return_attention_scores=False,
    ):
        source = self.precompute(value, value_mask, key)
        context, weights = self.attend(query, source, attention_mask)
        return (context, weights) if return_attention_scores else context

    def precompute(self, value, value_mask=None, key=None):
        """Projects the keys of a source, once, for any number of `attend` calls on it."""
        if not self.built:
            raise ValueError(
                f"{self.name}.precompute needs the weights, whose shape depends on the query: call "
                "the layer once, or build((batch, queries, query_dim), (batch, source_length, "
                "value_dim)), before it. Received: a layer that is not built"
            )
        value = self._float(value, "value")
        key = value if key is None else self._float(key, "key")
        if None not in (key.shape[1], value.shape[1]) and key.shape[1] != value.shape[1]:
            raise ValueError(
                "`key` and `value` must have the same source_length. "
                f"Received: key.shape={tuple(key.shape)}, value.shape={tuple(value.shape)}"
            )
        if value_mask is None:
            mask = ops.ones(ops.shape(value)[:2], dtype="bool")
        else:
            mask = ops.cast(value_mask, "bool")
            if len(mask.shape) != 2:
                raise ValueError(
                    "`value_mask` must have shape (batch, source_length). "
                    f"Received: value_mask.shape={tuple(mask.shape)}"
                )
        return AttentionSource(self.project_keys(key), value, mask)

    def attend(self, query, source, attention_mask=None):
        """Returns the context (batch, queries, value_dim) and the weights of each query."""
        query = self._float(query, "query")
        if query.shape[-1] != self.query_dim:
            raise ValueError(
                f"`query` must have {self.query_dim} features, as {self.name} was built for. "
                f"Received: query.shape={tuple(query.shape)}"
            )
        mask = source.mask[:, None, :]  # (batch, 1, source_length)
        if attention_mask is not None:
            if len(attention_mask.shape) != 3:
                raise ValueError(
                    "`attention_mask` must have shape (batch, queries, source_length). "
                    f"Received: attention_mask.shape={tuple(attention_mask.shape)}"
                )
            mask = ops.logical_and(mask, ops.cast(attention_mask, "bool"))
        scores = ops.cast(self.compute_scores(query, source.keys), "float32")
        weights = ops.softmax(ops.where(mask, scores, MASKED), axis=-1)
        weights = ops.where(mask, weights, 0.0)  # a row that is fully masked has no weight at all
        weights = ops.cast(weights, self.compute_dtype)  # (batch, queries, source_length)
        return ops.matmul(weights, source.values), weights

    def add_additive_weights(self, units, query_dim, key_dim):
        """The weights of v . tanh(q W + h U)."""
        self.query_kernel = self.add_weight(shape=(query_dim, units), name="query_kernel")
        self.key_kernel = self.add_weight(shape=(key_dim, units), name="key_kernel")
        self.v = self.add_weight(shape=(units,), name="v")

    def additive_scores(self, query, keys, v, bias=None):
        query = project(query, self.query_kernel)  # (batch, queries, units)
        if bias is not None:
            query = query + ops.cast(bias, self.compute_dtype)
        hidden = ops.tanh(query[:, :, None, :] + keys[:, None, :, :])
        return ops.sum(ops.cast(v, self.compute_dtype) * hidden, axis=-1)

    def _float(self, tensor, name):
        tensor = ops.cast(tensor, self.compute_dtype)
        if len(tensor.shape) != 3:
            axes = "queries" if name == "query" else "source_length"
            raise ValueError(
                f"`{name}` must have shape (batch, {axes}, {name}_dim). "
                f"Received: {name}.shape={tuple(tensor.shape)}"
            )
        return tensor
