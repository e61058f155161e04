"""Inflection: a word as the dictionary has it and what is wanted of it, the inflected word.

    git clone https://github.com/ryancotterell/sigmorphon2016
    zoo train inflect --data sigmorphon2016 --language finnish --output runs/inflect_fi
    zoo export runs/inflect_fi --output saved_models/inflect_fi
    zoo predict saved_models/inflect_fi "talo pos=N,case=IN+ESS,num=PL"

The lemma comes first, as it is written, then a space and the features as the data has them. The
lemma's characters and the features, a symbol each, are one source. An LSTM reads it in both
directions; another writes the form character by character and looks back at characters and
features (Luong et al. 2015). With attention recurrent networks won SIGMORPHON's task of 2016 (Kann
& Schütze 2016): an ensemble had 95.56 % of the test's forms right, on average over ten languages.

A dev line that is a train line too says little. In Finnish those are 20 of 1,598, in German 74 of
1,597, but in Navajo 1,196 of 1,452: the accuracy on all others is told when the training is over.
"""

import dataclasses
import sys
from typing import Literal

from zoo.cli import main
from zoo.data import load_inflections
from zoo.evaluation.metrics import evaluate
from zoo.models.kinds import recurrent, transformer
from zoo.serving import Pipeline
from zoo.text import CharacterTokenizer, InflectionTokenizer
from zoo.training.export_run import best_pipeline
from zoo.training.learn import learn
from zoo.training.settings import SearchSettings

METRICS = ("accuracy", "edit_distance")


@dataclasses.dataclass(kw_only=True)
class Config(SearchSettings):
    """Inflection: a lemma and its features such as pos=N,num=PL, the inflected form."""

    data: str = "sigmorphon2016"
    """The task's repository, or a folder with LANGUAGE-train.tsv and LANGUAGE-dev.tsv: a lemma, a
    tab, features between commas, a tab, the form."""
    language: str | None = None
    """How the names of its files begin; without it they are train.tsv and dev.tsv."""
    model: Literal["recurrent", "transformer"] = "recurrent"
    """What the encoder and the decoder are made of."""
    units: int = 256
    """Of each layer; of an LSTM layer that reads in both directions, in each."""
    layers: int = 1
    """Layers, in the encoder as in the decoder."""
    dropout: float = 0.3
    """Of embeddings, of what each layer hands on, and of a Transformer's attention."""

    # There are few examples, which are seen often, in many small steps.
    epochs: int = 60
    batch_tokens: int = 1024
    learning_rate: float = 2e-3
    warmup_steps: int = 200
    max_length: int = 64
    of_training = ("language",)

    def validate(self):
        super().validate()
        self.require("units", self.units > 0 and self.units % 4 == 0, "a multiple of 4")


def train(config):
    # Lemmas with features, and for each its form.
    words = load_inflections(config.data, "train", config.language)
    dev = load_inflections(config.data, "validation", config.language)
    print(f"train: {words.report}\ndev: {dev.report}")
    scores = learn(config, __file__, words, dev, build, METRICS)
    known = set(words.sources)
    new = [i for i, source in enumerate(dev.sources) if source not in known]
    if 0 < len(new) < len(dev.sources):
        tell_new(best_pipeline(config.output), dev, new)
    return scores


def build(config, words, forms):
    """Text in, text out: the model between lemmas with features and forms."""
    reads = InflectionTokenizer.train(words)
    writes = CharacterTokenizer.train(forms)
    sizes = {"units": config.units, "layers": config.layers, "dropout": config.dropout}
    if config.model == "recurrent":
        # The last things that were read are the features: the decoder knows them as it starts.
        sizes["initial_state"] = "bridge"
    make = {"transformer": transformer, "recurrent": recurrent}[config.model]
    model = make(reads.vocabulary_size, writes.vocabulary_size, **sizes)
    search = config.search | {"max_length": 2 * config.max_length}
    limits = {"max_source_length": 2 * config.max_length, "length_ratio": 2.0}
    return Pipeline(model, reads, writes, search, **limits)


def tell_new(pipeline, dev, new):
    """Prints how good the model is on the dev lines whose lemma and features are new to it."""
    answers = [text.decode() for text in pipeline([dev.sources[i] for i in new])["text"].numpy()]
    scores = evaluate(answers, [dev.targets[i] for i in new], METRICS)
    listed = ", ".join(f"{name} {value['score']:.2f}" for name, value in scores.items())
    print(f"on the {len(new)} dev lines that are not in train: {listed}")


if __name__ == "__main__":
    main(recipe=sys.modules[__name__])
