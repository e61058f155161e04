import numpy as np

from zoo.data import Batches, Windows
from zoo.training.attention_losses import guides, require_weights
from zoo.training.fit import fit
from zoo.training.run import Run


def learn(
    config,
    recipe,
    texts,
    dev,
    build,
    metrics,
    sampling=0.0,
    attention_losses=(),
    cut_sources=False,
):
    """Trains a recipe's model on pairs of sources and texts, from wherever its run stands.

    Arguments:
        config: a `Settings`, the recipe's.
        recipe: the recipe's file, or its name.
        texts, dev: `Examples` to train on and to score after each epoch by beam search.
        build: a function of the config, the sources and the targets (lists of str; of bytes where
            sources are images) that makes a `Pipeline`; a run that is there has its own.
        metrics: names out of `zoo.evaluation.metrics.METRICS`; the first one decides what is best.
        sampling: float, the smoothness with which the tokenizers draw other pieces for each epoch;
            0 is never.
        attention_losses: list of `AttentionLoss`, parts of the loss that are about attention; a
            `GuidedSettings` may ask for one more.
        cut_sources: bool, whether sources that are longer than the config's `max_length` are cut
            off there; else they are left out.

    Returns the scores of the best epoch, as `fit` does.
    """
    attention_losses = [*attention_losses, *guides(config)]
    run = Run(config, recipe, {"train": texts, "dev": dev})
    sources, targets = texts.pairs()
    pipeline = run.pipeline(lambda: build(config, sources, targets))
    print(f"{pipeline.model.count_params():,} parameters")
    if attention_losses:
        require_weights(pipeline.model)
    tokenizers = (pipeline.source_tokenizer, pipeline.target_tokenizer)

    if sampling and not all(hasattr(tokenizer, "sample") for tokenizer in tokenizers):
        names = " and ".join(type(tokenizer).__name__ for tokenizer in tokenizers)
        raise ValueError(
            "`sampling` needs tokenizers that know several ways to write a text, as "
            f"SentencePieceTokenizer does. Received: {names}"
        )

    def resample(epoch):
        seeds = np.random.default_rng([config.seed, epoch]).integers(2**31, size=2)
        sides = zip(tokenizers, (sources, targets), seeds.tolist(), strict=True)
        ids = [tokenizer.sample(lines, sampling, seed) for tokenizer, lines, seed in sides]
        return *ids, columns_of(ids)

    def columns_of(ids):
        wanted = [loss for loss in attention_losses if loss.column]
        return {loss.column: loss.lists(tokenizers, (sources, targets), ids) for loss in wanted}

    most = config.max_length if cut_sources else None
    (source_ids, look_up), (target_ids, _) = (
        tokenizer.encode(texts, limit)
        for tokenizer, texts, limit in zip(
            tokenizers, (sources, targets), (most, None), strict=True
        )
    )
    ids = [source_ids, target_ids]
    batches = Batches(
        *ids,
        batch_tokens=config.update_tokens,
        num_buckets=config.num_buckets,
        max_length=config.max_length,
        cut_sources=cut_sources,
        seed=config.seed,
        resample=resample if sampling else None,
        columns=columns_of(ids),
        look_up=look_up,
    )
    return fit(run, pipeline, batches, dev, metrics, attention_losses)


def learn_text(config, recipe, text, dev, build):
    """Trains a recipe's language model on a text, from wherever its run stands.

    Arguments:
        config: a `Settings`, whose `max_length` is the tokens of a window.
        recipe: the recipe's file, or its name.
        text, dev: `Examples` whose sources are the lines of a text, to train on and to score after
            each epoch by perplexity.
        build: a function of the config and the lines (list of str) that makes a
            `LanguageModelPipeline`; a run that is there has its own.

    Returns the scores of the best epoch, as `fit` does.
    """
    run = Run(config, recipe, {"train": text, "dev": dev})
    pipeline = run.pipeline(lambda: build(config, text.sources))
    print(f"{pipeline.model.count_params():,} parameters")
    end = pipeline.target_tokenizer.end_id  # behind each line, and before the first
    tokens = np.concatenate([[end], pipeline.tokens_of(text.sources)])
    windows = Windows(tokens, config.max_length, config.update_tokens, config.seed)
    return fit(run, pipeline, windows, dev, ("perplexity",))
