import copy

import numpy as np
import tensorflow as tf

from zoo.layers import BeamSearchDecoder, SamplingDecoder, checks
from zoo.serving.strings import to_bytes

SCORED_AT_ONCE = 256  # sources


class SearchPipeline:
    """Base class of pipelines: text in, text out, by a search of a model's decoder.

    A subclass has `target_tokenizer` before it calls this constructor, and implements what runs in
    the graph: `decode(text, search)`, the other functions of its `signatures`, and `_search_ids(
    search, source)`, the result of a search for sources (rows, ...), 0 where there is nothing.

    Arguments:
        model: what has a `decoder`.
        search: dict of arguments of `BeamSearchDecoder`.
        split_from: int, the rows from which on a batch is searched as two halves at the same time;
            0 is never.
    """

    def __init__(self, model, search, split_from):
        self.model = model
        self._search = dict(search or {})
        self.split_from = checks.integer("split_from", split_from, 0)
        self._begin()

    def _begin(self):
        self.default_search = self.make_search()
        self._compiled = {}
        if not self.model.built:
            self.model(self.example)

    @property
    def example(self):
        """What its model can be called with, which builds it."""
        raise NotImplementedError(f"{type(self).__name__} must implement `example`")

    @property
    def search(self):
        """The arguments of its search."""
        return dict(self._search)

    @property
    def signatures(self):
        """The signatures of its SavedModel: {name: (function, the names of its inputs)}."""
        raise NotImplementedError(f"{type(self).__name__} must implement `signatures`")

    def with_search(self, **options):
        """The same model and tokenizers with another search, to be exported for example."""
        return self._copy(_search=self._changed(options))

    def with_model(self, model):
        """The same tokenizers and search around another model."""
        return self._copy(model=model)

    def _copy(self, **attributes):
        other = copy.copy(self)
        vars(other).update(attributes)
        other._begin()
        return other

    def make_search(self, **options):
        """A search of this pipeline's decoder, by its own settings where `options` say nothing."""
        return BeamSearchDecoder(self.model.decoder, **{**self.writing, **self._changed(options)})

    def make_sampling(self, **options):
        """A `SamplingDecoder` of this pipeline's decoder, as long as its search is.

        `pipeline(texts, search=pipeline.make_sampling(temperature=0.7, num_results=3))` draws.
        """
        kept = {
            key: self._search[key] for key in ("max_length", "min_length") if key in self._search
        }
        return SamplingDecoder(self.model.decoder, **{**self.writing, **kept, **options})

    @property
    def reader(self):
        """What reads its sources: a tokenizer, or for images a `zoo.image.ImageReader`."""
        return self.target_tokenizer

    @property
    def input_name(self):
        """What its sources are called in a SavedModel."""
        return self.reader.input_name

    @property
    def writing(self):
        """What every search of this pipeline is told of its tokens."""
        tokenizer = self.target_tokenizer
        return {"forbidden_ids": (tokenizer.pad_id, tokenizer.start_id, tokenizer.unknown_id)}

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

    def scores(self, sources, targets, metrics, stops=lambda: False):
        """How good the pipeline is on examples.

        Arguments:
            sources: list of what it answers to.
            targets: list of lists of str, all answers that are right.
            metrics: names out of `zoo.evaluation.metrics.METRICS`.
            stops: function that is asked now and then whether to give it up.

        Returns {metric: {"score", "signature"}}, or None where it was given up.
        """
        from zoo.evaluation.metrics import evaluate  # here, because it is slow to import

        order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
        answers = []
        for i in range(0, len(order), SCORED_AT_ONCE):
            if stops():
                return None
            some = [sources[j] for j in order[i : i + SCORED_AT_ONCE]]
            texts = self(some, batch_size=SCORED_AT_ONCE)["text"].numpy()
            answers += [text.decode() for text in texts]
        return evaluate(answers, [targets[i] for i in order], metrics)

    # What follows runs in the graph.

    def _search_rows(self, search, source):
        """The tokens and the scores of a search.

        From `split_from` rows on it is two searches side by side. Half of a batch does not wait for
        the other, and steps are too small to share among threads: on two cores 64 rows take 0.55 of
        the time for a recurrent model, 0.61 for a Transformer (each operation on one thread).
        """

        # Kept as a function, the graph of the search is there once.
        @tf.function(
            input_signature=[self.reader.source_spec],
            autograph=False,
            experimental_attributes={"_noinline": True},
        )
        def run(source):
            result = self._search_ids(search, source)
            return result.tokens, result.scores

        def run_halves():
            order = tf.argsort(self.reader.lengths(source))  # the shorter half is done earlier
            middle = tf.shape(source)[0] // 2
            rows = order[:middle], order[middle:]
            halves = [run(self.reader.trimmed(tf.gather(source, half))) for half in rows]
            back = tf.math.invert_permutation(order)
            return tuple(tf.gather(tf.concat(x, axis=0), back) for x in zip(*halves, strict=True))

        if not self.split_from:
            return run(source)
        is_small = tf.shape(source)[0] < self.split_from
        return tf.cond(is_small, lambda: run(source), run_halves)


def with_policy(config, name):
    """A serialised layer with another dtype policy, and so have all layers in it."""
    if isinstance(config, dict):
        if config.get("class_name") == "DTypePolicy":
            return {**config, "config": {"name": name}}
        return {key: with_policy(value, name) for key, value in config.items()}
    if isinstance(config, (list, tuple)):
        return [with_policy(value, name) for value in config]
    return config


def never_empty(strings):
    """The strings, and where there are none, one empty string: what is shaped can be computed."""
    missing = tf.cast(tf.equal(tf.shape(strings)[:1], 0), tf.int32)
    return tf.concat([strings, tf.fill(missing, "")], axis=0)


def require_as_many(text, target):
    """The texts, once there are as many of them as targets."""
    sizes = tf.shape(text)[0], tf.shape(target)[0]
    as_many = tf.debugging.assert_equal(*sizes, "text and target must be as many")
    with tf.control_dependencies([] if as_many is None else [as_many]):
        return tf.identity(text)
