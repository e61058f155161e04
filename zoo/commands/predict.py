import sys
from typing import Annotated

import tyro

from zoo.commands.console import SavedModelPath, batches, open_model, print_json, standard_input
from zoo.errors import UsageError


def predict(
    saved_model: SavedModelPath,
    text: Annotated[tuple[str, ...], tyro.conf.Positional] = (),
    /,
    *,
    n_best: int = 1,
    json: bool = False,
):
    """Prints the answer to each text, line by line.

    Args:
        saved_model: saved_models/NAME, or a version's folder.
        text: Texts; without any, the lines of the standard input.
        n_best: Answers to each, best first, in columns: the text, the score, the answer.
        json: Prints a line of JSON for each text.
    """
    from zoo.layers.hypotheses import NONE
    from zoo.serving.pipeline import to_bytes

    model = open_model(saved_model)
    most = model.num_results
    if not 1 <= n_best <= most:
        raise UsageError(
            f"`--n-best` must be 1 to {most}, as many as {model.path} was exported with. "
            f"Received: {n_best}"
        )
    # Who types wants an answer to each line.
    size = 1 if not text and sys.stdin.isatty() else 64
    for lines in batches(text or standard_input(), size):
        result = model("serving_default", text=lines)
        lines = [line.decode("utf-8", "replace") for line in to_bytes(lines)]
        for line, texts, scores in zip(lines, result["texts"], result["scores"], strict=True):
            answers = [(t.decode(), float(s)) for t, s in zip(texts, scores, strict=True)][:n_best]
            answers = [answer for answer in answers if answer[1] > NONE]  # not the empty places
            if json:
                texts, scores = zip(*answers, strict=True)
                about = {"input": line, "text": texts[0], "score": scores[0]}
                print_json({**about, "texts": texts, "scores": scores})
            elif n_best == 1:
                print(answers[0][0], flush=True)
            else:
                for answer, score in answers:
                    print(f"{line}\t{score:.4f}\t{answer}", flush=True)
