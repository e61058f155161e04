"""What every search shares: the loop over time, what may be written, the result.

A search knows of its decoder only the contract of `zoo.Decoder`.
"""

import keras
import numpy as np
from keras import ops

from zoo.layers import checks
from zoo.layers.constraints import allowed_tokens
from zoo.layers.decoder import Decoder
from zoo.layers.hypotheses import NONE, Hypotheses, SearchResult, gather_beams
from zoo.layers.named_arguments import NamedArguments


def _static(batch_size):
    """The size of the batch axis, where it is known."""
    return (batch_size if isinstance(batch_size, int) else None,)


class Search(NamedArguments, keras.layers.Layer):
    """Base class: steps a decoder through time, while a subclass decides what is kept.

    A subclass implements `choose(step, hypotheses, logits, allowed) -> Choice`, where logits are
    (batch, beam, vocabulary) in float32 and allowed is a bool that broadcasts to them,
    `can_improve(hypotheses, limits) -> (batch,)`, whether another step may change the results, and
    `rank(hypotheses) -> (batch, num_results)`, the slots of the results, best first.
    """

    beam_width = 1
    uses_coverage = False

    def __init__(
        self,
        decoder,
        max_length=64,
        start_id=1,
        end_id=2,
        min_length=0,
        no_repeat_ngram=0,
        forbidden_ids=(),
        **kwargs,
    ):
        super().__init__(autocast=False, **kwargs)
        if not isinstance(decoder, Decoder):
            raise ValueError(
                "`decoder` must be a zoo.Decoder: a layer with begin(), step() and call(). "
                f"Received: decoder={decoder!r} of type {type(decoder).__name__}"
            )
        self.decoder = decoder
        self.max_length = checks.integer("max_length", max_length, 1)
        self.start_id = checks.integer("start_id", start_id, 0)
        self.end_id = checks.integer("end_id", end_id, 0)
        self.min_length = checks.integer("min_length", min_length, 0)
        self.no_repeat_ngram = checks.integer("no_repeat_ngram", no_repeat_ngram, 0)
        if not hasattr(forbidden_ids, "__iter__"):
            forbidden_ids = [forbidden_ids]
        self.forbidden_ids = tuple(checks.integer("forbidden_ids", i, 0) for i in forbidden_ids)
        if self.min_length > self.max_length:
            raise ValueError(
                f"`min_length` must not be above max_length={max_length}. "
                f"Received: min_length={min_length}"
            )
        if getattr(decoder, "vocabulary_size", None) is not None:
            self._check_ids(decoder.vocabulary_size)

    def build(
        self,
        memory_shape=None,
        memory_mask_shape=None,
        summary_shape=None,
        prefix_shape=None,
        max_length_shape=None,
        batch_size_shape=None,
    ):
        self.built = True  # `call` builds the decoder, from tensors whose dtypes it knows

    def call(
        self,
        memory=None,
        memory_mask=None,
        summary=None,
        prefix=None,
        max_length=None,
        batch_size=None,
    ):
        # 1. What this call asks for.
        if batch_size is None:
            batch_size = self._batch_size(memory, summary, prefix)
        elif not ops.is_tensor(batch_size):
            batch_size = checks.integer("batch_size", batch_size, 0)
        prefix = self._prefix(prefix, batch_size)
        limits = self._limits(max_length, batch_size)  # (batch,)
        choose = self.chooser(batch_size)

        def advance(step, hypotheses, logits, weights):
            if self.uses_coverage:  # frozen hypotheses keep their score, whatever it becomes
                hypotheses = hypotheses._replace(coverage=hypotheses.coverage + weights)
            allowed = allowed_tokens(
                step,
                hypotheses.tokens,
                logits.shape[-1],
                end_id=self.end_id,
                min_length=self.min_length,
                no_repeat_ngram=self.no_repeat_ngram,
                forbidden_ids=self.forbidden_ids,
                prefix=prefix,
            )
            choice = choose(step, hypotheses, logits, allowed)
            return self._extend(step, hypotheses, choice, limits), choice.parents

        # 2. The first step, of one hypothesis: it shows what the decoder gives.
        start = ops.full((batch_size, 1), self.start_id, dtype="int32")
        if not self.decoder.built:  # its methods, apart from its call, build nothing
            self.decoder(start, memory, memory_mask, summary)
        state, source = self.decoder.checked_begin(
            memory, memory_mask, summary, batch_size=batch_size, max_length=self.max_length
        )
        first = self._step(start, state, source)
        known = getattr(self.decoder, "vocabulary_size", None)
        if known not in (None, first[0].shape[-1]):
            raise ValueError(
                f"{type(self.decoder).__name__}.step must return logits over its vocabulary_size="
                f"{known} tokens. Received: logits.shape={tuple(first[0].shape)}"
            )
        self._check_ids(first[0].shape[-1])
        copies = ops.zeros((batch_size, self.beam_width), dtype="int32")
        logits, state, weights = gather_beams(first, copies)
        columns = ops.size(weights) + 1
        history = ops.zeros((self.max_length, columns), dtype="float32")
        hypotheses = self._no_hypotheses(batch_size, memory_mask, weights)
        hypotheses, parents = advance(0, hypotheses, logits, weights)
        state, history = gather_beams(state, parents), self._write(history, 0, weights)

        # 3. All other steps.
        def go_on(step, hypotheses, state, history):
            return ops.logical_and(step < self.max_length, ops.any(hypotheses.active))

        def next_step(step, hypotheses, state, history):
            logits, state, weights = self._step(hypotheses.last, state, source)
            hypotheses, parents = advance(step, hypotheses, logits, weights)
            history = self._write(history, step, weights)
            return step + 1, hypotheses, gather_beams(state, parents), history

        step = ops.convert_to_tensor(1, dtype="int32")
        _, hypotheses, _, history = ops.while_loop(
            go_on, next_step, (step, hypotheses, state, history)
        )
        return self._result(hypotheses, history, ops.shape(weights)[2])

    def chooser(self, batch_size):
        """The function `choose` of one call; a subclass may bind to it what the call draws."""
        return self.choose

    def compute_mask(self, memory, previous_mask):
        return None  # nothing of the mask of the memory is left in a result

    def _step(self, tokens, state, source):
        """The decoder's step; weights that it does not give are (batch, beam, 0)."""
        logits, state, weights = self.decoder.checked_step(tokens, state, source)
        if weights is None:
            if self.uses_coverage:
                raise ValueError(
                    "`coverage_penalty` needs attention weights, and "
                    f"{type(self.decoder).__name__}.step returns none. "
                    f"Received: coverage_penalty={self.coverage_penalty}"
                )
            weights = ops.zeros((*ops.shape(tokens), 0), dtype="float32")
        return ops.cast(logits, "float32"), state, ops.cast(weights, "float32")

    def _no_hypotheses(self, batch_size, memory_mask, weights):
        """Before the first step: one empty hypothesis in the first slot, no others."""
        shape = (batch_size, self.beam_width)
        empty = ops.ones(shape, dtype="int32") * ops.arange(self.beam_width) > 0
        log_probs = ops.where(empty, NONE, 0.0)
        coverage = ops.zeros((*shape, 0), dtype="float32")
        if self.uses_coverage:
            coverage = ops.zeros_like(weights)
            mask = self.decoder.source_mask(memory_mask)
            if mask is not None:
                # Positions that are masked count as covered, so that they cost nothing.
                mask = ops.cast(mask, "bool")
                coverage = coverage + ops.where(mask, 0.0, 1.0)[:, None, :]
        return Hypotheses(
            written=ops.broadcast_to(
                ops.convert_to_tensor([self.end_id, 0], dtype="int32"), (*shape, self.max_length, 2)
            ),
            last=ops.full(shape, self.start_id, dtype="int32"),
            lengths=ops.zeros(shape, dtype="int32"),
            log_probs=log_probs,
            scores=log_probs,
            finished=ops.zeros(shape, dtype="bool"),
            coverage=coverage,
            active=ops.ones((batch_size,), dtype="bool"),
        )

    def _extend(self, step, hypotheses, choice, limits):
        """The hypotheses after a step, from those before it and what was chosen."""
        written, lengths, finished, coverage = gather_beams(
            [hypotheses.written, hypotheses.lengths, hypotheses.finished, hypotheses.coverage],
            choice.parents,
        )
        now = ops.equal(ops.arange(self.max_length), step)[:, None]  # (time, 1)
        news = ops.stack([choice.tokens, choice.parents], axis=-1)  # (batch, beam, 2)
        ends = ops.logical_and(choice.grown, ops.equal(choice.tokens, self.end_id))
        new = Hypotheses(
            written=ops.where(now, news[:, :, None], written),
            last=choice.tokens,
            lengths=ops.where(choice.grown, step + 1, lengths),
            log_probs=choice.log_probs,
            scores=choice.scores,
            finished=ops.logical_or(finished, ends),
            coverage=coverage,
            active=ops.logical_and(hypotheses.active, step + 1 < limits),
        )
        return new._replace(active=ops.logical_and(new.active, self.can_improve(new, limits)))

    def _write(self, history, step, weights):
        """history (time, batch * beam * source_length + 1), with the weights of one step put in.

        The last column keeps a write from being empty, which TensorFlow refuses.
        """
        row = ops.pad(ops.reshape(weights, (-1,)), ((0, 1),))
        index = ops.reshape(ops.cast(step, "int32"), (1, 1))
        return ops.scatter_update(history, index, ops.expand_dims(row, 0))

    def _result(self, hypotheses, history, source_length):
        ranks = self.rank(hypotheses)  # (batch, n)
        best = gather_beams(hypotheses._replace(active=ops.zeros(())), ranks)
        exists = best.log_probs > NONE / 2
        lengths = ops.where(exists, best.lengths, 0)
        # The weights of step t stand where the hypothesis stood then: history[t, b, origin].
        batch, beam = ops.shape(lengths)[0], self.beam_width
        rows = ops.expand_dims(ops.arange(batch), (1, 2)) * beam + best.written[..., 1]
        rows = rows + ops.arange(self.max_length) * (batch * beam)  # (batch, n, time)
        flat = ops.reshape(history[:, :-1], (self.max_length * batch * beam, source_length))
        alignments = ops.take(flat, rows, axis=0)  # (batch, n, time, source_length)
        written = ops.arange(self.max_length) < lengths[:, :, None]
        return SearchResult(
            tokens=ops.where(written, best.tokens, self.end_id),
            lengths=lengths,
            scores=ops.where(exists, best.scores, NONE),
            log_probs=ops.where(exists, best.log_probs, NONE),
            alignments=ops.where(written[..., None], alignments, 0.0),
        )

    def _check_ids(self, vocabulary_size):
        ids = {"start_id": [self.start_id], "end_id": [self.end_id]}
        for name, values in {**ids, "forbidden_ids": self.forbidden_ids}.items():
            if any(not 0 <= value < vocabulary_size for value in values):
                raise ValueError(
                    f"`{name}` must be in the vocabulary of {vocabulary_size} tokens. "
                    f"Received: {name}={getattr(self, name)}"
                )

    def _prefix(self, prefix, batch_size):
        if prefix is None:
            return None
        prefix = self._integers("prefix", prefix)
        checks.shape("prefix", prefix, ("batch", "length"), _static(batch_size))
        if (prefix.shape[1] or 0) > self.max_length:
            raise ValueError(
                f"`prefix` must not be longer than max_length={self.max_length}, which counts it. "
                f"Received: prefix.shape={tuple(prefix.shape)}"
            )
        return ops.pad(prefix, ((0, 0), (0, 1)), constant_values=-1)  # free after the last column

    def _limits(self, max_length, batch_size):
        if max_length is None:
            max_length = self.max_length
        is_known = isinstance(max_length, (int, np.integer, np.ndarray, list, tuple))
        if is_known and not all(1 <= limit <= self.max_length for limit in np.ravel(max_length)):
            raise ValueError(
                f"`max_length` must be between 1 and the {self.max_length} of the constructor. "
                f"Received: max_length={max_length}"
            )
        limits = self._integers("max_length", max_length)
        if len(limits.shape) > 0:
            checks.shape("max_length", limits, ("batch",), _static(batch_size))
        return ops.broadcast_to(ops.clip(limits, 1, self.max_length), (batch_size,))

    def _integers(self, name, values):
        values = ops.convert_to_tensor(values)
        dtype = keras.backend.standardize_dtype(values.dtype)
        if "int" not in dtype and 0 not in values.shape:
            raise ValueError(f"`{name}` must be of integers. Received: {name}.dtype={dtype}")
        return ops.cast(values, "int32")

    def _batch_size(self, memory, summary, prefix):
        for leaf in keras.tree.flatten((memory, summary)):
            if leaf is not None:
                return ops.shape(leaf)[0]
        if prefix is not None:
            return ops.shape(ops.convert_to_tensor(prefix))[0]
        raise ValueError(
            "`batch_size` is needed where there is no memory, summary or prefix to tell it. "
            "Received: batch_size=None"
        )

    def get_config(self):
        return {
            **super().get_config(),
            "decoder": keras.saving.serialize_keras_object(self.decoder),
            "max_length": self.max_length,
            "start_id": self.start_id,
            "end_id": self.end_id,
            "min_length": self.min_length,
            "no_repeat_ngram": self.no_repeat_ngram,
            "forbidden_ids": list(self.forbidden_ids),
        }

    @classmethod
    def from_config(cls, config):
        decoder = keras.saving.deserialize_keras_object(config["decoder"])
        return cls(**{**config, "decoder": decoder})
