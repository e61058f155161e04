import keras
from keras import ops

from zoo.layers import checks
from zoo.layers.decoder import Decoder, rows_of
from zoo.layers.dense import Dense, tied_logits
from zoo.layers.reshape import reshape
from zoo.layers.transformer_stack import TransformerStack


@keras.saving.register_keras_serializable("zoo")
class TransformerDecoder(TransformerStack, Decoder):
    """Writes a sequence by attention to what it has written and to a memory (Vaswani et al. 2017).

    Training sees all positions at once. A search goes step by step: keys and values of what was
    written are the state, those of the memory are the source, projected once.

    Arguments:
        vocabulary_size: int.
        dim: int, of embeddings and layers.
        num_layers: int.
        num_heads: int, a divisor of `dim`.
        feedforward_dim: int, by default four times `dim`.
        positions: "sinusoidal", or "learned" up to `max_length`.
        max_length: int, the longest sequence of "learned" positions, and the room in the state of
            `begin` and of a chunked `call`. A search makes room for its own `max_length`.
        dropout: float, applied to embeddings and to what each part of a layer adds.
        cross_attention: bool; without it there is no memory: a language model.
        tie_embeddings: bool, whether the output layer uses the embeddings (Press & Wolf 2017).
        alignment_layer: int, the layer whose attention to the memory, averaged over its heads, is
            what the decoder gives as its weights; -1 is the last.
        inner_dropout: float, applied to attention weights and inside the feed-forward parts; by
            default as `dropout`.

    Call arguments and results are those of `Decoder`. The state of `begin` and of a chunked `call`
    has room for `max_length` tokens in all; what is written behind them is NaN.

    Example:

    ```python
    import numpy as np
    from zoo import BeamSearchDecoder, TransformerDecoder, TransformerEncoder

    encoder = TransformerEncoder(100, dim=16, num_layers=2, num_heads=4)
    decoder = TransformerDecoder(50, dim=16, num_layers=2, num_heads=4)
    source, target = np.array([[4, 5, 6], [7, 8, 0]]), np.array([[1, 9, 10, 11], [1, 12, 13, 2]])
    logits, weights = decoder(target, *encoder(source), return_attention_scores=True)
    assert logits.shape == (2, 4, 50) and weights.shape == (2, 4, 3)
    result = BeamSearchDecoder(decoder, beam_width=3, max_length=8)(*encoder(source))
    assert result.alignments.shape == (2, 3, 8, 3)
    ```
    """

    def __init__(
        self,
        vocabulary_size,
        dim,
        num_layers=4,
        num_heads=4,
        feedforward_dim=None,
        positions="sinusoidal",
        max_length=512,
        dropout=0.0,
        cross_attention=True,
        tie_embeddings=False,
        alignment_layer=-1,
        inner_dropout=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.add_stack(
            vocabulary_size,
            dim,
            num_layers,
            num_heads,
            feedforward_dim,
            positions,
            max_length,
            dropout,
            inner_dropout,
            cross_attention,
        )
        self.cross_attention = checks.boolean("cross_attention", cross_attention)
        self.tie_embeddings = checks.boolean("tie_embeddings", tie_embeddings)
        if alignment_layer not in range(-num_layers, num_layers):
            raise ValueError(
                f"`alignment_layer` must be one of the {num_layers} layers. "
                f"Received: alignment_layer={alignment_layer}"
            )
        self.alignment_layer = int(alignment_layer)
        if not tie_embeddings:
            self.output_dense = Dense(
                self.vocabulary_size, dtype=self.dtype_policy, name="output_dense"
            )

    def build(self, tokens_shape, memory_shape=None, memory_mask_shape=None, summary_shape=None):
        self._require(memory_shape)
        self.build_stack(tokens_shape, memory_shape[-1] if self.cross_attention else None)
        if self.tie_embeddings:
            self.output_bias = self.add_weight(
                shape=(self.vocabulary_size,), initializer="zeros", name="output_bias"
            )
        else:
            self.output_dense.build((None, None, self.dim))
        self.built = True

    def begin(
        self, memory=None, memory_mask=None, summary=None, *, batch_size=None, max_length=None
    ):
        self._require(memory)
        if not self.built:
            self.build((None, None), None if memory is None else tuple(memory.shape))
        if batch_size is None:
            batch_size = self.batch_size_of(memory, summary)
        length = max_length or self.max_length
        self.embed.check_length("max_length", length)
        shape = (batch_size, 1, self.num_heads, length, self.dim // self.num_heads)
        empty = ops.zeros(shape, dtype=self.compute_dtype)
        state = {
            "position": ops.convert_to_tensor(0, dtype="int32"),
            "written": [{"keys": empty, "values": empty} for _ in self.blocks],
        }
        return state, self._source(memory, memory_mask)

    def step(self, tokens, state, source):
        x, state, weights = self._go_on(tokens[:, :, None], state, source)
        return self._logits(x), state, weights

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
        self.check_tokens(tokens, memory, summary)
        if state is None and not return_state:
            x, weights = self._all_at_once(tokens, self._source(memory, memory_mask), training)
        else:
            first, source = self.begin(
                memory, memory_mask, summary, batch_size=ops.shape(tokens)[0]
            )
            state = self.checked_state(state, first)
            x, state, weights = self._go_on(tokens[:, None, :], state, source, training)
        return self.results(self._logits(x), weights, state, return_attention_scores, return_state)

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
        if type(self).call is not TransformerDecoder.call:  # a subclass has its own way
            encoded = (memory, memory_mask, summary)
            return super().logits_at(rows, tokens, *encoded, training, return_attention_scores)
        self.check_tokens(tokens, memory, summary)
        x, weights = self._all_at_once(tokens, self._source(memory, memory_mask), training)
        logits = self._logits(rows_of(x, rows))
        return self.results(logits, weights, None, return_attention_scores)

    def _all_at_once(self, tokens, sources, training):
        self.embed.check_length("tokens", tokens.shape[1])
        where = ops.arange(ops.shape(tokens)[1])
        causal = (where[:, None] >= where)[None]  # (1, time, time)
        x = self.embed(tokens, training=training)
        all_weights = []
        for block, source in zip(self.blocks, sources, strict=True):
            x, weights = block(x, causal, source, training=training)
            all_weights.append(weights)
        return x, self._alignment(all_weights)

    def _go_on(self, tokens, state, sources, training=None):
        """tokens (batch, beam, time) that follow what is written; of beam and time one is 1.

        Returns x (batch, beam * time, dim), the state, the weights (batch, beam * time, length).
        """
        batch, beam, time = ops.shape(tokens)
        position, length = state["position"], state["written"][0]["keys"].shape[3]
        where = position + ops.arange(time)
        seen = (where[:, None] >= ops.arange(length))[None]  # (1, time, length)
        # Each hypothesis attends to itself alone: it is a row of its own there.
        x = self.embed(ops.reshape(tokens, (-1, time)), start=position, training=training)
        x = reshape(x, (batch, beam * time, self.dim))
        written, all_weights = [], []
        for block, cache, source in zip(self.blocks, state["written"], sources, strict=True):

            def attend_self(y, block=block, cache=cache):
                y = ops.reshape(y, (-1, time, self.dim))
                keys, values = block.self_attention.project(y)
                cache = {
                    "keys": written_to(cache["keys"], keys, position),
                    "values": written_to(cache["values"], values, position),
                }
                written.append(cache)
                shape = (-1, self.num_heads, length, self.dim // self.num_heads)
                keys, values = (ops.reshape(cache[x], shape) for x in ("keys", "values"))
                y, _ = block.self_attention.attend(y, keys, values, seen, training=training)
                return reshape(y, (batch, beam * time, self.dim))

            x, weights = block.run(x, attend_self, source, training=training)
            all_weights.append(weights)
        # What the cache has no room for would see too little of the past.
        x = ops.where(where[:, None] < length, x, float("nan"))
        state = {"position": position + time, "written": written}
        return x, state, self._alignment(all_weights)

    def _source(self, memory, memory_mask):
        """For each layer (keys, values, mask) of the memory, or None."""
        if memory is not None and not self.cross_attention:
            raise ValueError(
                "`memory` is nothing that cross_attention=False looks at; a prompt goes into a "
                f"search as `prefix`. Received: memory of type {type(memory).__name__}"
            )
        if not self.cross_attention:
            return [None for _ in self.blocks]
        memory = ops.cast(memory, self.compute_dtype)
        if memory_mask is None:
            memory_mask = ops.ones(ops.shape(memory)[:2], dtype="bool")
        mask = ops.cast(memory_mask, "bool")[:, None, :]  # (batch, 1, source_length)
        return [(*block.cross_attention.project(memory), mask) for block in self.blocks]

    def _alignment(self, all_weights):
        weights = all_weights[self.alignment_layer]  # (batch, heads, time or beam, source_length)
        return None if weights is None else ops.mean(weights, axis=1)

    def _logits(self, x):
        x = self.norm(x)
        if not self.tie_embeddings:
            return self.output_dense(x)
        return tied_logits(x, self.embed.embedding.embeddings, self.output_bias)

    def _require(self, memory):
        if self.cross_attention and memory is None:
            raise ValueError(
                "`memory` is what the decoder looks at: pass the encoder's results, "
                "decoder(tokens, *encoder(source)), or say cross_attention=False for a language "
                "model. Received: memory=None"
            )

    def get_config(self):
        names = ("cross_attention", "tie_embeddings", "alignment_layer")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


def written_to(cache, new, position):
    """cache (batch, beam, heads, length, dim) with new (batch * beam, heads, time, dim) put in."""
    shape, (length, dim) = ops.shape(cache), cache.shape[3:]
    if new.shape[2] == 1:  # a step writes its rows, where `ops.where` would copy all others
        new = ops.reshape(new, (-1, dim))
        rows = ops.expand_dims(ops.arange(ops.shape(new)[0]) * length, 1)
        rows = rows + ops.minimum(position, length - 1)  # beyond its end the last is lost
        return reshape(ops.scatter_update(ops.reshape(cache, (-1, dim)), rows, new), shape)
    time = ops.shape(new)[2]
    places = ops.arange(length) - position  # of the cache within what is new
    is_new = ops.logical_and(places >= 0, places < time)[:, None]  # (length, 1)
    new = ops.take(new, ops.clip(places, 0, time - 1), axis=2)
    return ops.where(is_new, reshape(new, shape), cache)
