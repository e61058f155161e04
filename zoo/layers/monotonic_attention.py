"""Attention that only moves forward over its source (Raffel et al. 2017)."""

import keras
from keras import ops

from zoo.layers import checks
from zoo.layers.bahdanau_attention import BahdanauAttention
from zoo.layers.luong_attention import LuongAttention
from zoo.layers.scan import scan

MODES = ("parallel", "recursive", "hard")


def monotonic_weights(choose, previous, mode):
    """The distribution of where a reader stops who goes on from where it stopped before.

        weights(j) = choose(j) * sum over k <= j of previous(k) * product of 1 - choose(k .. j-1)

    choose (batch, queries, source_length) is the probability to stop at a position that is reached,
    previous, of the same shape, the distribution of the step before. What is missing to a sum of 1
    is the probability to have run past the end.
    """
    if mode == "recursive":
        return choose * _reached(choose, previous)
    if mode == "hard":  # choose is 0 or 1: the first 1 from where it stopped before
        choose = choose * ops.cumsum(previous, axis=-1)
        return choose * ops.cumprod(_passed(choose), axis=-1)  # exactly 0 or 1
    passed = _product_before(1.0 - choose)
    return choose * passed * ops.cumsum(previous / ops.maximum(passed, 1e-10), axis=-1)


def _passed(choose):
    """The probability that the position before each is passed; before the first there is none."""
    return ops.pad(1.0 - choose[..., :-1], ((0, 0), (0, 0), (1, 0)), constant_values=1.0)


def _product_before(x):
    """At each position the product of all values before it; x is in [0, 1]."""
    logs = ops.log(ops.clip(x, 1e-35, 1.0))  # the gradient is finite at 0
    return ops.exp(ops.cumsum(logs, axis=-1) - logs)


def _reached(choose, previous):
    """The probability that a position is reached: r(j) = (1 - choose(j-1)) r(j-1) + previous(j)."""
    batch, queries, length = ops.shape(choose)
    inputs = ops.stack([_passed(choose), previous], axis=-1)
    inputs = ops.reshape(inputs, (-1, length, 2))

    def step(inputs, reached):
        reached = inputs[:, :1] * reached + inputs[:, 1:]
        return [reached], reached

    (reached,), _ = scan(step, inputs, ops.zeros_like(inputs[:, 0, :1]))
    return ops.reshape(reached, (batch, queries, length))


class Monotonic:
    """Mixin for an `Attention`: its scores decide where to stop instead of how to share."""

    is_monotonic = True

    def __init__(
        self, *args, mode="parallel", sigmoid_noise=0.0, score_bias_init=0.0, seed=None, **kwargs
    ):
        super().__init__(*args, **kwargs)
        self.mode = mode
        self.sigmoid_noise = checks.number("sigmoid_noise", sigmoid_noise)
        self.score_bias_init = checks.number(
            "score_bias_init", score_bias_init, "a number", lambda x: True
        )
        self.seed = None if seed is None else checks.integer("seed", seed, 0)
        if self.sigmoid_noise > 0:
            self.seed_generator = keras.random.SeedGenerator(self.seed)

    @property
    def mode(self):
        return self._mode

    @mode.setter
    def mode(self, mode):
        self._mode = checks.one_of("mode", mode, MODES)

    def build(self, query_shape, value_shape, key_shape=None):
        self.score_bias = self.add_weight(
            shape=(),
            initializer=keras.initializers.Constant(self.score_bias_init),
            name="score_bias",
        )
        super().build(query_shape, value_shape, key_shape)

    def call(
        self,
        query,
        value,
        key=None,
        value_mask=None,
        attention_mask=None,
        previous_weights=None,
        return_attention_scores=False,
        training=None,
    ):
        source = self.precompute(value, value_mask, key)
        noise = None
        if training:
            noise = self.draw_noise((*ops.shape(query)[:2], ops.shape(value)[1]))
        context, weights = self.attend(query, source, attention_mask, previous_weights, noise)
        return (context, weights) if return_attention_scores else context

    def attend(self, query, source, attention_mask=None, previous_weights=None, noise=None):
        """Context and weights of each query, given the weights of the step before.

        previous_weights (batch, queries, source_length) are by default those of a reader at the
        first position; noise, of the same shape, is what `draw_noise` gives in training.
        """
        scores, mask = self.masked_scores(query, source, attention_mask)
        if previous_weights is None:
            previous_weights = ops.broadcast_to(self.initial_weights(source), ops.shape(scores))
        sizes = (*source.values.shape[:1], query.shape[1], source.values.shape[1])
        axes = ("batch", "queries", "source_length")
        checks.shape("previous_weights", previous_weights, axes, sizes)
        scores = ops.cast(scores, "float32") + ops.cast(self.score_bias, "float32")
        if noise is not None:
            scores = scores + ops.cast(noise, "float32")  # Keras may have cast it
        stops = ops.cast(scores > 0, "float32") if self.mode == "hard" else ops.sigmoid(scores)
        stops = ops.where(mask, stops, 0.0)
        weights = monotonic_weights(stops, ops.cast(previous_weights, "float32"), self.mode)
        return self.context(weights, source)

    def initial_weights(self, source):
        """Those before the first step, (batch, 1, source_length): all at the first position."""
        batch, length = ops.shape(source.values)[:2]
        first = ops.cast(ops.equal(ops.arange(length), 0), self.compute_dtype)
        return ops.broadcast_to(first, (batch, 1, length))

    def draw_noise(self, shape):
        """What training adds to scores of this shape, or None."""
        if self.sigmoid_noise == 0:
            return None
        noise = keras.random.normal(shape, dtype="float32", seed=self.seed_generator)
        return self.sigmoid_noise * noise

    def get_config(self):
        names = ("mode", "sigmoid_noise", "score_bias_init", "seed")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


