from typing import Any, NamedTuple

from zoo.commands.console import batches


class Forced(NamedTuple):
    """What a model makes of a given answer."""

    log_prob: float
    source_tokens: list
    target_tokens: list
    weights: Any  # (target tokens, source tokens), or of no columns


def forced_answers(saved_model, texts, answers, name="the file of answers"):
    """Yields a `Forced` for each text and its answer; `name` is what messages call the answers."""
    import tensorflow as tf

    from zoo.serving import load
    from zoo.serving.offline import sources_of

    several = next((i for i, line in enumerate(answers, 1) if "\t" in line), None)
    if several:
        raise ValueError(
            f"{name} must have one answer on each line. Received: several between tabs on line "
            f"{several}; `cut -f1` takes the first"
        )
    pipeline = load(saved_model)
    text = tf.TensorSpec((None,), tf.string)
    forced = tf.function(pipeline.teacher_forced, [text, text], autograph=False)
    for batch, other in zip(batches(texts), batches(answers), strict=True):
        (sources,) = sources_of(pipeline, batch).values()
        results = {name: tensor.numpy() for name, tensor in forced(sources, other).items()}
        for i in range(len(batch)):
            row = {name: values[i] for name, values in results.items()}
            looked = [token.decode() for token in row["source_tokens"] if token]
            tokens = [token.decode() for token in row["target_tokens"] if token]
            weights = row["alignments"][: len(tokens), : len(looked)]
            yield Forced(float(row["log_prob"]), looked, tokens, weights)
