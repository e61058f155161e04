import keras
from keras import ops

from zoo.layers import checks
from zoo.layers.hypotheses import NONE, Choice, gather_beams, standing
from zoo.layers.search import Search
from zoo.layers.vocabulary import best_words, in_chunks, normalizers

FEW = 2  # chunks with words to pass over, for which it is quicker to look at as many more


@keras.saving.register_keras_serializable("zoo")
class BeamSearchDecoder(Search):
    """Finds the most probable sequences that a decoder can write, several at a time.

        score = log_prob / ((5 + length) / 6) ** length_penalty
                + coverage_penalty * sum over the source of log(min(sum of weights, 1))

    (Wu et al. 2016). Each step ranks all continuations of the live hypotheses together with the
    finished ones, by score, and keeps `beam_width` of them. A finished hypothesis is frozen: it
    collects nothing more and holds its slot while it ranks. The search of a source stops when no
    live hypothesis can still enter its results. The source is never copied per hypothesis.

    Arguments:
        decoder: a `Decoder`.
        beam_width: int, the number of hypotheses.
        max_length: int, the most tokens of a result, the end token counted.
        start_id, end_id: ints.
        length_penalty: float >= 0; 0 ranks by log-probability and so prefers short results.
        coverage_penalty: float >= 0, against results that leave parts of the source unattended.
        min_length: int, the fewest tokens of a result, the end token counted.
        no_repeat_ngram: int n > 0: no result holds an n-gram twice.
        forbidden_ids: ids that are never written, such as those of padding and start, which a
            model that was trained on a loss without them scores as it likes.
        num_results: int, the number of results per source, `beam_width` by default.

    Call arguments:
        memory, memory_mask, summary: what the encoder returned: `search(*encoder(source))`.
        prefix: (batch, length) ids that the results begin with, padded on the right with -1. It
            overrules the other rules; an end id in it ends the result, an id outside the
            vocabulary leaves none.
        max_length: an int or (batch,) ints, a limit per source between 1 and the `max_length`
            above (a tensor's are clipped to that); it overrules `min_length`.
        batch_size: int, for a decoder without memory.

    Returns a named tuple, the best result first:
        tokens: (batch, n, time) ids without the start id, `end_id` after the end; time is the
            `max_length` of the constructor.
        lengths: (batch, n), the end token and the prefix counted.
        scores: (batch, n).
        log_probs: (batch, n), the plain sum over the tokens.
        alignments: (batch, n, time, source_length), where each token looked; the last axis is 0
            for a decoder without attention.
    A result that did not end within the limit ranks behind all that did. A result that does not
    exist (fewer sequences are possible than asked for) has score -1e9 and length 0.

    Runs within a `tf.function`, also with `jit_compile=True`; eagerly it is slow, as any loop is.

    Example:

    ```python
    import keras
    import numpy as np
    from zoo import (
        AttentionCell, BeamSearchDecoder, LuongAttention, RecurrentDecoder, RecurrentEncoder,
    )

    encoder = RecurrentEncoder(100, 16, units=8)
    decoder = RecurrentDecoder(50, 16, AttentionCell(keras.layers.GRUCell(8), LuongAttention()))
    search = BeamSearchDecoder(decoder, beam_width=4, max_length=10, length_penalty=0.6)
    result = search(*encoder(np.array([[4, 5, 6], [7, 8, 0]])))
    assert result.tokens.shape == (2, 4, 10) and result.alignments.shape == (2, 4, 10, 3)
    ```
    """

    def __init__(
        self,
        decoder,
        beam_width=5,
        max_length=64,
        start_id=1,
        end_id=2,
        length_penalty=0.0,
        coverage_penalty=0.0,
        min_length=0,
        no_repeat_ngram=0,
        forbidden_ids=(),
        num_results=None,
        **kwargs,
    ):
        super().__init__(
            decoder,
            max_length=max_length,
            start_id=start_id,
            end_id=end_id,
            min_length=min_length,
            no_repeat_ngram=no_repeat_ngram,
            forbidden_ids=forbidden_ids,
            **kwargs,
        )
        self.beam_width = checks.integer("beam_width", beam_width, 1)
        if num_results is None:
            num_results = self.beam_width
        self.num_results = checks.integer("num_results", num_results, 1)
        if self.num_results > self.beam_width:
            raise ValueError(
                f"`num_results` must not be above beam_width={beam_width}. "
                f"Received: num_results={num_results}"
            )
        self.length_penalty = checks.number("length_penalty", length_penalty)
        self.coverage_penalty = checks.number("coverage_penalty", coverage_penalty)
        self.uses_coverage = self.coverage_penalty > 0

    def choose(self, step, hypotheses, logits, allowed):
        # Three kinds of candidates: hypotheses that stay as they are, hypotheses that end now, and
        # hypotheses that go on, of which only the best `beam_width` of a source can matter.
        beam, size = logits.shape[1:]
        is_there = hypotheses.log_probs > NONE / 2
        active = hypotheses.active[:, None]  # (batch, 1)
        grows = active & is_there & ~hypotheses.finished  # (batch, beam)
        chunks, (largest, rest), passed_over = self._going_on(logits, allowed)
        base = ops.where(grows, hypotheses.log_probs - rest, NONE)  # and behind it logit - largest
        may_end = allowed[..., self.end_id]
        end_log_probs = base + ops.where(may_end, logits[:, :, self.end_id] - largest, NONE)
        factor = self._length_factor(step + 1)
        ranked, parts = base - largest, [base, largest]
        if self.uses_coverage:
            covered = ops.log(ops.clip(hypotheses.coverage, 1e-6, 1.0))
            covered = self.coverage_penalty * ops.sum(covered, axis=-1)  # (batch, beam)
            ranked, parts = ranked + covered * factor, [*parts, covered]
        ranks, words = best_words(chunks, ranked, beam, passed_over)
        of_base, of_largest, *of_covered = gather_beams(parts, words // size)
        of_words = gather_beams(ops.reshape(logits, (-1, beam * size)), words)
        log_probs = ops.where(ranks > NONE / 2, of_base + (of_words - of_largest), NONE)
        log_probs = ops.concatenate([end_log_probs, log_probs], axis=1)
        scores = log_probs / factor
        if self.uses_coverage:
            scores = scores + ops.concatenate([covered, *of_covered], axis=1)

        # NaN and the impossible rank last. A source whose search is over keeps its slots in order.
        stay_scores = ops.where(hypotheses.finished, hypotheses.scores, NONE)
        slots = ops.arange(beam)
        stay_scores = ops.where(active, stay_scores, -ops.cast(slots, "float32"))
        scores = ops.where(log_probs > NONE / 2, scores, NONE)
        keys, chosen = ops.top_k(ops.concatenate([stay_scores, scores], axis=1), k=beam)

        # What stays and what ends writes end_id; what goes on writes its own word.
        log_probs = ops.concatenate([hypotheses.log_probs, log_probs], axis=1)
        ends = ops.zeros_like(hypotheses.last) + slots * size + self.end_id  # (batch, beam)
        words = ops.concatenate([ends, ends, words], axis=1)  # slot * size + token
        log_probs, words = gather_beams([log_probs, words], chosen)
        exists = keys > NONE / 2
        return Choice(
            parents=words // size,
            tokens=words % size,
            grown=ops.logical_and(chosen >= beam, exists),
            log_probs=ops.where(exists, log_probs, NONE),
            scores=ops.where(active, keys, hypotheses.scores),
        )

    def _going_on(self, logits, allowed):
        """Chunks of the logits of what goes on, the `normalizers` (batch, beam), and the ids that
        the chunks hold though they may not be written or are the end."""
        chunks = in_chunks(logits)
        parts = normalizers(logits, chunks)
        passed_over = {self.end_id, *self.forbidden_ids}
        if len(allowed.shape) > 1 or len({i // chunks.width for i in passed_over}) > FEW:
            goes_on = ops.not_equal(ops.arange(logits.shape[-1]), self.end_id)
            chunks = in_chunks(ops.where(ops.logical_and(allowed, goes_on), logits, NONE))
            passed_over = ()
        return chunks, parts, passed_over

    def can_improve(self, hypotheses, limits):
        # A live hypothesis can at best keep its log_prob until the limit and cover everything.
        live = ops.where(hypotheses.finished, NONE, hypotheses.log_probs)
        best = ops.max(live, axis=1, initial=NONE)  # of no source, too
        bound = best / self._length_factor(limits)  # (batch,)
        done = ops.where(hypotheses.finished, hypotheses.scores, NONE)
        nth_best = ops.top_k(done, k=self.num_results)[0][:, -1]
        return ops.logical_and(best > NONE / 2, bound > nth_best)

    def rank(self, hypotheses):
        # The slots are sorted by score. Finished results first, then unfinished, then empty slots.
        order = standing(hypotheses) * self.beam_width + ops.arange(self.beam_width)
        return ops.top_k(-order, k=self.num_results)[1]

    def _length_factor(self, length):
        return ((5.0 + ops.cast(length, "float32")) / 6.0) ** self.length_penalty

    def get_config(self):
        return {
            **super().get_config(),
            "beam_width": self.beam_width,
            "length_penalty": self.length_penalty,
            "coverage_penalty": self.coverage_penalty,
            "num_results": self.num_results,
        }
