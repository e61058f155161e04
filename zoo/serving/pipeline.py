import keras
import numpy as np
import tensorflow as tf

from zoo import text as zoo_text
from zoo.image import ImageReader
from zoo.layers.hypotheses import NONE
from zoo.serving.search_pipeline import (
    SearchPipeline,
    never_empty,
    require_as_many,
    with_policy,
)
from zoo.text.tokenizer import BYTES_PER_TOKEN, cut


class Pipeline(SearchPipeline):
    """Text or images in, text out: what reads sources, a model, a search and a tokenizer.

    This is what a run trains, what an export writes down as a SavedModel, and what `zoo.load` gives
    back. Its three functions are the three signatures of the SavedModel.

    Arguments:
        model: a `Seq2Seq`.
        source_tokenizer: of `zoo.text`, or for images a `zoo.image.ImageReader`.
        target_tokenizer: of `zoo.text`.
        search: dict of arguments of `BeamSearchDecoder`, such as beam_width and max_length, which
            also bounds the targets that `score` takes.
        max_source_length: int, the tokens of a source that are read; the rest is cut off, so that
            no request can take the memory of a server.
        length_ratio: float, the tokens that may be written for each token of the source, and ten
            more: without it a model that finds no end writes on to the `max_length` of its search.
        split_from: int, the rows from which on a batch is searched as two halves at the same time;
            0 is never, for a GPU.

    Call arguments:
        texts: list of str, as many as you like; for images of bytes, the contents of files.
        batch_size: int, how many are searched at once.
        search: another search layer, in place of the pipeline's.
        **options: arguments of `BeamSearchDecoder` that replace the pipeline's.

    Returns a dict, best first along n: "text" (batch,), "score" (batch,), "texts" (batch, n),
    "scores" (batch, n).

    Example:

    ```python
    import keras
    from zoo import AttentionCell, LuongAttention, RecurrentDecoder, RecurrentEncoder, Seq2Seq
    from zoo.serving import Pipeline
    from zoo.text import CharacterTokenizer, SymbolTokenizer

    letters, sounds = CharacterTokenizer("act"), SymbolTokenizer(["AE", "K", "T"])
    cell = AttentionCell(keras.layers.GRUCell(8), LuongAttention())
    model = Seq2Seq(RecurrentEncoder(7, 8, units=8), RecurrentDecoder(7, 8, cell))
    pipeline = Pipeline(model, letters, sounds, {"beam_width": 3, "max_length": 8})
    assert pipeline(["cat", "act"])["texts"].shape == (2, 3)
    assert pipeline(["cat"], beam_width=5)["scores"].shape == (1, 5)
    ```
    """

    def __init__(
        self,
        model,
        source_tokenizer,
        target_tokenizer,
        search=None,
        max_source_length=100,
        length_ratio=None,
        split_from=16,
    ):
        self.source_tokenizer = source_tokenizer
        self.target_tokenizer = target_tokenizer
        self.max_source_length = max_source_length
        self.length_ratio = length_ratio
        super().__init__(model, search, split_from)

    @property
    def example(self):
        spec = self.source_tokenizer.source_spec
        source = np.ones([size or 2 for size in spec.shape], spec.dtype.as_numpy_dtype)
        return {"source": source, "target": np.ones((2, 2), "int32")}

    @property
    def signatures(self):
        source = self.input_name
        return {
            "serving_default": (self.decode, (source,)),
            "align": (self.align, (source,)),
            "score": (self.score, (source, "target")),
        }

    @property
    def reader(self):
        return self.source_tokenizer

    # What follows runs in the graph.

    def decode(self, text, search=None):
        """(batch,) strings to {"text", "score", "texts", "scores"}."""
        source, size = self._sources(text)
        search = search or self.default_search
        tokens, scores = self._search_rows(search, source)
        texts = self.target_tokenizer.detokenize(tokens)  # (batch, n)
        texts = tf.ensure_shape(texts, (None, search.num_results))
        # The answer to an empty text is an empty text.
        empty = _is_empty(source)[:, None]  # (batch, 1)
        first = tf.range(tf.shape(texts)[1]) == 0  # (n,)
        texts = tf.where(empty, "", texts)[:size]
        scores = tf.where(empty, tf.where(first, 0.0, NONE), scores)[:size]
        return {"text": texts[:, 0], "score": scores[:, 0], "texts": texts, "scores": scores}

    def _search_ids(self, search, source):
        """The result of a search for the targets of sources (rows, ...)."""
        most = None
        if self.length_ratio is not None:
            lengths = tf.cast(self.reader.lengths(source), tf.float32)
            most = tf.cast(tf.math.ceil(self.length_ratio * lengths), tf.int32) + 10
            most = tf.minimum(most, search.max_length)
        return search(*self.model.encoder(source), max_length=most)

    def align(self, text):
        """Which source tokens each token of the best answer looked at.

        (batch,) strings to "source_tokens" (batch, source_length), "target_tokens" (batch, time)
        and "alignments" (batch, time, source_length); "" and 0 where a row is shorter.
        """
        source, size = self._sources(text)
        result = self._search_ids(self.default_search, source)
        tokens, alignments = result.tokens[:, 0], result.alignments[:, 0]
        ended = tf.cumsum(tf.cast(tokens == self.target_tokenizer.end_id, tf.int32), axis=1) > 0
        is_token = ~ended & ~_is_empty(source)[:, None]  # (batch, time)
        time = tf.reduce_max(tf.reduce_sum(tf.cast(is_token, tf.int32), axis=1))
        tokens = self.target_tokenizer.tokens(tf.where(is_token, tokens, 0))
        alignments = tf.where(is_token[:, :, None], alignments, 0.0)
        return {
            "source_tokens": self.reader.tokens(source)[:size],
            "target_tokens": tokens[:size, :time],
            "alignments": alignments[:size, :time],
        }

    def score(self, text, target):
        """(batch,) strings and targets to the "log_prob" (batch,) of each target.

        A target that is longer than the search may write has -1e9.
        """
        return {"log_prob": self.teacher_forced(text, target)["log_prob"]}

    def teacher_forced(self, text, target):
        """Reads given targets: "log_prob", and tokens and alignments as `align` gives them."""
        source, size = self._sources(require_as_many(text, target))
        limit = self.default_search.max_length
        target = never_empty(target)
        ids = self.target_tokenizer.tokenize(cut(target, limit))
        is_cut = tf.strings.length(target) > BYTES_PER_TOKEN * limit
        too_long = is_cut | (ids.row_lengths() > limit)
        # The end token follows the last one, except where search has no room for it either.
        ids = tf.pad(ids[:, :limit].to_tensor(0), ((0, 0), (0, 1)))[:, :limit]  # (batch, time)
        is_token = ids != 0
        ends = tf.pad(is_token, ((0, 0), (1, 0)), constant_values=True)[:, :-1] & ~is_token
        labels = tf.where(ends, self.target_tokenizer.end_id, ids)
        start = tf.fill([tf.shape(ids)[0], 1], self.target_tokenizer.start_id)
        inputs = {"source": source, "target": tf.concat([start, ids[:, :-1]], axis=1)}
        logits, weights = self.model(inputs, return_attention_scores=True)
        log_probs = tf.nn.log_softmax(tf.cast(logits, tf.float32))
        log_probs = tf.gather(log_probs, labels, axis=2, batch_dims=2)
        log_prob = tf.reduce_sum(tf.where(labels != 0, log_probs, 0.0), axis=1)  # (batch,)
        empty = _is_empty(source) & ~tf.reduce_any(is_token, axis=1)
        log_prob = tf.where(too_long, NONE, tf.where(empty, 0.0, log_prob))
        if weights is None:  # as a search does where there is no attention
            weights = tf.zeros((*tf.unstack(tf.shape(ids)), 0))
        longest = tf.reduce_max(tf.reduce_sum(tf.cast(is_token, tf.int32), axis=1))
        alignments = tf.where(is_token[:, :, None], weights, 0.0)
        return {
            "log_prob": log_prob[:size],
            "source_tokens": self.reader.tokens(source)[:size],
            "target_tokens": self.target_tokenizer.tokens(ids)[:size, :longest],
            "alignments": alignments[:size, :longest],
        }

    def _sources(self, text):
        """What the model reads (rows, ...), a row at least, and how many rows are asked for."""
        return self.reader.read(never_empty(text), self.max_source_length), tf.shape(text)[0]

    def get_config(self):
        """Plain data: everything but the weights. The model computes in float32."""
        return {
            "model": with_policy(keras.saving.serialize_keras_object(self.model), "float32"),
            "source_tokenizer": self.source_tokenizer.serialize(),
            "target_tokenizer": self.target_tokenizer.serialize(),
            "search": self._search,
            "max_source_length": self.max_source_length,
            "length_ratio": self.length_ratio,
            "split_from": self.split_from,
        }

    @classmethod
    def from_config(cls, config, dtype_policy="float32"):
        """The pipeline of a config, its model with new weights."""
        return cls(
            keras.saving.deserialize_keras_object(with_policy(config["model"], dtype_policy)),
            _reader(config["source_tokenizer"]),
            zoo_text.deserialize(config["target_tokenizer"]),
            config["search"],
            config["max_source_length"],
            config.get("length_ratio"),  # older ones do not say it
            config.get("split_from", 16),
        )


def _reader(config):
    """What reads sources, by its config."""
    if config["class"] == ImageReader.__name__:
        return ImageReader.from_config({k: v for k, v in config.items() if k != "class"})
    return zoo_text.deserialize(config)


def _is_empty(source):
    """Whether a row (batch, ...) is padding all through: (batch,)."""
    return tf.reduce_all(source == 0, axis=list(range(1, source.shape.rank)))
