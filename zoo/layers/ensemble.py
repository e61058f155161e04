import keras
from keras import ops

from zoo.layers import checks
from zoo.layers.decoder import Decoder


@keras.saving.register_keras_serializable("zoo")
class Ensemble(Decoder):
    """Several decoders as one, which gives the mean of their probabilities.

        P(token) = 1/n * sum of P_i(token)

    Each member has a state and a source of its own; what they share is the vocabulary that they
    write, and what is written. Its weights are the mean of those of the members that give any,
    whose sources must then be of one length.

    Arguments:
        decoders: a list of `Decoder`s of one vocabulary, of any kinds.

    Call arguments are those of `Decoder`, where memory, memory_mask and summary are lists with one
    entry for each member (None where a member has none), or None. That is what an `EnsembleEncoder`
    returns.

    Example:

    ```python
    import keras
    import numpy as np
    from zoo import (
        BeamSearchDecoder, Ensemble, EnsembleEncoder, RecurrentDecoder, RecurrentEncoder,
        TransformerDecoder, TransformerEncoder,
    )

    encoder = EnsembleEncoder([
        TransformerEncoder(100, dim=16, num_layers=1),
        RecurrentEncoder(100, 16, units=8),
    ])
    decoder = Ensemble([
        TransformerDecoder(50, dim=16, num_layers=1),
        RecurrentDecoder(50, 16, keras.layers.GRUCell(8)),
    ])
    search = BeamSearchDecoder(decoder, beam_width=3, max_length=8)
    result = search(*encoder(np.array([[4, 5, 6], [7, 8, 0]])))
    assert result.tokens.shape == (2, 3, 8)
    ```
    """

    def __init__(self, decoders, **kwargs):
        super().__init__(**kwargs)
        self.decoders = _members("decoders", decoders, Decoder)
        sizes = [getattr(decoder, "vocabulary_size", None) for decoder in self.decoders]
        known = {size for size in sizes if size is not None}
        if len(known) > 1:
            raise ValueError(
                f"`decoders` must write one vocabulary. Received: vocabulary sizes {sizes}"
            )
        self.vocabulary_size = known.pop() if known else None

    def build(self, *shapes, **named_shapes):
        self.built = True  # the members build themselves when `call` calls them

    def begin(
        self, memory=None, memory_mask=None, summary=None, *, batch_size=None, max_length=None
    ):
        states, sources = [], []
        encoded = self._of_members(memory, memory_mask, summary)
        for decoder, arguments in zip(self.decoders, encoded, strict=True):
            state, source = decoder.begin(*arguments, batch_size=batch_size, max_length=max_length)
            states.append(state)
            sources.append(source)
        return states, sources

    def step(self, tokens, state, source):
        results = [
            decoder.checked_step(tokens, *of_member)
            for decoder, *of_member in zip(self.decoders, state, source, strict=True)
        ]
        logits, states, weights = zip(*results, strict=True)
        return self._mean_logits(logits), list(states), self._mean_weights(weights)

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
        count = len(self.decoders)
        if state is not None and not (isinstance(state, (list, tuple)) and len(state) == count):
            raise ValueError(
                f"`state` must be a list of the states of the {count} decoders. "
                f"Received: state of type {type(state).__name__}"
            )
        chunks = state is not None or return_state
        logits, weights, states = [], [], []
        encoded = self._of_members(memory, memory_mask, summary)
        for i, (decoder, arguments) in enumerate(zip(self.decoders, encoded, strict=True)):
            given = {"state": state and state[i], "return_state": True} if chunks else {}
            results = decoder(
                tokens,
                *arguments,
                return_attention_scores=return_attention_scores,
                training=training,
                **given,
            )
            results = list(results) if isinstance(results, tuple) else [results]
            logits.append(results.pop(0))
            weights.append(results.pop(0) if return_attention_scores else None)
            states += results
        logits, weights = self._mean_logits(logits), self._mean_weights(weights)
        return self.results(logits, weights, states, return_attention_scores, return_state)

    def share_embedding_of(self, encoder):
        """Each member embeds by the layer of its own encoder."""
        encoders = getattr(encoder, "encoders", [])
        for decoder, its_encoder in zip(self.decoders, encoders, strict=True):
            decoder.share_embedding_of(its_encoder)

    def source_mask(self, memory_mask):
        """A position counts if it does for any member."""
        masks = [
            decoder.source_mask(mask)
            for decoder, (_, mask, _) in zip(
                self.decoders, self._of_members(None, memory_mask, None), strict=True
            )
        ]
        if any(mask is None for mask in masks):
            return None
        return ops.any(ops.stack([ops.cast(mask, "bool") for mask in masks]), axis=0)

    def _of_members(self, *encoded):
        """memory, memory_mask, summary of each member."""
        count, names = len(self.decoders), ("memory", "memory_mask", "summary")
        for name, value in zip(names, encoded, strict=True):
            is_list = isinstance(value, (list, tuple))
            if value is not None and not (is_list and len(value) == count):
                received = f"{len(value)} entries" if is_list else type(value).__name__
                raise ValueError(
                    f"`{name}` must be a list with an entry for each of the {count} decoders, as "
                    f"an EnsembleEncoder returns, or None. Received: {received}"
                )
        lists = [[None] * count if value is None else value for value in encoded]
        return list(zip(*lists, strict=True))

    def _mean_logits(self, logits):
        if len(logits) == 1:
            return logits[0]
        stacked = ops.stack([ops.cast(x, "float32") for x in logits])
        log_probs = stacked - ops.logsumexp(stacked, axis=-1, keepdims=True)
        return ops.cast(ops.logsumexp(log_probs, axis=0), logits[0].dtype)

    def _mean_weights(self, weights):
        weights = [ops.cast(x, self.compute_dtype) for x in weights if x is not None]
        lengths = {x.shape[-1] for x in weights} - {None}
        if len(lengths) > 1:
            raise ValueError(
                "The weights of an Ensemble are the mean of its members', so their sources must be "
                f"of one length. Received: sources of lengths {sorted(lengths)}"
            )
        return sum(weights) / len(weights) if weights else None

    def get_config(self):
        return {**super().get_config(), "decoders": _serialized(self.decoders)}

    @classmethod
    def from_config(cls, config):
        return cls(**{**config, "decoders": _deserialized(config["decoders"])})


