import keras
from keras import ops

from zoo.layers import checks
from zoo.layers.named_arguments import NamedArguments
from zoo.layers.scan import reset_dropout, scan


class Decoder(NamedArguments, keras.layers.Layer):
    """What can be decoded: the one contract between a model and a search.

    A subclass writes `begin` and `step`; with these two alone it can be trained and searched.
    It overrides `call` where teacher forcing can be parallel over time.

    `begin(memory, memory_mask, summary, *, batch_size, max_length)` returns `state, source`.
        An encoder's results come in, each a tensor, a nest or None; batch_size serves a decoder
        without any; max_length is a static int or None, for a decoder that sizes a cache.
        state is what each hypothesis carries along: a nest of tensors (batch, beam, ...) with beam
        1 here, or scalars that all share (a position). Its structure, shapes and dtypes are kept by
        every step. source is fixed per source: a nest of tensors (batch, ...). It has no beam axis
        and is never copied per hypothesis: K hypotheses are K queries on one memory.

    `step(tokens, state, source)` returns `logits, state, weights`.
        tokens (batch, beam) are the last ones written, logits (batch, beam, vocabulary) score the
        next one, weights (batch, beam, source_length) say where the decoder looked, or are None.

    `call(tokens, memory, memory_mask, summary, return_attention_scores)` is teacher forcing: tokens
        (batch, time) begin with the start id, logits are (batch, time, vocabulary) and the weights,
        if asked for, (batch, time, source_length). By default it steps over time.
        `call(tokens, ..., state=state, return_state=True)` does it in chunks: it goes on from a
        state, of `begin` or of the chunk before, and returns the next one last.

    Sublayers that `step` uses may be created in the constructor and left unbuilt: the first `call`
    builds them, and so does a search. A decoder that knows its `vocabulary_size` says so, and has
    the ids of a search checked against it before anything runs.

    Example, a bigram model:

    ```python
    import keras
    import numpy as np
    from zoo import BeamSearchDecoder, Decoder

    class Bigram(Decoder):
        def __init__(self, vocabulary_size, **kwargs):
            super().__init__(**kwargs)
            self.table = keras.layers.Embedding(vocabulary_size, vocabulary_size)

        def begin(
            self, memory=None, memory_mask=None, summary=None, *, batch_size=None, max_length=None
        ):
            return {}, {}  # it carries nothing along and looks at nothing

        def step(self, tokens, state, source):
            return self.table(tokens), state, None  # (batch, beam) -> (batch, beam, vocabulary)

    search = BeamSearchDecoder(Bigram(10), beam_width=3, max_length=5)
    result = search(batch_size=2)
    assert result.tokens.shape == (2, 3, 5)
    ```
    """

    def begin(
        self, memory=None, memory_mask=None, summary=None, *, batch_size=None, max_length=None
    ):
        raise NotImplementedError(f"{type(self).__name__} must implement `begin`")

    def step(self, tokens, state, source):
        raise NotImplementedError(f"{type(self).__name__} must implement `step`")

    def call(
        self,
        tokens,
        memory=None,
        memory_mask=None,
        summary=None,
        return_attention_scores=False,
        training=None,
        state=None,
        return_state=False,
    ):
        self.check_tokens(tokens)
        first, source = self.checked_begin(
            memory,
            memory_mask,
            summary,
            batch_size=ops.shape(tokens)[0],
            max_length=tokens.shape[1],
        )

        def step(tokens, state):
            logits, state, weights = self.checked_step(tokens, state, source)
            wants_weights = return_attention_scores and weights is not None
            outputs = [logits, weights] if wants_weights else [logits]
            return [output[:, 0] for output in outputs], state

        tokens = ops.expand_dims(tokens, -1)  # each step sees (batch, beam) with beam 1
        outputs, state = scan(step, tokens, self.checked_state(state, first))
        reset_dropout(self)
        logits, weights = outputs if len(outputs) == 2 else (outputs[0], None)
        return self.results(logits, weights, state, return_attention_scores, return_state)

    def logits_at(
        self,
        rows,
        tokens,
        memory=None,
        memory_mask=None,
        summary=None,
        training=None,
        return_attention_scores=False,
    ):
        """Teacher forcing where not all logits are wanted: those of padding would be half of them.

        rows (count,) are indices into batch * time; returns logits (count, vocabulary), and if
        asked for all weights (batch, time, source_length). A decoder whose output layer is large
        overrides it, so as to compute no others.
        """
        options = {"return_attention_scores": True} if return_attention_scores else {}
        results = self(tokens, memory, memory_mask, summary, training=training, **options)
        return logits_of_rows(results, rows, return_attention_scores)

    def results(self, logits, weights, state, return_attention_scores, return_state=False):
        """What `call` returns, of what it was asked for."""
        extras = [weights] * return_attention_scores + [state] * return_state
        return (logits, *extras) if extras else logits

    def source_mask(self, memory_mask):
        """Which positions of the source a coverage penalty counts: (batch, source_length), None.

        A decoder whose memory_mask is a nest of several masks overrides it.
        """
        masks = [mask for mask in keras.tree.flatten(memory_mask) if mask is not None]
        if len(masks) > 1:
            raise ValueError(
                "`coverage_penalty` needs to know which positions of the source count, so "
                f"`memory_mask` must hold one mask, or {type(self).__name__} override "
                f"`source_mask`. Received: {len(masks)} masks"
            )
        return masks[0] if masks else None

    def check_tokens(self, tokens, memory=None, summary=None):
        """Checks tokens (batch, time) against the encoder's results, where those are tensors."""
        sizes = [x.shape[0] for x in (memory, summary) if hasattr(x, "shape")]
        checks.shape("tokens", tokens, ("batch", "time"), sizes[:1])

    def share_embedding_of(self, encoder):
        """Embeds by the encoder's layer, where both languages have one vocabulary."""
        ours, theirs = (getattr(layer, "embed", layer) for layer in (self, encoder))
        embeddings = [getattr(layer, "embedding", None) for layer in (ours, theirs)]
        sizes = [(e.input_dim, e.output_dim) if e is not None else None for e in embeddings]
        if sizes[0] != sizes[1] or None in sizes:
            raise ValueError(
                "`share_embeddings` needs an encoder and a decoder with embeddings of one "
                f"vocabulary and one size. Received: {sizes[1]} in {encoder.name} and {sizes[0]} "
                f"in {self.name}"
            )
        if embeddings[0] is not embeddings[1]:
            if self.built:
                raise ValueError(
                    "`share_embeddings` needs a decoder that has no weights yet. "
                    f"Received: {self.name}, which is built"
                )
            # It starts as the decoder's would, which may be an output layer too.
            embeddings[1].embeddings_initializer = embeddings[0].embeddings_initializer
            ours.embedding = embeddings[1]

    def batch_size_of(self, memory, summary):
        """The batch size that an encoder's results, each a tensor or None, tell."""
        for value in (memory, summary):
            if value is not None:
                return ops.shape(value)[0]
        raise ValueError(
            "`batch_size` is needed where there is no memory or summary to tell it. "
            "Received: batch_size=None"
        )

    def checked_begin(self, *encoded, **options):
        """`begin`, its state checked against the contract."""
        name = f"{type(self).__name__}.begin"
        results = self.begin(*encoded, **options)
        if not isinstance(results, tuple) or len(results) != 2:
            raise ValueError(
                f"{name} must return the tuple (state, source). Received: {_summary(results)}"
            )
        state, source = results
        if any(leaf is None for leaf in keras.tree.flatten(state)):
            raise ValueError(
                f"{name} must return a state of tensors, {{}} if it has none. Received: state="
                f"{_summary(state)}"
            )
        state = keras.tree.map_structure(ops.convert_to_tensor, state)
        for leaf in keras.tree.flatten(state):
            rank = len(leaf.shape)
            if rank == 1 or (rank > 1 and leaf.shape[1] not in (1, None)):
                raise ValueError(
                    f"{name} must return a state whose leaves are (batch, 1, ...) or scalars. "
                    f"Received: a leaf of shape {tuple(leaf.shape)}"
                )
        return state, source

    def checked_state(self, state, first):
        """The state that `call` goes on from: the given one, if it can be, or the first."""
        if state is None:
            return first
        wrong = not _same_structure(first, state)
        pairs = zip(keras.tree.flatten(first), keras.tree.flatten(state), strict=False)
        for one, other in pairs:
            shape = getattr(other, "shape", None)
            wrong = wrong or shape is None or len(shape) != len(one.shape)
            if not wrong and len(shape) > 0:  # sizes of a cache may differ, but not the batch
                wrong = None not in (shape[0], one.shape[0]) and shape[0] != one.shape[0]
        if wrong:
            raise ValueError(
                "`state` must be what `begin` (the first of the two that it returns) or `call` "
                f"with return_state=True gave for this batch, such as {_summary(first)}. "
                f"Received: {_summary(state)}"
            )
        return state

    def build_from_config(self, config):
        """Builds a decoder that has a `build`; the others are built by their first call."""
        if type(self).build is not keras.layers.Layer.build:
            super().build_from_config(config)

    def checked_step(self, tokens, state, source):
        """`step`, its results checked against the contract."""
        name = f"{type(self).__name__}.step"
        results = self.step(tokens, state, source)
        if not isinstance(results, tuple) or len(results) != 3:
            raise ValueError(
                f"{name} must return the tuple (logits, state, weights). "
                f"Received: {_summary(results)}"
            )
        logits, new_state, weights = results
        beam = tokens.shape[1]
        checks.shape("logits", logits, ("batch", "beam", "vocabulary"), (None, beam))
        if weights is not None:
            checks.shape("weights", weights, ("batch", "beam", "source_length"), (None, beam))
        if not _same_form(state, new_state):
            raise ValueError(
                f"{name} must return a state of the structure, shapes and dtypes that it was "
                f"given, {_summary(state)}. Received: {_summary(new_state)}"
            )
        return logits, new_state, weights


