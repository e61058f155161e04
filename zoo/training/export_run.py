import itertools
import pathlib
import re

import tensorflow as tf

from zoo.layers import Ensemble, EnsembleEncoder
from zoo.models import LanguageModel, Seq2Seq
from zoo.serving import export
from zoo.serving.pipelines import deserialize
from zoo.serving.saved_model import ABOUT, load, read_json, versions
from zoo.serving.saved_model import read_about as read_saved_model
from zoo.training.checkpoints import Checkpoints
from zoo.training.progress import duration
from zoo.training.run import read_about


def export_runs(runs, output, search=None, float16=False, licence=None, report=lambda text: None):
    """Writes the best model of a run's folder as the next version of a SavedModel.

    The models of several runs become one, an ensemble, which takes the mean of their probabilities;
    members behind the first may be SavedModels. What no training has scored (an ensemble, another
    search, rounded weights) is scored here on the dev examples of the first run.

    Arguments:
        runs: paths of a run and of more runs or SavedModels, all with the same tokenizers.
        output: path, saved_models/NAME.
        search: dict of arguments of `BeamSearchDecoder` in place of the first run's.
        float16: bool, whether weights take half the space on disk; see `zoo.serving.export`.
        licence: str, the data's, in place of what the data of the first run says.
        report: a function that is told what is going on.

    Returns the folder of the version.
    """
    runs = [pathlib.Path(run) for run in runs]
    about = read_about(runs[0])
    pipelines, trainings = zip(*map(_member, runs), strict=True)
    trainings = list(itertools.chain(*trainings))
    pipeline = pipelines[0] if len(runs) == 1 else _ensemble(runs, pipelines)
    scores = Checkpoints(runs[0]).read("best")[1]["scores"]
    if search:
        pipeline = pipeline.with_search(**search)
    if float16:
        _round(pipeline.model)
    if search or float16 or len(runs) > 1:
        dev = read_json(runs[0] / "dev.json")
        report(f"scoring {len(dev['sources'])} dev examples")
        scores = pipeline.scores(dev["sources"], dev["targets"], list(scores))
    config = {name: without_folders(value) for name, value in about["config"].items()}
    data = about["data"] | {"name": without_folders(about["data"]["name"])}
    described = {
        "task": about["task"],
        "recipe": about["recipe"],
        "config": config,
        "scores": scores,
        "data": data | ({"licence": licence} if licence else {}),
        "training": trainings[0] if len(trainings) == 1 else {"members": trainings},
    }
    return export(pipeline, output, described, about["examples"], float16)


def without_folders(value):
    """Text in which a path to elsewhere is its last part, as a card is for all; or no text."""
    elsewhere = r"(?<![\w./~-])(?:/(?!/)(?:[^\s/:]+/+)+|\.\./(?:[^\s/:]+/+)*)(?=[^\s/])"
    return re.sub(elsewhere, "", value) if isinstance(value, str) else value


def best_pipeline(run):
    """The pipeline of a run's folder, with the weights that had the best score."""
    run = pathlib.Path(run)
    read_about(run)  # says so where there is no run
    if not (run / "checkpoints" / "best.npz").exists():
        raise FileNotFoundError(f"{run} has no scored model yet: train it for an epoch at least")
    pipeline = deserialize(read_json(run / "pipeline.json"))
    weights, _ = Checkpoints(run).read("best")
    for variable, array in zip(pipeline.model.weights, weights, strict=True):
        variable.assign(array)
    return pipeline


def _round(model):
    """What the weights are once float16 has held them."""
    for variable in model.weights:
        if variable.dtype == "float32":
            variable.assign(tf.cast(tf.cast(variable.value, tf.float16), tf.float32))


def _ensemble(runs, pipelines):
    def reading(pipeline):
        return getattr(pipeline, "window", None)

    first = pipelines[0]
    for run, pipeline in zip(runs, pipelines, strict=True):
        for name in ("source_tokenizer", "target_tokenizer"):
            if getattr(pipeline, name).serialize() != getattr(first, name).serialize():
                raise ValueError(
                    "The runs of an ensemble must have the same tokenizers: the same data and "
                    f"vocabulary. Received: {runs[0]} and {run} with different ones, {name}"
                )
        if type(pipeline) is not type(first) or reading(pipeline) != reading(first):
            raise ValueError(
                "The runs of an ensemble must read alike: all as Transformers with one window, or "
                f"none of them. Received: {runs[0]} and {run}, which read otherwise"
            )
        if isinstance(first.model, LanguageModel):
            continue
        if pipeline.model.share_embeddings != first.model.share_embeddings:
            raise ValueError(
                "The runs of an ensemble must all share the embeddings of source and target, or "
                f"none of them. Received: {runs[0]} and {run}, of which one does"
            )
    models = [pipeline.model for pipeline in pipelines]
    decoder = Ensemble([model.decoder for model in models])
    if isinstance(first.model, LanguageModel):
        return first.with_model(LanguageModel(decoder))
    model = Seq2Seq(
        EnsembleEncoder([model.encoder for model in models]),
        decoder,
        share_embeddings=first.model.share_embeddings,
    )
    return first.with_model(model)


def _member(path):
    """The pipeline of a run or of a SavedModel, and what the card says of each training in it."""
    if (path / ABOUT).exists() or versions(path):
        training = read_saved_model(path).get("training", {})
        return load(path), training.get("members", [training])
    pipeline = best_pipeline(path)
    about = read_about(path)
    checkpoints = Checkpoints(path)
    (_, best), (_, reached) = checkpoints.read("best"), checkpoints.read_state()
    training = {
        "command": without_folders(about["command"]),
        **({"went_on_from": about["went_on_from"]} if "went_on_from" in about else {}),
        "seed": about["config"]["seed"],
        "parameters": pipeline.model.count_params(),
        "best_epoch": f"{best['epoch']} of {reached['epoch']}",
        "time": f"{duration(reached['seconds'])} for all epochs, scoring included",
        "machine": about["machine"],
        "tensorflow": about["tensorflow"],
    }
    return pipeline, [training]
