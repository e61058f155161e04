import pathlib

from zoo.serving import Pipeline, export
from zoo.serving.saved_model import read_json
from zoo.training.progress import duration
from zoo.training.run import read_about, read_checkpoint


def export_run(run, output):
    """Writes the best model of a run's folder as the next version of a SavedModel.

    Arguments:
        run: path of the run.
        output: path, saved_models/NAME.

    Returns the folder of the version.
    """
    run = pathlib.Path(run)
    about = read_about(run)
    if not (run / "checkpoints" / "best.npz").exists():
        raise FileNotFoundError(f"{run} has no scored model yet: train it for an epoch at least")
    pipeline = Pipeline.from_config(read_json(run / "pipeline.json"))
    weights, state = read_checkpoint(run, "best")
    for variable, array in zip(pipeline.model.weights, weights, strict=True):
        variable.assign(array)
    _, reached = read_checkpoint(run, "state")
    described = {
        "task": about["task"],
        "recipe": about["recipe"],
        "config": about["config"],
        "scores": state["scores"],
        "data": about["data"],
        "training": {
            "command": about["command"],
            "seed": about["config"]["seed"],
            "parameters": pipeline.model.count_params(),
            "best_epoch": f"{state['epoch']} of {reached['epoch']}",
            "time": f"{duration(reached['seconds'])} for all epochs, scoring included",
            "machine": about["machine"],
            "tensorflow": about["tensorflow"],
        },
    }
    return export(pipeline, output, described, about["examples"])
