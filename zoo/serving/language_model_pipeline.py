import math

import keras
import numpy as np
import tensorflow as tf

import zoo
from zoo import text as zoo_text
from zoo.layers import checks
from zoo.layers.hypotheses import NONE
from zoo.serving.log_probs import log_probs_of
from zoo.serving.search_pipeline import (
    SearchPipeline,
    never_empty,
    require_as_many,
    with_policy,
)
from zoo.serving.strings import spaced, without
from zoo.text.tokenizer import BYTES_PER_TOKEN, cut, valid_utf8

UNKNOWN = "<unk>"  # as texts such as WikiText have it for rare words: read, and never written


class LanguageModelPipeline(SearchPipeline):
    """Text in, the same text continued out: a tokenizer, a language model and a search.

    A text is the beginning of a line; what is between words counts as one space, and a line ends
    with the end token, which also stands before the first one. `decode` writes on to the end of the
    line, `score` reads given ends, and `align` shows where a model with attention looked back.

    Arguments:
        model: a `LanguageModel`.
        tokenizer: of `zoo.text`.
        search: dict of arguments of `BeamSearchDecoder`, such as beam_width; max_length is that of
            a text and its continuation together.
        max_written: int, the tokens that are written, at the most. Of a text that leaves less room
            for them the beginning is not read.
        window: int, the tokens that a Transformer has learnt to read at once; None for a recurrent
            model, which reads on.
        split_from: int, the rows from which on a batch is searched as two halves at the same time;
            0 is never, for a GPU.

    Call arguments and results are those of `Pipeline`; scores are those of all that was read and
    written. Spaces at the end of a text are not read: what is written may make its last word
    longer.

    Example:

    ```python
    import keras
    from zoo import LanguageModel, RecurrentLanguageModel
    from zoo.serving import LanguageModelPipeline
    from zoo.text import SymbolTokenizer

    tokenizer = SymbolTokenizer(["a", "cat", "sat", "the"])
    model = LanguageModel(RecurrentLanguageModel(8, 8, keras.layers.LSTMCell(8)))
    search = {"beam_width": 2, "max_length": 12}
    pipeline = LanguageModelPipeline(model, tokenizer, search, max_written=6)
    print(pipeline(["the cat"])["text"])
    drawn = pipeline.make_sampling(temperature=0.8, top_p=0.9, num_results=3)
    print(pipeline(["the cat"], search=drawn)["texts"])
    print(pipeline.scores(["the cat sat", "a cat sat"])["perplexity"])
    ```
    """

    def __init__(self, model, tokenizer, search=None, max_written=32, window=None, split_from=16):
        self.source_tokenizer = self.target_tokenizer = tokenizer
        self.max_written = checks.integer("max_written", max_written, 1)
        self.window = window
        super().__init__(model, search, split_from)

    def _begin(self):
        super()._begin()
        self._reader = None  # of texts, once it is asked for
        self.max_source_length = self.default_search.max_length - self.max_written
        if self.max_source_length < 1:
            raise ValueError(
                "`max_written` must be below the max_length of the search, of which a text needs a "
                f"part. Received: max_written={self.max_written}, "
                f"max_length={self.default_search.max_length}"
            )

    @property
    def example(self):
        return {"target": np.ones((1, 2), "int32")}

    @property
    def looks_back(self):
        """Whether the model has an attention to its past, whose weights can be seen."""
        return getattr(self.model.decoder, "attention", None) is not None

    @property
    def signatures(self):
        return {
            "serving_default": (self.decode, ("text",)),
            **({"align": (self.align, ("text",))} if self.looks_back else {}),
            "score": (self.score, ("text", "target")),
        }

    @property
    def writing(self):
        tokenizer, forbidden = self.target_tokenizer, super().writing["forbidden_ids"]
        unknown = tokenizer.tokenize([UNKNOWN]).to_list()[0]
        if len(unknown) == 1:
            forbidden = (*forbidden, *unknown)
        # A line begins where another ends.
        return {"start_id": tokenizer.end_id, "forbidden_ids": tuple(sorted(set(forbidden)))}

    def scores(self, sources, targets=(), metrics=("perplexity",), stops=lambda: False):
        """The perplexity of a text, read from its first line to its last.

            perplexity = exp(nats / words), nats = -log P(text)

        Words are what is between spaces, and each end of a line is one more, as WikiText's are
        counted: an <unk> in the text is a word as any other. In how many pieces a tokenizer takes
        the text makes no difference to what is divided by.

        Arguments:
            sources: list of str, the lines.
            stops: function that is asked now and then whether to give it up.

        Returns {"perplexity": {"score", "signature"}}, or None where it was given up.
        """
        from zoo.evaluation.text_reader import TextReader

        if list(metrics) != ["perplexity"]:
            raise ValueError(
                "`metrics` of a language model can be perplexity alone. "
                f"Received: {', '.join(metrics)}"
            )
        if self._reader is None:
            end = self.target_tokenizer.end_id
            self._reader = TextReader(self.model.decoder, self.window, start_id=end)
        tokens = self.tokens_of(sources)
        nats = self._reader.nats(tokens, stops)
        if nats is None:
            return None
        words = sum(len(line.split()) + 1 for line in sources)
        how = f"window:{self.window}" if self.window else "stateful"
        signature = f"perplexity|words:{words}|tokens:{len(tokens)}|{how}"
        if unknown := int((tokens == self.target_tokenizer.unknown_id).sum()):
            signature += f"|unknown:{unknown}"
        score = math.exp(min(nats / max(words, 1), 700.0))  # more is no number
        return {"perplexity": {"score": score, "signature": f"{signature}|zoo:{zoo.__version__}"}}

    def tokens_of(self, lines):
        """A text (a list of str, its lines) as ids, with an end token behind each line."""
        end, tokens = self.target_tokenizer.end_id, []
        for i in range(0, len(lines), 4096):
            ids = self.target_tokenizer.tokenize(spaced(tf.constant(lines[i : i + 4096])))
            ends = tf.fill([ids.nrows(), 1], end)
            tokens.append(tf.concat([ids, tf.cast(ends, ids.dtype)], axis=1).flat_values.numpy())
        return np.concatenate([np.zeros(0, "int32"), *tokens])

    # What follows runs in the graph.

    def decode(self, text, search=None):
        """(batch,) strings to {"text", "score", "texts", "scores"}."""
        search = search or self.default_search
        source, size = self._sources(text)
        tokens, scores = self._search_rows(search, source)  # (rows, n, time), (rows, n)
        # What is written behind a text is behind the text as it was given, whatever was read of it.
        read = self.target_tokenizer.detokenize(source)[:, None]  # (rows, 1)
        texts = tf.ensure_shape(
            self.target_tokenizer.detokenize(tokens), (None, search.num_results)
        )
        written = without(texts, read)
        given = tf.strings.regex_replace(valid_utf8(never_empty(text)), r"\s+\z", "")[:, None]
        texts = tf.where(
            scores > NONE, tf.strings.join([tf.broadcast_to(given, tf.shape(written)), written]), ""
        )[:size]
        scores = scores[:size]
        return {"text": texts[:, 0], "score": scores[:, 0], "texts": texts, "scores": scores}

    def _search_ids(self, search, source):
        """The result of a search for the continuations of ids (rows, source_length)."""
        lengths = tf.math.count_nonzero(source, axis=1, dtype=tf.int32)
        most = tf.minimum(lengths + self.max_written, search.max_length)
        prefix = tf.where(source != 0, source, -1)
        return search(prefix=prefix, max_length=most, batch_size=tf.shape(source)[0])

    def align(self, text):
        """Where the model looked back as it read the text and wrote the rest of the line.

        (batch,) strings to "source_tokens" (batch, time), the tokens from the end of the line
        before on, "target_tokens" (batch, time), those that were read or written behind each, and
        "alignments" (batch, time, time); "" and 0 where a row is shorter.
        """
        source, size = self._sources(text)
        tokens = self._search_ids(self.default_search, source).tokens[:, 0]  # (rows, time)
        ended = tf.cumsum(tf.cast(tokens == self.target_tokenizer.end_id, tf.int32), axis=1) > 0
        return self._looked_back(tf.where(ended, 0, tokens), size)

    def _looked_back(self, tokens, size):
        """The results of `align` for given tokens (rows, time), padded with 0."""
        lengths = tf.math.count_nonzero(tokens, axis=1, dtype=tf.int32)
        time = tf.reduce_max(lengths)
        tokens = tokens[:, :time]
        inputs = tf.where(tokens != 0, _behind_end(tokens, self.target_tokenizer.end_id), 0)
        weights = tf.zeros((*tf.unstack(tf.shape(tokens)), 0))  # as a search's, without attention
        if self.looks_back:
            # One column more, since a loop over time wants one at least.
            longer = tf.pad(inputs, ((0, 0), (0, 1)))
            weights = self.model.decoder.past_alignments(longer)[:, :-1, :-1]
            weights = tf.where((tokens != 0)[:, :, None], tf.cast(weights, tf.float32), 0.0)
        return {
            "source_tokens": self.target_tokenizer.tokens(inputs)[:size],
            "target_tokens": self.target_tokenizer.tokens(tokens)[:size],
            "alignments": weights[:size],
        }

    def score(self, text, target):
        """(batch,) strings and targets to the "log_prob" (batch,) of each target behind its text.

        A target goes on to the end of its line, which counts too. With an empty text it is a whole
        line. One that is longer than the search's `max_length` has -1e9.
        """
        return {"log_prob": self._forced(text, target)[0]}

    def teacher_forced(self, text, target):
        """Reads given targets: "log_prob", and tokens and alignments as `align` gives them."""
        log_prob, tokens, size = self._forced(text, target)
        return {"log_prob": log_prob, **self._looked_back(tokens, size)}

    def _forced(self, text, target):
        """log_prob (batch,), tokens of texts and targets (rows, time), the number of rows."""
        text, target = require_as_many(text, target), never_empty(target)
        limit, end = self.default_search.max_length, self.target_tokenizer.end_id
        is_cut = tf.strings.length(target) > BYTES_PER_TOKEN * limit
        wanted = self.target_tokenizer.tokenize(spaced(cut(target, limit)))
        lengths = _lengths(wanted)
        too_long = is_cut | (lengths > limit)
        wanted = wanted[:, :limit]
        given = self._last_tokens(never_empty(text), limit)
        # Of a text that leaves no room for its target the beginning is not read.
        surplus = tf.maximum(_lengths(given) + lengths - limit, 0)
        where = tf.ragged.range(_lengths(given))
        given = tf.ragged.boolean_mask(given, where >= surplus[:, None])
        tokens = tf.concat([given, wanted], axis=1).to_tensor(0)  # (rows, time)
        first = _lengths(given)[:, None]
        # One column more, for the end.
        longer = tf.pad(tokens, ((0, 0), (0, 1)))
        ends = tf.math.count_nonzero(longer, axis=1, dtype=tf.int32)[:, None]
        where = tf.range(tf.shape(longer)[1])[None]
        labels = tf.where(where >= first, tf.where(where == ends, end, longer), 0)
        log_prob = log_probs_of(self.model, _behind_end(longer, end), labels)
        size = tf.shape(text)[0]
        return tf.where(too_long, NONE, log_prob)[:size], tokens, size

    def _sources(self, text):
        """The last ids of texts (rows, source_length) and how many rows are asked for.

        There is a row at least, and a column, whatever comes in.
        """
        ids = self._last_tokens(never_empty(text), self.max_source_length).to_tensor(0)
        ids = tf.pad(ids, ((0, 0), (0, tf.maximum(1 - tf.shape(ids)[1], 0))))
        return ids, tf.shape(text)[0]

    def _last_tokens(self, text, limit):
        """Of each text the last tokens, ragged."""
        size = tf.strings.length(text)
        first = tf.maximum(size - BYTES_PER_TOKEN * limit, 0)
        text = tf.strings.substr(text, first, size - first)
        return self.target_tokenizer.tokenize(spaced(text))[:, -limit:]

    def get_config(self):
        """Plain data: everything but the weights. The model computes in float32."""
        return {
            "class": type(self).__name__,
            "model": with_policy(keras.saving.serialize_keras_object(self.model), "float32"),
            "tokenizer": self.target_tokenizer.serialize(),
            "search": self._search,
            "max_written": self.max_written,
            "window": self.window,
            "split_from": self.split_from,
            "max_source_length": self.max_source_length,
        }

    @classmethod
    def from_config(cls, config, dtype_policy="float32"):
        """The pipeline of a config, its model with new weights."""
        return cls(
            keras.saving.deserialize_keras_object(with_policy(config["model"], dtype_policy)),
            zoo_text.deserialize(config["tokenizer"]),
            config["search"],
            config["max_written"],
            config["window"],
            config["split_from"],
        )


def _lengths(ids):
    """How many ids are in each of ragged rows."""
    return tf.cast(ids.row_lengths(), tf.int32)


def _behind_end(tokens, end_id):
    """Tokens (rows, time) one place later, behind the end of the line before."""
    return tf.pad(tokens, ((0, 0), (1, 0)), constant_values=end_id)[:, :-1]
