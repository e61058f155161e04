import keras
import numpy as np
import tensorflow as tf

from zoo import text as zoo_text
from zoo.layers import BeamSearchDecoder, checks
from zoo.layers.hypotheses import NONE
from zoo.serving.strings import to_bytes

BYTES_PER_TOKEN = 64  # more than any token has; what is beyond a limit is not even looked at


class Pipeline:
    """Text in, text out: a tokenizer, a model, a search and another tokenizer.

    This is what a run trains, what an export writes down as a SavedModel, and what `zoo.load` gives
    back. Its three functions are the three signatures of the SavedModel.

    Arguments:
        model: a `Seq2Seq`.
        source_tokenizer, target_tokenizer: of `zoo.text`.
        search: dict of arguments of `BeamSearchDecoder`, such as beam_width and max_length, which
            also bounds the targets that `score` takes.
        max_source_length: int, the tokens of a source that are read; the rest is cut off, so that
            no request can take the memory of a server.
        length_ratio: float, the tokens that may be written for each token of the source, and ten
            more: without it a model that finds no end writes on to the `max_length` of its search.
        split_from: int, the rows from which on a batch is searched as two halves at the same time;
            0 is never, for a GPU.

    Call arguments:
        texts: list of str, as many as you like.
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
        self.model = model
        self.source_tokenizer = source_tokenizer
        self.target_tokenizer = target_tokenizer
        self._search = dict(search or {})
        self.max_source_length = max_source_length
        self.length_ratio = length_ratio
        self.split_from = checks.integer("split_from", split_from, 0)
        self.default_search = self.make_search()
        self._compiled = {}
        if not model.built:
            ids = np.ones((1, 2), "int32")
            model({"source": ids, "target": ids})

    @property
    def search(self):
        """The arguments of its search."""
        return dict(self._search)

    def with_search(self, **options):
        """The same model and tokenizers with another search, to be exported for example."""
        parts = (self.model, self.source_tokenizer, self.target_tokenizer)
        limits = (self.max_source_length, self.length_ratio, self.split_from)
        return Pipeline(*parts, self._changed(options), *limits)

    def make_search(self, **options):
        """A search of this pipeline's decoder, by its own settings where `options` say nothing."""
        tokenizer = self.target_tokenizer
        unwritten = (tokenizer.pad_id, tokenizer.start_id, tokenizer.unknown_id)
        options = {"forbidden_ids": unwritten, **self._changed(options)}
        return BeamSearchDecoder(self.model.decoder, **options)

    def _changed(self, options):
        if "beam_width" in options:  # all of another beam is wanted
            options = {"num_results": options["beam_width"], **options}
        return {**self._search, **options}

    def __call__(self, texts, batch_size=64, search=None, **options):
        texts = to_bytes(texts)
        batch_size = checks.integer("batch_size", batch_size, 1)
        if search is not None and options:
            raise ValueError(
                f"`search` has its own settings. Received: search={search.name} and {options}"
            )
        decode = self._compiled_decode(search, options)
        # Texts of like length are searched together.
        order = np.argsort([len(t) for t in texts], kind="stable")
        chunks = [order[i : i + batch_size] for i in range(0, max(len(order), 1), batch_size)]
        results = [decode(tf.constant([texts[i] for i in c], tf.string)) for c in chunks]
        back = np.argsort(order)
        return {
            name: tf.gather(tf.concat([result[name] for result in results], axis=0), back)
            for name in results[0]
        }

    def _compiled_decode(self, search, options):
        key = search if search is not None else repr(sorted(options.items()))
        if key not in self._compiled:
            if search is None:
                search = self.make_search(**options) if options else self.default_search
            self._compiled[key] = tf.function(
                lambda text: self.decode(text, search),
                input_signature=[tf.TensorSpec((None,), tf.string)],
                autograph=False,
            )
        return self._compiled[key]

    # What follows runs in the graph.

    def decode(self, text, search=None):
        """(batch,) strings to {"text", "score", "texts", "scores"}."""
        source, _, size = self._sources(text)
        search = search or self.default_search
        tokens, scores = self._search_rows(search, source)
        texts = self.target_tokenizer.detokenize(tokens)  # (batch, n)
        texts = tf.ensure_shape(texts, (None, search.num_results))
        # The answer to an empty text is an empty text.
        empty = ~tf.reduce_any(source != 0, axis=1, keepdims=True)  # (batch, 1)
        first = tf.range(tf.shape(texts)[1]) == 0  # (n,)
        texts = tf.where(empty, "", texts)[:size]
        scores = tf.where(empty, tf.where(first, 0.0, NONE), scores)[:size]
        return {"text": texts[:, 0], "score": scores[:, 0], "texts": texts, "scores": scores}

    def _search_ids(self, search, source):
        """The result of a search for the targets of ids (rows, source_length)."""
        most = None
        if self.length_ratio is not None:
            lengths = tf.math.count_nonzero(source, axis=1, dtype=tf.float32)
            most = tf.cast(tf.math.ceil(self.length_ratio * lengths), tf.int32) + 10
            most = tf.minimum(most, search.max_length)
        return search(*self.model.encoder(source), max_length=most)

    def _search_rows(self, search, source):
        """The tokens and the scores of a search.

        From `split_from` rows on it is two searches side by side. Half of a batch does not wait for
        the other, and steps are too small to share among threads: on two cores 64 rows take 0.55 of
        the time for a recurrent model, 0.61 for a Transformer (each operation on one thread).
        """

        # Kept as a function, the graph of the search is there once.
        @tf.function(
            input_signature=[tf.TensorSpec((None, None), source.dtype)],
            autograph=False,
            experimental_attributes={"_noinline": True},
        )
        def run(source):
            result = self._search_ids(search, source)
            return result.tokens, result.scores

        def run_halves():
            lengths = tf.math.count_nonzero(source, axis=1, dtype=tf.int32)
            order = tf.argsort(lengths)  # the shorter half is done earlier
            middle = tf.shape(source)[0] // 2
            halves = []
            for rows in (order[:middle], order[middle:]):
                width = tf.maximum(tf.reduce_max(tf.gather(lengths, rows)), 1)
                halves.append(run(tf.gather(source, rows)[:, :width]))
            back = tf.math.invert_permutation(order)
            return tuple(tf.gather(tf.concat(x, axis=0), back) for x in zip(*halves, strict=True))

        if not self.split_from:
            return run(source)
        is_small = tf.shape(source)[0] < self.split_from
        return tf.cond(is_small, lambda: run(source), run_halves)

    def align(self, text):
        """Which source tokens each token of the best answer looked at.

        (batch,) strings to "source_tokens" (batch, source_length), "target_tokens" (batch, time)
        and "alignments" (batch, time, source_length); "" and 0 where a row is shorter.
        """
        source, source_tokens, size = self._sources(text)
        result = self._search_ids(self.default_search, source)
        tokens, alignments = result.tokens[:, 0], result.alignments[:, 0]
        ended = tf.cumsum(tf.cast(tokens == self.target_tokenizer.end_id, tf.int32), axis=1) > 0
        is_token = ~ended & tf.reduce_any(source != 0, axis=1, keepdims=True)  # (batch, time)
        time = tf.reduce_max(tf.reduce_sum(tf.cast(is_token, tf.int32), axis=1))
        tokens = self.target_tokenizer.tokens(tf.where(is_token, tokens, 0))
        alignments = tf.where(is_token[:, :, None], alignments, 0.0)
        return {
            "source_tokens": source_tokens[:size],
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
        sizes = tf.shape(text)[0], tf.shape(target)[0]
        as_many = tf.debugging.assert_equal(*sizes, "text and target must be as many")
        with tf.control_dependencies([] if as_many is None else [as_many]):
            text = tf.identity(text)
        source, source_tokens, size = self._sources(text)
        limit = self.default_search.max_length
        target = _never_empty(target)
        ids = self.target_tokenizer.tokenize(_cut(target, limit))
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
        empty = ~tf.reduce_any(source != 0, axis=1) & ~tf.reduce_any(is_token, axis=1)
        log_prob = tf.where(too_long, NONE, tf.where(empty, 0.0, log_prob))
        if weights is None:  # as a search does where there is no attention
            weights = tf.zeros((*tf.unstack(tf.shape(ids)), 0))
        longest = tf.reduce_max(tf.reduce_sum(tf.cast(is_token, tf.int32), axis=1))
        alignments = tf.where(is_token[:, :, None], weights, 0.0)
        return {
            "log_prob": log_prob[:size],
            "source_tokens": source_tokens[:size],
            "target_tokens": self.target_tokenizer.tokens(ids)[:size, :longest],
            "alignments": alignments[:size, :longest],
        }

    def _sources(self, text):
        """Ids (rows, source_length), their tokens, and how many rows are asked for.

        There is a row at least, and a column, whatever comes in.
        """
        text_read = _cut(_never_empty(text), self.max_source_length)
        ids = self.source_tokenizer.tokenize(text_read)[:, : self.max_source_length]
        ids = ids.to_tensor(0)
        ids = tf.pad(ids, ((0, 0), (0, tf.maximum(1 - tf.shape(ids)[1], 0))))
        return ids, self.source_tokenizer.tokens(ids), tf.shape(text)[0]

    def get_config(self):
        """Plain data: everything but the weights. The model computes in float32."""
        return {
            "model": _with_policy(keras.saving.serialize_keras_object(self.model), "float32"),
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
            keras.saving.deserialize_keras_object(_with_policy(config["model"], dtype_policy)),
            zoo_text.deserialize(config["source_tokenizer"]),
            zoo_text.deserialize(config["target_tokenizer"]),
            config["search"],
            config["max_source_length"],
            config.get("length_ratio"),  # older ones do not say it
            config.get("split_from", 16),
        )


def _with_policy(config, name):
    """A serialised layer with another dtype policy, and so have all layers in it."""
    if isinstance(config, dict):
        if config.get("class_name") == "DTypePolicy":
            return {**config, "config": {"name": name}}
        return {key: _with_policy(value, name) for key, value in config.items()}
    if isinstance(config, (list, tuple)):
        return [_with_policy(value, name) for value in config]
    return config


def _never_empty(strings):
    """The strings, and where there are none, one empty string: what is shaped can be computed."""
    missing = tf.cast(tf.equal(tf.shape(strings)[:1], 0), tf.int32)
    return tf.concat([strings, tf.fill(missing, "")], axis=0)


def _cut(strings, tokens):
    return tf.strings.substr(strings, 0, BYTES_PER_TOKEN * tokens)
