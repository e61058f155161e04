import json
import pathlib

import tensorflow as tf


class Tokenizer(tf.Module):
    """Base class: strings to ids and back, inside the graph.

    A tokenizer travels in a SavedModel with the model that it feeds. It takes whatever bytes come
    in, and what comes out is valid UTF-8.

    A subclass implements, beside `vocabulary_size` and `get_config()` (plain data for JSON):
        tokenize(strings): (batch,) to ragged ids (batch, length), without start and end.
        tokens(ids): the string of each id, for display; ids and strings of one shape.
        join(ids): ragged ids (rows, length) of real tokens to strings (rows,).

    All tokenizers share the ids 0 to 3: `pad_id`, `start_id`, `end_id`, `unknown_id`.
    """

    pad_id, start_id, end_id, unknown_id = range(4)
    special_tokens = ("", "<s>", "</s>", "\ufffd")  # as they are shown; padding shows as nothing

    def detokenize(self, ids):
        """Ids (..., length), dense or ragged, to strings (...): up to the first end id."""
        if isinstance(ids, tf.RaggedTensor):
            ids = ids.to_tensor(self.pad_id)
        ids = tf.cast(ids, tf.int32)
        rows = tf.reshape(ids, (-1, tf.shape(ids)[-1]))
        ended = tf.cumsum(tf.cast(rows == self.end_id, tf.int32), axis=1) > 0
        keep = ~ended & (rows != self.pad_id) & (rows != self.start_id)
        keep &= (rows >= 0) & (rows < self.vocabulary_size)
        return tf.reshape(self.join(tf.ragged.boolean_mask(rows, keep)), tf.shape(ids)[:-1])

    @classmethod
    def from_config(cls, config):
        return cls(**config)

    def serialize(self):
        """Plain data that `zoo.text.deserialize` makes the tokenizer from."""
        return {"class": type(self).__name__, **self.get_config()}

    def save(self, path):
        """Writes a JSON file that `zoo.text.load(path)` reads."""
        text = json.dumps(self.serialize(), ensure_ascii=False, indent=1)
        pathlib.Path(path).write_text(text + "\n", encoding="utf-8")


def valid_utf8(strings):
    """The strings, with U+FFFD where their bytes are no UTF-8."""
    return tf.strings.unicode_transcode(strings, "UTF-8", "UTF-8", errors="replace")