@keras.saving.register_keras_serializable("zoo")
class EnsembleEncoder(keras.layers.Layer):
    """Encodes one source by several encoders, one for each member of an `Ensemble`.

    Arguments:
        encoders: a list of layers that return `memory, memory_mask, summary`.

    Returns three lists: memories, masks, summaries.

    Example, two trained models as one:

    ```python
    import numpy as np
    from zoo import Ensemble, EnsembleEncoder, Seq2Seq, TransformerDecoder, TransformerEncoder

    trained = [
        Seq2Seq(TransformerEncoder(100, 16, num_layers=1), TransformerDecoder(50, 16, num_layers=1))
        for _ in range(2)
    ]
    model = Seq2Seq(
        EnsembleEncoder([one.encoder for one in trained]),
        Ensemble([one.decoder for one in trained]),
    )
    logits = model({"source": np.array([[4, 5, 6]]), "target": np.array([[1, 7, 8, 9]])})
    assert logits.shape == (1, 4, 50)
    ```
    """

    def __init__(self, encoders, **kwargs):
        super().__init__(**kwargs)
        self.encoders = _members("encoders", encoders, keras.layers.Layer)

    def build(self, *shapes, **named_shapes):
        self.built = True  # the members build themselves when `call` calls them

    def call(self, source, training=None):
        encoded = [
            checks.encoded(encoder(source, training=training), encoder) for encoder in self.encoders
        ]
        return tuple(list(values) for values in zip(*encoded, strict=True))

    def compute_mask(self, source, previous_mask):
        return None

    def get_config(self):
        return {**super().get_config(), "encoders": _serialized(self.encoders)}

    @classmethod
    def from_config(cls, config):
        return cls(**{**config, "encoders": _deserialized(config["encoders"])})


def _members(name, layers, kind):
    is_list = isinstance(layers, (list, tuple)) and len(layers) > 0
    if not is_list or not all(isinstance(layer, kind) for layer in layers):
        raise ValueError(
            f"`{name}` must be a list of at least one {kind.__name__}. Received: {name}={layers!r}"
        )
    return list(layers)


def _serialized(layers):
    return [keras.saving.serialize_keras_object(layer) for layer in layers]


def _deserialized(configs):
    return [keras.saving.deserialize_keras_object(config) for config in configs]
