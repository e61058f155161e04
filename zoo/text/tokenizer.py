import json
import pathlib

import tensorflow as tf

ENCODED_AT_ONCE = 4096  # strings
BYTES_PER_TOKEN = 64  # more than any token has; what is beyond a limit is not even looked at


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

    # What follows makes it the source side of a pipeline, as `zoo.image.ImageReader` is one, too.
    input_name = "text"  # of a SavedModel
    source_spec = tf.TensorSpec((None, None), tf.int32)

    def read(self, strings, limit):
        """(batch,) to what a model reads, (batch, length): `limit` ids at the most, 0 is padding.

        There is a column at least, whatever comes in.
        """
        ids = self.tokenize(cut(strings, limit))[:, :limit].to_tensor(self.pad_id)
        return tf.pad(ids, ((0, 0), (0, tf.maximum(1 - tf.shape(ids)[1], 0))))

    def lengths(self, source):
        """How many positions (batch,) of what was read are no padding."""
        return tf.math.count_nonzero(source, axis=1, dtype=tf.int32)

    def trimmed(self, source):
        """Some of the rows that were read, without the columns that all of them have as padding."""
        return source[:, : tf.maximum(tf.reduce_max(self.lengths(source)), 1)]

    def encode(self, strings, limit=None):
        """A list of str as `Batches` takes them: lists of ids, and None, for they are looked up.

        With a `limit` nobody wants to know more than that an id is beyond it: one is kept.
        """
        ids = []
        for i in range(0, len(strings), ENCODED_AT_ONCE):
            some = self.tokenize(strings[i : i + ENCODED_AT_ONCE])
            ids += (some if limit is None else some[:, : limit + 1]).to_list()
        return ids, None

    def detokenize(self, ids):
        """Ids (..., length), dense or ragged, to strings (...): up to the first end id."""
        if isinstance(ids, tf.RaggedTensor):
            ids = ids.to_tensor(self.pad_id)
        ids = tf.cast(ids, tf.int32)
        shape = tf.shape(ids)
        rows = tf.reshape(ids, (tf.reduce_prod(shape[:-1]), shape[-1]))
        ended = tf.cumsum(tf.cast(rows == self.end_id, tf.int32), axis=1) > 0
        keep = ~ended & (rows != self.pad_id) & (rows != self.start_id)
        keep &= (rows >= 0) & (rows < self.vocabulary_size)
        return tf.reshape(self.join(tf.ragged.boolean_mask(rows, keep)), shape[:-1])

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


def cut(strings, tokens):
    """The strings without what is certainly beyond so many tokens."""
    return tf.strings.substr(strings, 0, BYTES_PER_TOKEN * tokens)


def valid_utf8(strings):
    """The strings, with U+FFFD where their bytes are no UTF-8."""
    return tf.strings.unicode_transcode(strings, "UTF-8", "UTF-8", errors="replace")
