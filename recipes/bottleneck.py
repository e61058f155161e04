"""The bottleneck: what becomes of long sentences without attention, and with it.

    zoo train bottleneck --data multi30k --source en --target de --output runs/bottleneck \\
        --plot docs/bottleneck.png

A translator without attention must put a whole sentence into one vector. Bahdanau, Cho & Bengio
(2015, figure 2) showed that its BLEU falls the more there is to put in, and that of a model which
looks back at the source does not. This is their experiment on captions of Multi30k. Those are short
(8 of 1,000 exceed 25 words), so one to five are joined here to a text of up to 60 words, to train
on and in dev. Two models of recipes/translate.py learn them; a table and a picture tell their BLEU.
"""

import dataclasses
import random
import sys

import numpy as np

from recipes import translate
from zoo.cli import main
from zoo.data import Examples, Report, load_examples
from zoo.evaluation.metrics import evaluate
from zoo.training.export_run import best_pipeline
from zoo.training.learn import learn
from zoo.training.settings import Settings

MODELS = {"seq2seq": "without attention", "bahdanau": "with attention"}
LONGEST = 60  # words of a source
BUCKETS = [(low + 1, low + 10) for low in range(0, LONGEST, 10)]  # words, from and to


@dataclasses.dataclass(kw_only=True)
class Config(Settings):
    """The bottleneck: BLEU by length of the source, without attention and with it."""

    data: str = "multi30k"
    """As `zoo train translate` takes it."""
    source: str | None = None
    """Language to translate from."""
    target: str | None = None
    """Language to translate into."""
    units: int = 256
    """Of the encoder and of the decoder."""
    dropout: float = 0.2
    """Of embeddings and of what layers hand on."""
    recurrent_dropout: float = 0.0
    """Of recurrent states."""
    vocabulary_size: int = 4000
    """Pieces of words, of both languages together."""
    beam_width: int = 3
    """Hypotheses of the search."""
    joins: int = 4
    """Times that each caption is joined to others, which makes as many times the data."""
    plot: str | None = None
    """Picture to write, .png, .svg or .pdf."""

    epochs: int = 4
    batch_tokens: int = 2048
    learning_rate: float = 2e-3
    max_length: int = 120
    average: int = 1

    def validate(self):
        super().validate()
        self.require("joins", self.joins >= 1, "at least 1")
        is_picture = (self.plot or ".png").endswith((".png", ".svg", ".pdf"))
        self.require("plot", is_picture, "a .png, .svg or .pdf")


def train(config):
    # 1. The data: captions, joined.
    texts, dev = (
        join(load_examples(config.data, split, config.source, config.target), config.joins)
        for split in ("train", "validation")
    )
    print(f"joined: {texts.report} to train on, {dev.report} of dev")

    # 2. Two models learn the same, one after the other. A run that is there goes on, or is done.
    runs = {}
    for model, about in MODELS.items():
        print(f"{model}, {about}")
        runs[model] = f"{config.output}/{model}"
        own = {**dataclasses.asdict(config), "output": runs[model], "model": model}
        del own["joins"], own["plot"]
        own = translate.Config(**own, num_results=1)
        learn(own, translate.__file__, texts, dev, translate.build, translate.METRICS)

    # 3. What each answers, and how good that is by the length of the source.
    lengths = np.array([len(source.split()) for source in dev.sources])
    rows = [np.flatnonzero((lengths >= low) & (lengths <= high)) for low, high in BUCKETS]
    curves = {model: bleu_of(best_pipeline(run), dev, rows) for model, run in runs.items()}
    print(table(rows, curves))
    if config.plot:
        plot([lengths[some].mean() for some in rows if some.size], curves, config.plot)
    return curves


def join(captions, times):
    """Texts of one to five captions, as many as 60 words allow; a caption is in so many texts."""
    rng = random.Random(0)  # dev is the same whatever the seed
    pairs, joined = list(zip(*captions.pairs(), strict=True)), []
    for _ in range(times):
        rest = rng.sample(pairs, len(pairs))
        while rest:
            group = [rest.pop() for _ in range(min(rng.randint(1, 5), len(rest)))]
            while len(group) > 1 and sum(len(source.split()) for source, _ in group) > LONGEST:
                rest.append(group.pop())  # for the next text
            sources, targets = zip(*group, strict=True)
            joined.append((" ".join(sources), [" ".join(targets)]))
    sources, targets = map(list, zip(*joined, strict=True))
    return Examples(sources, targets, Report(examples=len(joined)), captions.licence)


def bleu_of(pipeline, dev, rows):
    """BLEU of a model on each bucket that has any rows."""
    answers = [text.decode() for text in pipeline(dev.sources)["text"].numpy()]
    return [
        evaluate([answers[i] for i in some], [dev.targets[i] for i in some], ["bleu"])["bleu"]
        for some in rows
        if some.size
    ]


def table(rows, curves):
    lines = ["words of the source   texts" + "".join(f"{model:>11}" for model in curves)]
    scores = zip(*curves.values(), strict=True)
    for (low, high), some in zip(BUCKETS, rows, strict=True):
        if some.size:
            cells = "".join(f"{value['score']:>11.1f}" for value in next(scores))
            lines.append(f"{f'{low} to {high}':>19}{some.size:>8}{cells}")
    return "\n".join([*lines, f"BLEU on dev, {next(iter(curves.values()))[0]['signature']}"])


def plot(lengths, curves, path):
    from matplotlib.figure import Figure  # slow to import, and every `zoo train` loads all recipes

    axes = Figure(figsize=(5.5, 3.4), layout="constrained").add_subplot()
    for model, color in zip(curves, ("tab:orange", "tab:blue"), strict=True):
        scores = [value["score"] for value in curves[model]]
        axes.plot(lengths, scores, marker="o", markersize=4, color=color, label=MODELS[model])
    axes.set(xlabel="words of the source", ylabel="BLEU", xlim=(0, LONGEST), ylim=(0, None))
    axes.grid(color="0.9", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    axes.figure.savefig(path, dpi=200)


if __name__ == "__main__":
    main(recipe=sys.modules[__name__])
