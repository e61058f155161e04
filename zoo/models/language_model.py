import keras

from zoo.layers import Decoder
from zoo.layers.decoder import rows_of


@keras.saving.register_keras_serializable("zoo")
class LanguageModel(keras.Model):
    """A decoder without memory as a model, trained with teacher forcing: what `Seq2Seq` is, without
    a source.

    Arguments:
        decoder: a `Decoder` that takes no memory, such as a `RecurrentLanguageModel`, or a
            `TransformerDecoder` with cross_attention=False.

    Call arguments:
        inputs: a dict of "target" (batch, time), the ids of texts but for the last one.

    Returns logits (batch, time, vocabulary): at each position, of the token that follows.

    Example:

    ```python
    import numpy as np
    from zoo import LanguageModel, TokenCrossentropy, TransformerDecoder

    decoder = TransformerDecoder(20, dim=16, num_layers=1, cross_attention=False)
    model = LanguageModel(decoder)
    model.compile("adam", TokenCrossentropy())
    tokens = np.random.randint(3, 20, size=(8, 6))
    model.fit({"target": tokens[:, :-1]}, tokens[:, 1:], epochs=1, verbose=0)
    ```
    """

    def __init__(self, decoder, **kwargs):
        super().__init__(**kwargs)
        if not isinstance(decoder, Decoder):
            raise ValueError(
                "`decoder` must be a zoo.Decoder, such as a RecurrentLanguageModel. "
                f"Received: decoder={decoder!r}"
            )
        self.decoder = decoder

    def __call__(self, inputs, *args, **kwargs):
        if not isinstance(inputs, dict) or "target" not in inputs:
            received = sorted(inputs) if isinstance(inputs, dict) else type(inputs).__name__
            raise ValueError(f"`inputs` must be a dict of 'target'. Received: {received}")
        return super().__call__(inputs, *args, **kwargs)

    def call(self, inputs, training=None):
        return self.decoder(inputs["target"], training=training)

    def logits_at(self, rows, inputs, training=None):
        """The logits (count, vocabulary) of some rows (count,) of batch * time, and no others."""
        if type(self).call is not LanguageModel.call:  # a subclass has its own way
            return rows_of(self(inputs, training=training), rows)
        return self.decoder.logits_at(rows, inputs["target"], training=training)

    def get_config(self):
        decoder = keras.saving.serialize_keras_object(self.decoder)
        return {**super().get_config(), "decoder": decoder}

    @classmethod
    def from_config(cls, config):
        decoder = keras.saving.deserialize_keras_object(config["decoder"])
        return cls(**{**config, "decoder": decoder})