@keras.saving.register_keras_serializable("zoo")
class BahdanauMonotonicAttention(Monotonic, BahdanauAttention):
    """Additive attention that only moves forward (Raffel et al. 2017).

    Each query goes on from where the one before stopped, and stops at a position j with probability
    sigmoid(score(q, h(j)) + score_bias). The weights are the distribution of where it stops; what
    they lack to a sum of 1 is the probability that it ran past the end.

    Arguments:
        units: int, the width of the tanh layer.
        mode: "parallel" computes all positions at once, and is inexact far behind positions that
            are surely chosen; "recursive" is exact, and goes from position to position; "hard"
            stops where the score is above 0: it has no gradient, and is what a model that was
            trained with one of the others decodes with. Set `attention.mode = "hard"` before a
            `tf.function` is traced or a model compiled: what is compiled keeps its mode.
        normalize: bool, as in `BahdanauAttention`.
        sigmoid_noise: float, the standard deviation of the noise that training adds to the scores,
            so that they learn to be large and "hard" finds what was trained.
        score_bias_init: float, what `score_bias` starts from; a negative one lets a fresh model
            look far ahead.
        seed: int, of the noise.

    Call arguments are those of `BahdanauAttention`, and
        previous_weights: (batch, queries, source_length), the weights of the step before; by
            default all weight is at the first position.
    In an `AttentionCell` they are handed from step to step.

    Weights: those of `BahdanauAttention` and `score_bias` ().

    Example:

    ```python
    import numpy as np
    from zoo import BahdanauMonotonicAttention

    attention = BahdanauMonotonicAttention(units=8)
    query = np.random.normal(size=(2, 1, 4))
    value = np.random.normal(size=(2, 5, 6))
    _, weights = attention(query, value, return_attention_scores=True)
    context, weights = attention(  # goes on from there
        query, value, previous_weights=weights, return_attention_scores=True
    )
    assert context.shape == (2, 1, 6) and weights.shape == (2, 1, 5)
    ```
    """

    def __init__(
        self,
        units,
        mode="parallel",
        normalize=False,
        sigmoid_noise=0.0,
        score_bias_init=0.0,
        seed=None,
        **kwargs,
    ):
        super().__init__(
            units,
            normalize,
            mode=mode,
            sigmoid_noise=sigmoid_noise,
            score_bias_init=score_bias_init,
            seed=seed,
            **kwargs,
        )


@keras.saving.register_keras_serializable("zoo")
class LuongMonotonicAttention(Monotonic, LuongAttention):
    """Multiplicative attention that only moves forward (Raffel et al. 2017).

    Arguments:
        mode, sigmoid_noise, score_bias_init, seed: as in `BahdanauMonotonicAttention`.
        score, units, scale: as in `LuongAttention`.

    Call arguments are those of `BahdanauMonotonicAttention`.

    Weights: those of `LuongAttention` and `score_bias` ().

    Example:

    ```python
    import keras
    import numpy as np
    from zoo import AttentionCell, LuongMonotonicAttention, RecurrentDecoder, RecurrentEncoder

    encoder = RecurrentEncoder(100, 16, units=8)
    cell = AttentionCell(keras.layers.GRUCell(8), LuongMonotonicAttention(), 8, activation="tanh")
    decoder = RecurrentDecoder(50, 16, cell)
    source, target = np.array([[4, 5, 6], [7, 8, 0]]), np.array([[1, 9, 10, 11], [1, 12, 13, 2]])
    logits, weights = decoder(target, *encoder(source), return_attention_scores=True)
    assert logits.shape == (2, 4, 50) and weights.shape == (2, 4, 3)
    ```
    """

    def __init__(
        self,
        mode="parallel",
        score="general",
        units=None,
        scale=False,
        sigmoid_noise=0.0,
        score_bias_init=0.0,
        seed=None,
        **kwargs,
    ):
        super().__init__(
            score,
            units,
            scale,
            mode=mode,
            sigmoid_noise=sigmoid_noise,
            score_bias_init=score_bias_init,
            seed=seed,
            **kwargs,
        )
