import keras
from keras import ops

from zoo.layers import checks
from zoo.layers.attention import Attention, project


@keras.saving.register_keras_serializable("zoo")
class BahdanauAttention(Attention):
    """Additive attention: each query looks at a source through a small tanh layer.

        score(q, h) = v . tanh(q W + h U)                      (Bahdanau et al. 2015)
        score(q, h) = g * v/|v| . tanh(q W + h U + b)          with `normalize=True`
        weights     = softmax over the source, masked positions left out
        context     = sum of weights * value

    The normalised form is weight normalisation (Salimans & Kingma 2016), which trains more stably.

    Arguments:
        units: int, the width of the tanh layer.
        normalize: bool, whether to normalise `v` and to learn its length `g` and a bias `b`.

    Call arguments:
        query: (batch, queries, query_dim).
        value: (batch, source_length, value_dim).
        key: (batch, source_length, key_dim), what the score sees; `value` by default.
        value_mask: (batch, source_length) bool, True at positions to look at. The mask of an
            `Embedding(mask_zero=True)` arrives by itself.
        attention_mask: (batch, queries, source_length) bool, for instance a causal mask.
        return_attention_scores: bool, whether to return the weights too.

    Returns the context (batch, queries, value_dim), and the weights (batch, queries, source_length)
    if asked. The softmax is computed in float32 whatever the dtype policy. A row whose source is
    fully masked has zero weights and a zero context.

    When a query comes one step at a time, project the keys once with
    `source = attention.precompute(value, value_mask, key)` and then call
    `context, weights = attention.attend(query, source)` at each step.

    Weights: `query_kernel` (query_dim, units), `key_kernel` (key_dim, units), `v` (units,), and
    with `normalize` also `g` () and `b` (units,).

    Example:

    ```python
    import numpy as np
    from zoo import BahdanauAttention

    attention = BahdanauAttention(units=8)
    query = np.random.normal(size=(2, 3, 4))  # 2 sentences, 3 queries each
    value = np.random.normal(size=(2, 5, 6))  # 5 source positions
    mask = np.array([[True] * 5, [True] * 2 + [False] * 3])
    context, weights = attention(query, value, value_mask=mask, return_attention_scores=True)
    assert context.shape == (2, 3, 6) and weights.shape == (2, 3, 5)
    ```
    """

    def __init__(self, units, normalize=False, **kwargs):
        super().__init__(**kwargs)
        self.units = checks.integer("units", units, 1)
        hint = "; the memory is an argument of the call"
        self.normalize = checks.boolean("normalize", normalize, hint)

    def build_scores(self, query_dim, key_dim):
        self.add_additive_weights(self.units, query_dim, key_dim)
        if self.normalize:
            self.g = self.add_weight(
                shape=(), initializer=keras.initializers.Constant(self.units**-0.5), name="g"
            )
            self.b = self.add_weight(shape=(self.units,), initializer="zeros", name="b")

    def project_keys(self, key):
        return ops.cast(project(key, self.key_kernel), "float32")

    def compute_scores(self, query, keys):
        if not self.normalize:
            return self.additive_scores(query, keys, self.v)
        v = ops.cast(self.v, "float32")
        v = ops.cast(self.g, "float32") * v * ops.rsqrt(ops.sum(ops.square(v)))
        return self.additive_scores(query, keys, v, self.b)

    def get_config(self):
        return {**super().get_config(), "units": self.units, "normalize": self.normalize}