def logits_of_rows(results, rows, has_weights):
    """What `logits_at` gives, from what a `call` gave."""
    if not has_weights:
        return rows_of(results, rows)
    logits, weights = results
    return rows_of(logits, rows), weights


def rows_of(outputs, rows):
    """Some rows (count, dim) of outputs (batch, time, dim)."""
    return ops.take(ops.reshape(outputs, (-1, ops.shape(outputs)[-1])), rows, axis=0)


def _same_structure(one, other):
    try:
        keras.tree.assert_same_structure(one, other)
    except (ValueError, TypeError):
        return False
    return True


def _same_form(old, new):
    """Whether two states agree in structure, dtypes and what the graph knows of their shapes."""
    if not _same_structure(old, new):
        return False
    for one, other in zip(keras.tree.flatten(old), keras.tree.flatten(new), strict=True):
        if not hasattr(other, "shape") or len(one.shape) != len(other.shape):
            return False
        sizes = zip(one.shape[1:], other.shape[1:], strict=True)
        if any(None not in pair and pair[0] != pair[1] for pair in sizes):
            return False
        if keras.backend.standardize_dtype(one.dtype) != keras.backend.standardize_dtype(
            other.dtype
        ):
            return False
    return True


def _summary(nest):
    """What a nest is made of, for messages: its structure, shapes and dtypes."""

    def leaf(x):
        if not hasattr(x, "shape"):
            return type(x).__name__
        return f"{keras.backend.standardize_dtype(x.dtype)}{list(x.shape)}"

    return str(keras.tree.map_structure(leaf, nest)).replace("'", "")
