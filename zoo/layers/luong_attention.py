import keras
from keras import ops

from zoo.layers import checks
from zoo.layers.attention import Attention, project
from zoo.layers.products import product

SCORES = ("dot", "general", "concat", "scaled_dot")


@keras.saving.register_keras_serializable("zoo")
class LuongAttention(Attention):
    """Multiplicative attention (Luong et al. 2015), with the score functions of the paper.

        "dot"         score(q, h) = q . h
        "general"     score(q, h) = q . (h W)
        "concat"      score(q, h) = v . tanh(q W + h U), the function of `BahdanauAttention`
        "scaled_dot"  score(q, h) = q . h / sqrt(dim)          (Vaswani et al. 2017)

    With `scale=True` the score is multiplied by a learned factor `g`, which starts at 1.

    Arguments:
        score: "dot", "general", "concat" or "scaled_dot". The dot products need queries and keys
            of one size.
        units: int, the width of the tanh layer of "concat" (by default the query's size); the
            other scores have none.
        scale: bool, whether to learn a factor for the score.

    Call arguments, masks, results and the two-step use through `precompute` and `attend` are those
    of `BahdanauAttention`.

    Weights: `kernel` (key_dim, query_dim) for "general"; `query_kernel`, `key_kernel` and `v` for
    "concat"; `g` () with `scale`.

    Example:

    ```python
    import numpy as np
    from zoo import LuongAttention

    attention = LuongAttention("general")
    query = np.random.normal(size=(2, 1, 4))
    value = np.random.normal(size=(2, 5, 6))
    attention.build(query.shape, value.shape)
    source = attention.precompute(value)
    context, weights = attention.attend(query, source)  # once per step
    assert context.shape == (2, 1, 6) and weights.shape == (2, 1, 5)
    ```
    """

    def __init__(self, score="general", units=None, scale=False, **kwargs):
        super().__init__(**kwargs)
        self.score = checks.one_of("score", score, SCORES)
        if units is not None and score != "concat":
            raise ValueError(
                "`units` is the width of score='concat'; the other scores have none. "
                f"Received: score={score!r}, units={units}"
            )
        self.units = None if units is None else checks.integer("units", units, 1)
        self.scale = checks.boolean("scale", scale)

    def build_scores(self, query_dim, key_dim):
        if self.score == "concat":
            self.add_additive_weights(self.units or query_dim, query_dim, key_dim)
        elif self.score == "general":
            self.kernel = self.add_weight(shape=(key_dim, query_dim), name="kernel")
        elif query_dim != key_dim:
            raise ValueError(
                f"score={self.score!r} needs queries and keys of one size (use 'general' for "
                f"unequal ones). Received: query_dim={query_dim}, key_dim={key_dim}"
            )
        if self.scale:
            self.g = self.add_weight(shape=(), initializer="ones", name="g")

    def project_keys(self, key):
        if self.score == "concat":
            return project(key, self.key_kernel)
        if self.score == "general":
            key = project(key, self.kernel)
        return ops.cast(key, "float32")  # a sum of products overflows float16

    def compute_scores(self, query, keys):
        if self.score == "concat":
            scores = self.additive_scores(query, keys, self.v)
        else:
            query = ops.cast(query, "float32")
            if self.score == "scaled_dot":
                query = query * self.query_dim**-0.5
            scores = product((query, keys), transposed=True)
        return scores * ops.cast(self.g, scores.dtype) if self.scale else scores

    def get_config(self):
        config = {"score": self.score, "units": self.units, "scale": self.scale}
        return {**super().get_config(), **config}
