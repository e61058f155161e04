import numpy as np

from zoo.commands.console import (
    Path,
    SavedModelPath,
    all_lines,
    batches,
    print_json,
    same_length,
)


def score(saved_model: SavedModelPath, /, *, source: Path, target: Path, json: bool = False):
    """Prints the log-probability of given answers, and which source token each token looked at.

    A line is the log-probability, the target, and pairs of source and target positions from 0; all
    weights are in the JSON.

    Args:
        saved_model: saved_models/NAME, or a version's folder.
        source: File of texts, a line each; .gz is read too.
        target: File of answers to them, one on each line.
        json: Prints a line of JSON for each pair, with the weights.
    """
    import tensorflow as tf

    from zoo.serving import load

    pipeline = load(saved_model)
    text = tf.TensorSpec((None,), tf.string)
    forced = tf.function(pipeline.teacher_forced, [text, text], autograph=False)
    lines = all_lines(source)
    targets = same_length(source, lines, target)
    several = next((i for i, line in enumerate(targets, 1) if "\t" in line), None)
    if several:
        raise ValueError(
            f"{target} must have one answer on each line. Received: several between tabs on line "
            f"{several}; `cut -f1` takes the first"
        )
    for batch, other in zip(batches(lines), batches(targets), strict=True):
        results = {name: tensor.numpy() for name, tensor in forced(batch, other).items()}
        for i, line in enumerate(batch):
            row = {name: values[i] for name, values in results.items()}
            sources = [token.decode() for token in row["source_tokens"] if token]
            tokens = [token.decode() for token in row["target_tokens"] if token]
            weights = row["alignments"][: len(tokens), : len(sources)]
            about = {"log_prob": float(row["log_prob"]), "target": other[i]}
            if json:
                about = {"text": line, **about, "source_tokens": sources}
                rounded = np.round(weights.astype("float64"), 4).tolist()
                print_json({**about, "target_tokens": tokens, "alignments": rounded})
            else:
                looked = [f"{w.argmax()}-{j}" for j, w in enumerate(weights) if w.size]
                print(f"{about['log_prob']:.4f}\t{about['target']}\t{' '.join(looked)}")
