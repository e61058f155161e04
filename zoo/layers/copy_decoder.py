import math

import keras
from keras import ops

from zoo.layers import checks
from zoo.layers.decoder import Decoder, rows_of

NEVER = 1e-20  # the probability of what can be neither written nor copied


@keras.saving.register_keras_serializable("zoo")
class CopyDecoder(Decoder):
    """A decoder that writes words of its own or copies words of the source: a pointer-generator.

        P(w) = p_gen P_decoder(w) + (1 - p_gen) sum over i with source(i) = w of weights(i)

    That is what See et al. 2017 write with. The attention of the decoder is what points. p_gen is a
    logit of the decoder, too: padding is never written, so the probability that the decoder gives
    to it is 1 - p_gen, and P_decoder is that of all other words. Whatever a decoder knows as it
    writes decides on it, of any kind that gives weights. Half is copied before anything is learnt,
    since `copy_bias`, which is added to that logit, is log(vocabulary_size) at first.

    Arguments:
        decoder: a `Decoder` that gives weights and knows its `vocabulary_size`, which is that of
            the source too.
        pad_id: int, the id whose logit is the switch.

    Call arguments are those of `Decoder`, where the memory is a dict of "memory", what the decoder
    looks at, and "ids" (batch, source_length): what a `CopyEncoder` returns. Logits are logarithms
    of P, in float32.

    Weights: those of `decoder`, and `copy_bias` ().

    Example:

    ```python
    import keras
    import numpy as np
    from zoo import AttentionCell, BahdanauAttention, CopyDecoder, CopyEncoder, RecurrentDecoder
    from zoo import RecurrentEncoder, Seq2Seq

    encoder = RecurrentEncoder(100, 16, units=8)
    cell = AttentionCell(keras.layers.GRUCell(8), BahdanauAttention(8), query="previous_state")
    model = Seq2Seq(CopyEncoder(encoder), CopyDecoder(RecurrentDecoder(100, 16, cell)))
    inputs = {"source": np.array([[4, 5, 99]]), "target": np.array([[1, 99]])}
    logits = keras.ops.convert_to_numpy(model(inputs))
    assert logits[0, 0, 99] > logits[0, 0, 98] + 2  # it can be copied
    ```
    """

    def __init__(self, decoder, pad_id=0, **kwargs):
        super().__init__(**kwargs)
        if not isinstance(decoder, Decoder) or getattr(decoder, "vocabulary_size", None) is None:
            raise ValueError(
                "`decoder` must be a zoo.Decoder that knows its vocabulary_size. "
                f"Received: decoder={decoder!r}"
            )
        if getattr(decoder, "sampling_probability", 0) != 0:
            raise ValueError(
                "`decoder` must not sample in training: it would draw without what is copied. "
                f"Received: sampling_probability={decoder.sampling_probability}"
            )
        self.decoder = decoder
        self.vocabulary_size = decoder.vocabulary_size
        self.pad_id = checks.integer("pad_id", pad_id, 0)
        self.copy_bias = self.add_weight(
            shape=(),
            initializer=keras.initializers.Constant(math.log(self.vocabulary_size)),
            autocast=False,
            name="copy_bias",
        )

    def build(self, *shapes, **named_shapes):
        self.built = True  # the decoder builds itself when `call` calls it

    def begin(
        self, memory=None, memory_mask=None, summary=None, *, batch_size=None, max_length=None
    ):
        memory, ids = self._parts(memory)
        memory_mask = _one_mask(memory_mask)
        state, source = self.decoder.begin(
            memory, memory_mask, summary, batch_size=batch_size, max_length=max_length
        )
        return state, {"decoder": source, "ids": ids}

    def step(self, tokens, state, source):
        logits, state, weights = self.decoder.checked_step(tokens, state, source["decoder"])
        return self._mixed(logits, weights, source["ids"]), state, weights

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
        memory, ids = self._parts(memory)
        memory_mask = _one_mask(memory_mask)
        options = (
            {"state": state, "return_state": True} if state is not None or return_state else {}
        )
        logits, weights, *states = self.decoder(
            tokens,
            memory,
            memory_mask,
            summary,
            return_attention_scores=True,
            training=training,
            **options,
        )
        logits = self._mixed(logits, weights, ids)
        state = states[0] if states else None
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
        memory, ids = self._parts(memory)
        memory_mask = _one_mask(memory_mask)
        logits, weights = self.decoder.logits_at(
            rows, tokens, memory, memory_mask, summary, training, return_attention_scores=True
        )
        self._require(weights)
        ids = ops.take(ids, rows // ops.shape(tokens)[1], axis=0)  # (count, source_length)
        # Each row of its own, as if it were a batch of steps.
        logits = self._mixed(logits[:, None], rows_of(weights, rows)[:, None], ids)[:, 0]
        return self.results(logits, weights, None, return_attention_scores)

    def source_mask(self, memory_mask):
        return self.decoder.source_mask(_one_mask(memory_mask))

    def share_embedding_of(self, encoder):
        inner = encoder.encoder if isinstance(encoder, CopyEncoder) else encoder
        self.decoder.share_embedding_of(inner)

    def _mixed(self, logits, weights, ids):
        """The logarithm of P, (batch, time, vocabulary).

        logits (batch, time, vocabulary), weights (batch, time, source_length), ids (batch,
        source_length); time may be the beam.
        """
        self._require(weights)
        batch, time, size = ops.shape(logits)
        is_switch = ops.equal(ops.arange(self.vocabulary_size), self.pad_id)
        bias = ops.convert_to_tensor(self.copy_bias)
        logits = ops.cast(logits, "float32") + ops.where(is_switch, bias, 0.0)
        probabilities = ops.softmax(logits, axis=-1)
        switch = probabilities[:, :, self.pad_id : self.pad_id + 1]  # (batch, time, 1)
        # Weights of the same id are added up: each row has a place for each id.
        rows = ops.reshape(ops.arange(batch * time) * size, (batch, time, 1))
        places = ops.reshape(rows + ids[:, None, :], (-1,))
        weights = ops.reshape(ops.cast(weights, "float32"), (-1,))
        copied = ops.segment_sum(weights, places, num_segments=batch * time * size)
        copied = ops.reshape(copied, (batch, time, size))
        mixed = ops.where(is_switch, 0.0, probabilities + switch * copied)
        return ops.log(mixed + NEVER)

    def _parts(self, memory):
        if not isinstance(memory, dict) or set(memory) != {"memory", "ids"}:
            received = sorted(memory) if isinstance(memory, dict) else type(memory).__name__
            raise ValueError(
                "`memory` must be a dict of 'memory' and 'ids', the ids of the source, which a "
                f"CopyEncoder returns. Received: {received}"
            )
        return memory["memory"], ops.cast(memory["ids"], "int32")

    def _require(self, weights):
        if weights is None:
            raise ValueError(
                "What is copied is what attention looks at, and "
                f"{type(self.decoder).__name__} gives no weights"
            )

    def get_config(self):
        decoder = keras.saving.serialize_keras_object(self.decoder)
        return {**super().get_config(), "decoder": decoder, "pad_id": self.pad_id}

    @classmethod
    def from_config(cls, config):
        decoder = keras.saving.deserialize_keras_object(config["decoder"])
        return cls(**{**config, "decoder": decoder})


def _one_mask(memory_mask):
    """The mask of the memory, also where Keras has made it of the masks that a nest carries."""
    return memory_mask["memory"] if isinstance(memory_mask, dict) else memory_mask


@keras.saving.register_keras_serializable("zoo")
class CopyEncoder(keras.layers.Layer):
    """An encoder whose memory has the ids of the source beside it, for a `CopyDecoder`.

    Arguments:
        encoder: a layer that reads ids (batch, source_length) and returns `memory, memory_mask,
            summary`.

    Returns a dict of "memory" and "ids", the mask, the summary.

    Example:

    ```python
    import numpy as np
    from zoo import CopyEncoder, TransformerEncoder

    encoder = CopyEncoder(TransformerEncoder(100, dim=16, num_layers=1))
    memory, mask, summary = encoder(np.array([[4, 5, 6]]))
    assert memory["ids"].shape == (1, 3)
    ```
    """

    def __init__(self, encoder, **kwargs):
        super().__init__(**kwargs)
        self.encoder = encoder

    def build(self, *shapes, **named_shapes):
        self.built = True  # the encoder builds itself when `call` calls it

    def call(self, source, training=None):
        encoded = checks.encoded(self.encoder(source, training=training), self.encoder)
        memory, mask, summary = encoded
        return {"memory": memory, "ids": ops.cast(source, "int32")}, mask, summary

    def compute_mask(self, source, previous_mask):
        return None

    def get_config(self):
        encoder = keras.saving.serialize_keras_object(self.encoder)
        return {**super().get_config(), "encoder": encoder}

    @classmethod
    def from_config(cls, config):
        encoder = keras.saving.deserialize_keras_object(config["encoder"])
        return cls(**{**config, "encoder": encoder})
