import keras

from zoo.layers.beam_search_decoder import BeamSearchDecoder


@keras.saving.register_keras_serializable("zoo")
class GreedyDecoder(BeamSearchDecoder):
    """Writes the most probable token at each step: beam search with a beam of 1.

    Arguments, call arguments and result are those of `BeamSearchDecoder`, without `beam_width` and
    `num_results`: there is one result per source.

    Example:

    ```python
    import keras
    import numpy as np
    from zoo import GreedyDecoder, RecurrentDecoder, RecurrentEncoder

    encoder = RecurrentEncoder(100, 16, units=8)
    decoder = RecurrentDecoder(50, 16, keras.layers.GRUCell(8), initial_state="summary")
    result = GreedyDecoder(decoder, max_length=10)(*encoder(np.array([[4, 5, 6], [7, 8, 0]])))
    assert result.tokens.shape == (2, 1, 10) and result.alignments.shape == (2, 1, 10, 0)
    ```
    """

    def __init__(self, decoder, max_length=64, start_id=1, end_id=2, **kwargs):
        if "beam_width" in kwargs or "num_results" in kwargs:
            raise ValueError(
                "`beam_width` and `num_results` are 1 in a GreedyDecoder; BeamSearchDecoder has "
                f"others. Received: {kwargs}"
            )
        super().__init__(
            decoder, beam_width=1, max_length=max_length, start_id=start_id, end_id=end_id, **kwargs
        )

    def get_config(self):
        config = super().get_config()
        return {k: v for k, v in config.items() if k not in ("beam_width", "num_results")}
