import keras
from keras import ops

from zoo.layers.named_arguments import NamedArguments
from zoo.layers.scan import scan


class Decoder(NamedArguments, keras.layers.Layer):
    """What can be decoded: the one contract between a model and a search.

    A subclass writes `begin` and `step`; with these two alone it can be trained, searched and
    sampled. It overrides `call` where teacher forcing can be parallel over time.

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

    Sublayers that `step` uses may be created in the constructor and left unbuilt: the first `call`
    builds them, and so does a search.

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
    ):
        state, source = self.checked_begin(
            memory,
            memory_mask,
            summary,
            batch_size=ops.shape(tokens)[0],
            max_length=tokens.shape[1],
        )
        has_weights = False

        def step(tokens, state):
            nonlocal has_weights
            logits, state, weights = self.checked_step(tokens, state, source)
            has_weights = return_attention_scores and weights is not None
            outputs = [logits, weights] if has_weights else [logits]
            return [output[:, 0] for output in outputs], state

        tokens = ops.expand_dims(tokens, -1)  # each step sees (batch, beam) with beam 1
        outputs, _ = scan(step, tokens, state, self.compute_dtype)
        logits, weights = outputs if has_weights else (outputs[0], None)
        return (logits, weights) if return_attention_scores else logits

    def checked_begin(self, *encoded, **options):
        """`begin`, its state checked against the contract."""
        name = f"{type(self).__name__}.begin"
        results = self.begin(*encoded, **options)
        if not isinstance(results, tuple) or len(results) != 2:
            raise ValueError(f"{name} must return the tuple (state, source). Received: {results!r}")
        for leaf in keras.tree.flatten(results[0]):
            shape = tuple(getattr(leaf, "shape", ()))
            if len(shape) == 1 or (len(shape) > 1 and shape[1] not in (1, None)):
                raise ValueError(
                    f"{name} must return a state whose leaves are (batch, 1, ...) or scalars. "
                    f"Received: a leaf of shape {shape}"
                )
        return results

    def checked_step(self, tokens, state, source):
        """`step`, its results checked against the contract."""
        name = f"{type(self).__name__}.step"
        results = self.step(tokens, state, source)
        if not isinstance(results, tuple) or len(results) != 3:
            raise ValueError(
                f"{name} must return the tuple (logits, state, weights). Received: {results!r}"
            )
        logits, new_state, weights = results
        if len(logits.shape) != 3 or logits.shape[1] != tokens.shape[1]:
            raise ValueError(
                f"{name} must return logits (batch, beam, vocabulary) for tokens (batch, beam)="
                f"{tuple(tokens.shape)}. Received: logits.shape={tuple(logits.shape)}"
            )
        try:
            keras.tree.assert_same_structure(state, new_state)
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"{name} must return a state of the structure that it was given, {state}. "
                f"Received: state={new_state}"
            ) from error
        if weights is not None and (len(weights.shape) != 3 or weights.shape[1] != tokens.shape[1]):
            raise ValueError(
                f"{name} must return weights (batch, beam, source_length) or None. "
                f"Received: weights.shape={tuple(weights.shape)}"
            )
        return results
