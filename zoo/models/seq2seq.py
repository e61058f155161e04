import keras

from zoo.layers import Decoder, checks
from zoo.layers.decoder import logits_of_rows


@keras.saving.register_keras_serializable("zoo")
class Seq2Seq(keras.Model):
    """Any encoder and any decoder as one model, trained with teacher forcing.

    Arguments:
        encoder: a layer that returns `memory, memory_mask, summary` of a source.
        decoder: a `Decoder`.
        share_embeddings: bool, whether source and target, of one vocabulary, have the same
            embeddings (Vaswani et al. 2017); with `tie_embeddings` of the decoder the output layer
            has them too.

    Call arguments:
        inputs: a dict of "source", what the encoder reads, and "target" (batch, time), the ids that
            begin with the start id and leave the last one out.
        return_attention_scores: bool, whether to return the weights (batch, time, source_length)
            too.

    Returns logits (batch, time, vocabulary): at each position, of the token that follows.

    With `share_embeddings` save the model itself: a search that is saved without it, in a model of
    yours, does not know where its decoder's embeddings are. Make it of the loaded one's decoder.

    Example:

    ```python
    import keras
    import numpy as np
    from zoo import AttentionCell, BahdanauAttention, RecurrentDecoder, RecurrentEncoder, Seq2Seq
    from zoo import TokenAccuracy, TokenCrossentropy

    encoder = RecurrentEncoder(20, 16, units=16, bidirectional=True)
    cell = AttentionCell(keras.layers.GRUCell(16), BahdanauAttention(16), query="previous_state")
    model = Seq2Seq(encoder, RecurrentDecoder(20, 16, cell))
    model.compile("adam", TokenCrossentropy(), metrics=[TokenAccuracy()])
    source = np.random.randint(3, 20, size=(8, 5))
    target = np.concatenate([np.full((8, 1), 1), source, np.full((8, 1), 2)], axis=1)  # a copy task
    inputs, labels = {"source": source, "target": target[:, :-1]}, target[:, 1:]
    model.fit(inputs, labels, epochs=1, verbose=0)
    ```
    """

    def __init__(self, encoder, decoder, share_embeddings=False, **kwargs):
        super().__init__(**kwargs)
        if not isinstance(encoder, keras.layers.Layer) or isinstance(encoder, Decoder):
            raise ValueError(
                "`encoder` must be a layer that returns memory, memory_mask, summary. "
                f"Received: encoder={encoder!r}"
            )
        if not isinstance(decoder, Decoder):
            raise ValueError(
                "`decoder` must be a zoo.Decoder, such as a RecurrentDecoder. "
                f"Received: decoder={decoder!r}"
            )
        if share_embeddings:
            decoder.share_embedding_of(encoder)
        self.encoder = encoder
        self.decoder = decoder
        self.share_embeddings = share_embeddings

    def __call__(self, inputs, *args, **kwargs):
        if not isinstance(inputs, dict) or not {"source", "target"} <= set(inputs):
            received = sorted(inputs) if isinstance(inputs, dict) else type(inputs).__name__
            raise ValueError(
                "`inputs` must be a dict of 'source' and 'target', the target beginning with the "
                f"start id. Received: {received}"
            )
        return super().__call__(inputs, *args, **kwargs)

    def call(self, inputs, training=None, return_attention_scores=False):
        return self.decoder(
            inputs["target"],
            *self._encoded(inputs, training),
            return_attention_scores=return_attention_scores,
            training=training,
        )

    def logits_at(self, rows, inputs, training=None, return_attention_scores=False):
        """The logits (count, vocabulary) of some rows (count,) of batch * time, and no others.

        With `return_attention_scores` also the weights of all, (batch, time, source_length).
        """
        options = {"training": training}
        if return_attention_scores:  # which a model of one's own may not know
            options["return_attention_scores"] = True
        if type(self).call is not Seq2Seq.call:  # a subclass has its own way
            return logits_of_rows(self(inputs, **options), rows, return_attention_scores)
        encoded = self._encoded(inputs, training)
        return self.decoder.logits_at(rows, inputs["target"], *encoded, **options)

    def _encoded(self, inputs, training):
        return checks.encoded(self.encoder(inputs["source"], training=training), self.encoder)

    def get_config(self):
        decoder = keras.saving.serialize_keras_object(self.decoder)
        return {
            **super().get_config(),
            "encoder": keras.saving.serialize_keras_object(self.encoder),
            "decoder": _unbuilt(decoder) if self.share_embeddings else decoder,
            "share_embeddings": self.share_embeddings,
        }

    @classmethod
    def from_config(cls, config):
        parts = {
            name: keras.saving.deserialize_keras_object(config[name])
            for name in ("encoder", "decoder")
        }
        return cls(**{**config, **parts})


def _unbuilt(config):
    """A layer's config, where nothing says that it has weights before it shares those of others."""
    if isinstance(config, dict):
        return {key: _unbuilt(value) for key, value in config.items() if key != "build_config"}
    return [_unbuilt(value) for value in config] if isinstance(config, list) else config
