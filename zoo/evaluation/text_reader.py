import math

import numpy as np
import tensorflow as tf

from zoo.layers import checks
from zoo.training.token_crossentropy import token_losses

PART = 8192  # tokens of a long text that are read one after the other
CONTEXT = 512  # tokens of the part before, which are read again first
CHUNK = 64  # tokens of a part that are read at once
LOGITS = 4096  # positions whose logits are there at once


class TextReader:
    """How improbable a text is to a language model that reads it from its beginning to its end.

        nats = - sum over t of log P(token(t) | token(0) .. token(t-1))

    A recurrent model reads on with its state, from chunk to chunk. A text of more than 8,192 tokens
    is read in parts side by side, each of which reads the 512 tokens before it first, and so misses
    only what came earlier still. A Transformer has learnt windows of so many tokens and sees no
    more: the window slides by half of itself, so that each token has half a window before it.

    Arguments:
        decoder: a `Decoder` without memory.
        window: int, the tokens of a Transformer's window; None reads on.
        start_id: int, the token that stands before the text.

    Example:

    ```python
    import keras
    import numpy as np
    from zoo import RecurrentLanguageModel
    from zoo.evaluation.text_reader import TextReader

    reader = TextReader(RecurrentLanguageModel(9, 8, keras.layers.GRUCell(8)))
    text = np.random.randint(3, 9, size=200)
    print(np.exp(reader.nats(text) / 200))  # its perplexity: 6 words that are as good as random
    ```
    """

    def __init__(self, decoder, window=None, start_id=2):
        self.decoder = decoder
        self.window = None if window is None else checks.integer("window", window, 2)
        self.start_id = start_id
        self._read = tf.function(self._read_halves, autograph=False, reduce_retracing=True)

    def nats(self, tokens, stops=lambda: False):
        """Minus the log-probability of a text, a list of ids, or None where `stops()` said so."""
        total = 0.0
        for inputs, labels in self._batches(np.asarray(tokens, "int32")):
            states = [self._first_state(len(rows)) for rows in inputs]
            for i in range(0, inputs[0].shape[1], self._chunk):
                if stops():
                    return None
                chunks = [
                    [tf.constant(half[:, i : i + self._chunk]) for half in halves]
                    for halves in (inputs, labels)
                ]
                nats, states = self._read(*chunks, states)
                total += float(nats)
        return total

    @property
    def _chunk(self):
        return self.window or CHUNK

    def _batches(self, tokens):
        """Yields inputs and labels, each in halves (rows, time), of few shapes.

        Labels are 0 where nothing is asked.
        """
        count = len(tokens)
        if self.window:
            part = self.window - self.window // 2
            context = self.window - part
        else:
            context, part = CONTEXT, math.ceil(count / max(1, math.ceil(count / PART)))
        begins = range(0, count, max(part, 1))
        width = part + context if len(begins) > 1 else count
        width = -(-width // self._chunk) * self._chunk
        rows = max(1, min(LOGITS // self._chunk, len(begins)))
        stream = np.concatenate([[self.start_id], tokens])
        for i in range(0, len(begins), rows):
            inputs, labels = np.zeros((2, rows, width), "int32")
            for row, begin in enumerate(begins[i : i + rows]):
                first, end = max(0, begin - context), min(begin + part, count)
                inputs[row, : end - first] = stream[first:end]
                labels[row, begin - first : end - first] = tokens[begin:end]
            halves = [slice(rows // 2), slice(rows // 2, None)] if rows > 1 else [slice(None)]
            yield [inputs[half] for half in halves], [labels[half] for half in halves]

    def _first_state(self, rows):
        state, _ = self.decoder.begin(batch_size=rows, max_length=self.window)
        return tf.nest.map_structure(tf.convert_to_tensor, state)

    def _read_halves(self, inputs, labels, states):
        """The nats of a chunk, and the states after it. Cores read the halves side by side."""
        nats, after = [], []
        for half, wanted, state in zip(inputs, labels, states, strict=True):
            logits, state = self.decoder(half, state=state, return_state=True)
            losses, _ = token_losses(wanted, logits)
            nats.append(tf.reduce_sum(tf.cast(losses, tf.float64)))
            after.append(state)
        return tf.add_n(nats), after
