import numpy as np

from zoo.data import Batches
from zoo.training.fit import fit
from zoo.training.run import Run


def learn(config, recipe, texts, dev, build, metrics, sampling=0.0):
    """Trains a recipe's model on pairs of texts, from wherever its run stands.

    Arguments:
        config: a `Settings`, the recipe's.
        recipe: the recipe's file, or its name.
        texts, dev: `Examples` to train on and to score after each epoch by beam search.
        build: a function of the config, the sources and the targets (lists of str) that makes a
            `Pipeline`; a run that is there has its own.
        metrics: names out of `zoo.evaluation.metrics.METRICS`; the first one decides what is best.
        sampling: float, the smoothness with which the tokenizers draw other pieces for each epoch;
            0 is never.

    Returns the scores of the best epoch, as `fit` does.
    """
    run = Run(config, recipe, {"train": texts, "dev": dev})
    sources, targets = texts.pairs()
    pipeline = run.pipeline(lambda: build(config, sources, targets))
    print(f"{pipeline.model.count_params():,} parameters")
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
        return [tokenizer.sample(lines, sampling, seed) for tokenizer, lines, seed in sides]

    batches = Batches(
        tokenizers[0].tokenize(sources).to_list(),
        tokenizers[1].tokenize(targets).to_list(),
        batch_tokens=config.update_tokens,
        num_buckets=config.num_buckets,
        max_length=config.max_length,
        seed=config.seed,
        resample=resample if sampling else None,
    )
    return fit(run, pipeline, batches, dev, metrics)
