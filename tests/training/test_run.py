import json

import pytest
import tyro

from recipes import caption, summarize, translate
from zoo.training.run import with_model_of


@pytest.fixture
def saved(tmp_path):
    """A function of a model's config that gives its SavedModel: as much of it as is asked for."""

    def write(search=None, **config):
        (tmp_path / "saved/1").mkdir(parents=True)
        about = {"config": config, "pipeline": {"search": search or {}}}
        (tmp_path / "saved/1/zoo.json").write_text(json.dumps(about))
        return str(tmp_path / "saved")

    return write


def test_a_recipe_begins_with_what_the_model_that_it_goes_on_with_is(saved):
    path = saved(backbone="VGG16", pieces=8000, size=None, epochs=3, units=64)
    config = with_model_of(caption.Config(output="runs/x", init_from=path, epochs=5))
    assert (config.side, config.pieces, config.units, config.epochs) == (224, 8000, 64, 5)
    assert with_model_of(config) == config


@pytest.mark.parametrize(
    ("recipe", "before", "now"),
    [
        # See et al. 2017 add the loss of coverage to a model that is trained already.
        (summarize, {"coverage_weight": 0.0}, {"coverage_weight": 1.0}),
        (translate, {"subword_sampling": 0.2}, {"subword_sampling": 0.0}),
        # A model of both directions goes on with one of them.
        (translate, {"source": "en", "target": "de"}, {"source": "de", "target": "en"}),
    ],
)
def test_how_it_is_trained_may_change(saved, recipe, before, now):
    config = recipe.Config(output="runs/x", init_from=saved(**before), **now)
    assert with_model_of(config) == config


# What a model was exported with counts, not what it was trained with.
SEARCH = {"beam_width": 4, "num_results": 4, "max_length": 20, "length_penalty": 1.4}


@pytest.mark.parametrize(
    ("options", "search"),
    [
        ("", (4, 4, 1.4)),
        ("--length-penalty 1.0", (4, 4, 1.0)),  # the recipe's default
        ("--beam-width 2", (2, 2, 1.4)),
        ("--beam-width 5 --num-results 1", (5, 1, 1.4)),
    ],
)
def test_it_is_searched_as_the_model_is_or_as_is_said(saved, options, search):
    path = saved(search=SEARCH, units=64, length_penalty=1.0)
    options = ["--output", "runs/x", "--init-from", path, *options.split()]

    def parse(default=None):
        return tyro.cli(translate.Config, args=options, default=default)

    config = with_model_of(parse(), parse)
    assert config.units == 64
    assert tuple(config.search.values()) == search
    assert with_model_of(config) == config


def test_an_option_that_a_new_model_would_have_is_refused_as_others_are(saved):
    options = ["--output", "runs/x", "--init-from", saved(dropout=0.2), "--dropout", "0.3"]

    def parse(default=None):
        return tyro.cli(translate.Config, args=options, default=default)

    assert parse().dropout == translate.Config(output="runs/x").dropout
    with pytest.raises(ValueError, match="`dropout` is 0.2 in .* Received: dropout=0.3. Leave"):
        with_model_of(parse(), parse)


def test_another_model_is_refused(saved):
    config = translate.Config(output="runs/x", init_from=saved(units=64), units=32)
    with pytest.raises(ValueError, match="`units` is 64 in .* Received: units=32. Leave"):
        with_model_of(config)
