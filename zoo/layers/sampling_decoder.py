import functools

import keras
from keras import ops

from zoo.layers import checks
from zoo.layers.chance import draw_index
from zoo.layers.hypotheses import NONE, Choice, standing
from zoo.layers.search import Search
from zoo.layers.vocabulary import normalizers, top_k


@keras.saving.register_keras_serializable("zoo")
class SamplingDecoder(Search):
    """Draws sequences from the distribution of a decoder, several for each source.

    The next token is drawn from softmax(logits / temperature), cut to the `top_k` most probable
    tokens (Fan et al. 2018), and of those to the fewest whose probabilities reach `top_p` together
    (Holtzman et al. 2020). The rules of a search, such as `forbidden_ids`, come before all that.

    Arguments:
        decoder: a `Decoder`.
        temperature: float > 0; below 1 favours the probable, above 1 the improbable.
        top_k: int, the number of tokens to choose from; 0 is all of them.
        top_p: float in (0, 1], the probability to choose from; 1 is all of it.
        seed: int: every call draws the same sample. None: every call draws another one (after
            `keras.utils.set_random_seed`, the same ones in the same order). A sample is drawn for
            the batch as a whole, and by each backend in its own way.
        num_results: int, the samples of each source. They are independent, so some may be equal.
        max_length, start_id, end_id, min_length, no_repeat_ngram, forbidden_ids: as in
            `BeamSearchDecoder`.

    Call arguments and result are those of `BeamSearchDecoder`; samples that ended come first, each
    kind by score. Scores and log_probs are the log-probability that the decoder itself gives to the
    sample, at temperature 1 and uncut.

    Example:

    ```python
    import keras
    import numpy as np
    from zoo import RecurrentDecoder, RecurrentEncoder, SamplingDecoder

    encoder = RecurrentEncoder(100, 16, units=8)
    decoder = RecurrentDecoder(50, 16, keras.layers.GRUCell(8), initial_state="summary")
    sample = SamplingDecoder(decoder, top_p=0.9, seed=7, num_results=3, max_length=10)
    result = sample(*encoder(np.array([[4, 5, 6], [7, 8, 0]])))
    assert result.tokens.shape == (2, 3, 10)
    ```
    """

    def __init__(
        self,
        decoder,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        seed=None,
        num_results=1,
        max_length=64,
        start_id=1,
        end_id=2,
        **kwargs,
    ):
        super().__init__(decoder, max_length=max_length, start_id=start_id, end_id=end_id, **kwargs)
        self.temperature = checks.number(
            "temperature",
            temperature,
            "a number above 0 (near it, or with top_k 1, the most probable tokens are written)",
            lambda x: x > 0,
        )
        self.top_k = checks.integer("top_k", top_k, 0)
        self.top_p = checks.number("top_p", top_p, "above 0 and at most 1", lambda x: 0 < x <= 1)
        self.seed = None if seed is None else checks.integer("seed", seed, 0)
        self.seed_generator = None if seed is not None else keras.random.SeedGenerator()
        self.num_results = self.beam_width = checks.integer("num_results", num_results, 1)

    def chooser(self, batch_size):
        # Drawn for all steps at once: JAX cannot draw in a loop.
        chances = keras.random.uniform(
            (self.max_length, batch_size, self.num_results),
            dtype="float32",
            seed=self.seed_generator or self.seed,
        )
        return functools.partial(self.choose, chances)

    def choose(self, chances, step, hypotheses, logits, allowed):
        first = ops.equal(step, 0)  # where all samples begin from the one empty hypothesis
        log_probs = ops.where(first, 0.0, hypotheses.log_probs)
        is_there = ops.logical_and(log_probs > NONE / 2, ops.any(allowed, axis=-1))
        grows = hypotheses.active[:, None] & ~hypotheses.finished  # (batch, n)
        candidates = ops.where(allowed, logits, NONE)
        tokens = self._draw(candidates, ops.take(chances, step, axis=0))
        of_tokens = ops.take_along_axis(logits, tokens[:, :, None], axis=-1)[:, :, 0]
        largest, rest = normalizers(logits)
        grown = log_probs + ((of_tokens - largest) - rest)
        grown = ops.where(is_there, grown, NONE)
        log_probs = ops.where(grows, grown, log_probs)
        return Choice(
            parents=ops.broadcast_to(ops.arange(self.num_results), ops.shape(tokens)),
            tokens=ops.where(grows & is_there, tokens, self.end_id),
            grown=grows & is_there,
            log_probs=log_probs,
            scores=log_probs,
        )

    def _draw(self, logits, chances):
        """logits (batch, n, vocabulary) and chances (batch, n), uniform in [0, 1), to tokens."""
        vocabulary_size, ids = logits.shape[-1], None
        if self.top_k or self.top_p < 1:  # the most probable first
            logits, ids = top_k(logits, min(self.top_k or vocabulary_size, vocabulary_size))
        largest = ops.max(logits, axis=-1, keepdims=True, initial=NONE)
        probabilities = ops.softmax((logits - largest) / self.temperature, axis=-1)
        probabilities = ops.where(logits > NONE / 2, probabilities, 0.0)  # at any temperature
        if self.top_p < 1:
            before = ops.cumsum(probabilities, axis=-1) - probabilities
            probabilities = ops.where(before < self.top_p, probabilities, 0.0)
        index = draw_index(probabilities, chances)
        if ids is None:
            return index
        tokens = ops.take_along_axis(ids, index[:, :, None], axis=-1)[:, :, 0]
        return ops.cast(tokens, "int32")

    def can_improve(self, hypotheses, limits):
        live = ops.logical_and(~hypotheses.finished, hypotheses.log_probs > NONE / 2)
        return ops.any(live, axis=1)

    def rank(self, hypotheses):
        count = self.num_results
        order = ops.top_k(hypotheses.scores, k=count)[1]  # (batch, n)
        groups = ops.take_along_axis(standing(hypotheses), order, axis=1)
        groups = groups * count + ops.arange(count)
        return ops.take_along_axis(order, ops.top_k(-groups, k=count)[1], axis=1)

    def get_config(self):
        names = ("temperature", "top_k", "top_p", "seed", "num_results")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}
