"""What every attention layer shares: masks, the softmax, the context."""

from typing import Any, NamedTuple

import keras
from keras import ops

from zoo.layers import checks
from zoo.layers.named_arguments import NamedArguments
from zoo.layers.products import product
from zoo.layers.reshape import reshape

MASKED = -1e9  # the score of a masked position, before the softmax


class AttentionSource(NamedTuple):
    """What an attention precomputes from one source; every leaf is (batch, source_length, ...)."""

    keys: Any  # (batch, source_length, key_dim), projected once
    values: Any  # (batch, source_length, value_dim)
    mask: Any  # (batch, source_length) bool, True where there is something to look at


def project(inputs, kernel):
    """inputs (batch, time, dim) times kernel (dim, units), as one matrix product.

    Written out, because XLA cannot differentiate tensordot in a loop over a batch of unknown size.
    """
    rows = ops.reshape(inputs, (-1, inputs.shape[-1]))  # (batch * time, dim)
    if inputs.shape[1] == 1:  # what a step projects, perhaps in a loop
        projected = product((rows, kernel))
    else:
        projected = ops.matmul(rows, ops.cast(kernel, rows.dtype))
    return reshape(projected, (*ops.shape(inputs)[:2], kernel.shape[-1]))


def masked_softmax(scores, mask):
    """Softmax over the last axis in float32; a row that is fully masked has no weight at all."""
    scores = ops.where(mask, ops.cast(scores, "float32"), MASKED)
    # (Keras warns of a softmax over one position, which a source of one token rightly has.)
    weights = ops.ones_like(scores) if scores.shape[-1] == 1 else ops.softmax(scores, axis=-1)
    return ops.where(mask, weights, 0.0)


class Attention(NamedArguments, keras.layers.Layer):
    """Base class: a subclass says how keys are projected and how a query scores them.

    It implements `build_scores(query_dim, key_dim)`, `project_keys(key)` and
    `compute_scores(query, keys) -> (batch, queries, source_length)`.
    """

    is_monotonic = False  # whether a step's weights depend on those of the step before

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True  # the context keeps the mask of the query

    def build(self, query_shape, value_shape, key_shape=None):
        self.query_dim = query_shape[-1]
        self.key_dim = (key_shape or value_shape)[-1]
        self.build_scores(self.query_dim, self.key_dim)
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
        self._require_built("precompute")
        value = ops.cast(value, self.compute_dtype)
        key = value if key is None else ops.cast(key, self.compute_dtype)
        checks.shape("value", value, ("batch", "source_length", "value_dim"))
        batch, length = value.shape[:2]
        sizes = (batch, length, self.key_dim)
        checks.shape("key", key, ("batch", "source_length", "key_dim"), sizes)
        if value_mask is None:
            mask = ops.ones(ops.shape(value)[:2], dtype="bool")
        else:
            mask = self._mask("value_mask", value_mask)
            checks.shape("value_mask", mask, ("batch", "source_length"), (batch, length))
        return AttentionSource(self.project_keys(key), value, mask)

    def attend(self, query, source, attention_mask=None):
        """Returns the context (batch, queries, value_dim) and the weights of each query."""
        scores, mask = self.masked_scores(query, source, attention_mask)
        return self.context(masked_softmax(scores, mask), source)

    def masked_scores(self, query, source, attention_mask=None):
        """Scores (batch, queries, source_length), and a mask that broadcasts to them."""
        self._require_built("attend")
        query = ops.cast(query, self.compute_dtype)
        batch, length = source.values.shape[:2]
        sizes = (batch, None, self.query_dim)
        checks.shape("query", query, ("batch", "queries", "query_dim"), sizes)
        mask = source.mask[:, None, :]  # (batch, 1, source_length)
        if attention_mask is not None:
            attention_mask = self._mask("attention_mask", attention_mask)
            sizes = (batch, query.shape[1], length)
            axes = ("batch", "queries", "source_length")
            checks.shape("attention_mask", attention_mask, axes, sizes)
            mask = ops.logical_and(mask, attention_mask)
        return self.compute_scores(query, source.keys), mask

    def context(self, weights, source):
        """The weighted sum (batch, queries, value_dim), and the weights in the compute dtype."""
        weights = ops.cast(weights, self.compute_dtype)
        return product((weights, source.values)), weights

    def add_additive_weights(self, units, query_dim, key_dim):
        """The weights of v . tanh(q W + h U)."""
        self.query_kernel = self.add_weight(shape=(query_dim, units), name="query_kernel")
        self.key_kernel = self.add_weight(shape=(key_dim, units), name="key_kernel")
        self.v = self.add_weight(shape=(units,), name="v")

    def additive_scores(self, query, keys, v, bias=None):
        query = ops.cast(project(query, self.query_kernel), "float32")  # (batch, queries, units)
        if bias is not None:
            query = query + ops.cast(bias, "float32")
        hidden = ops.tanh(query[:, :, None, :] + ops.cast(keys, "float32")[:, None, :, :])
        rows = ops.reshape(hidden, (-1, hidden.shape[-1]))  # one product, and no pass before a sum
        scores = ops.matmul(rows, ops.cast(v, "float32")[:, None])
        return ops.reshape(scores, ops.shape(hidden)[:-1])

    def _require_built(self, method):
        if not self.built:
            raise ValueError(
                f"{type(self).__name__}.{method} needs the weights, whose shapes depend on the "
                "query: call the layer once, or build((batch, queries, query_dim), (batch, "
                "source_length, value_dim)), before it. Received: a layer that is not built"
            )

    def _mask(self, name, mask):
        mask = ops.convert_to_tensor(mask)
        dtype = keras.backend.standardize_dtype(mask.dtype)
        if not (dtype == "bool" or "int" in dtype):
            raise ValueError(
                f"`{name}` must be bool, True where there is something to look at; from lengths it "
                "is keras.ops.arange(source_length) < lengths[:, None]. "
                f"Received: {name}.dtype={dtype}"
            )
        return ops.cast(mask, "bool")
