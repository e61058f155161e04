import base64
import dataclasses
import fcntl
import hashlib
import inspect
import json
import pathlib
import platform
import shlex
import sys
import time

import keras
import tensorflow as tf

import zoo
from zoo.serving import load
from zoo.serving.pipelines import deserialize
from zoo.serving.saved_model import identity, read_json
from zoo.serving.saved_model import read_about as read_saved_model
from zoo.training.checkpoints import Checkpoints, write
from zoo.training.devices import cores, current
from zoo.training.settings import Settings

# Options that a run can go on with in another way than it began.
MAY_CHANGE = ("output", "epochs", "patience", "save_minutes", "keep", "strategy", "data_service")

# Seconds for which a file system may keep from a machine what another has written.
UNSEEN_FOR = 60


class Run:
    """The folder of a training: all that it takes to go on with it or to export it.

        run.json         recipe, config, command, machine
        pipeline.json    model, tokenizers and search, without weights
        dev.json         the examples that are scored
        metrics.jsonl    a line for each epoch
        tensorboard/     the same as curves
        checkpoints/     see `Checkpoints`

    Of several workers, which all see the folder, the chief writes and the others read.

    Arguments:
        config: the recipe's config, a `Settings`. Where its folder holds a run, that must have been
            started with the same config.
        recipe: the recipe's file, or its name.
        data: dict of `Examples` by the name of their split, the training's first, for the card.
    """

    def __init__(self, config, recipe, data):
        config.validate()
        self.devices = current()
        self.path = pathlib.Path(config.output)
        self.checkpoints = Checkpoints(self.path, config.keep, config.average)
        self.recipe = pathlib.Path(recipe).stem
        self.data = data
        self.resumes = (self.path / "run.json").exists()
        self.starts = not self.checkpoints.states()
        self.config = with_model_of(config) if self.starts else config
        if self.resumes:
            self._require_same()
        elif self.is_chief and self._is_in_use():
            raise FileExistsError(
                f"{self.path} is not empty and holds no run (no run.json). Choose another --output"
            )
        keras.utils.set_random_seed(config.seed)
        if config.deterministic:
            tf.config.experimental.enable_op_determinism()

    @property
    def is_chief(self):
        return self.devices.is_chief

    def _is_in_use(self):
        return self.path.exists() and any(file.name != "lock" for file in self.path.iterdir())

    def _require_same(self):
        about = read_about(self.path)
        before = {"recipe": about["recipe"], **about["config"]}
        for name, now in {"recipe": self.recipe, **dataclasses.asdict(self.config)}.items():
            if name not in MAY_CHANGE and before.get(name, now) != now:
                raise ValueError(
                    f"{self.path} holds a run with {name}={before.get(name)}. Received: "
                    f"{name}={now}. Choose another --output, or leave the option out to go on"
                )

    def pipeline(self, make):
        """The run's pipeline: the one that it began with, that of `init_from`, or `make()`."""
        policy = {
            "none": "float32",
            "bfloat16": "mixed_bfloat16",
            "float16": "mixed_float16",
        }[self.config.mixed_precision]
        with self.devices.strategy.scope():
            if not self.starts:
                return deserialize(read_json(self.path / "pipeline.json"), policy)
            if self.config.init_from:
                pipeline = load(self.config.init_from).with_search(**self.config.search)
            else:
                pipeline = make()
            if policy == "float32":
                return pipeline
            weights = pipeline.model.get_weights()
            pipeline = deserialize(pipeline.get_config(), policy)
            pipeline.model.set_weights(weights)
            return pipeline

    def begin(self, pipeline, batches):
        """Writes down what is trained on what, or makes sure that it is still the same data.

        Nothing is written before: a mistake in an option leaves no run behind.
        """
        shared = (batches.fingerprint, pipeline.get_config(), dataclasses.asdict(self.config))
        self.devices.require_same(_digest(shared), "data, options and tokenizers")
        if self.is_chief:
            self._begin(pipeline, batches)
        if self.devices.workers > 1:
            self._require_shared(batches.fingerprint)

    def _begin(self, pipeline, batches):
        """What the chief has to do of it."""
        self.path.mkdir(parents=True, exist_ok=True)
        self.lock = _lock(self.path)
        if self.checkpoints.states():
            before = read_about(self.path).get("fingerprint")
            if before not in (None, batches.fingerprint):
                raise ValueError(
                    f"{self.path} was begun with other data or another vocabulary: "
                    f"{self.config.data} or pipeline.json has changed. Choose another --output"
                )
            self._note_config()
            return
        left_out = f", {batches.too_long} left out as too long" if batches.too_long else ""
        if batches.cut:
            left_out += f", {batches.cut} sources cut to their first {batches.max_length} tokens"
        train, *others = self.data.items()
        about = {
            "recipe": self.recipe,
            "task": type(self.config).__doc__.splitlines()[0],
            "config": dataclasses.asdict(self.config),
            "data": {
                "name": self.config.data,
                train[0]: f"{train[1].report}{left_out}",
                **{split: str(examples.report) for split, examples in others},
                "licence": train[1].licence,
            },
            "fingerprint": batches.fingerprint,
            "examples": next(reversed(self.data.values())).sources[:8],
            "command": shlex.join([pathlib.Path(sys.argv[0]).name, *sys.argv[1:]]),
            **self._went_on_from(),
            "zoo": zoo.__version__,
            "tensorflow": tf.__version__,
            "machine": machine(),
        }
        write(self.path / "run.json", _json(about))
        write(self.path / "pipeline.json", _json(pipeline.get_config()))
        dev = next(reversed(self.data.values()))
        write(self.path / "dev.json", _json({"sources": dev.sources, "targets": dev.targets}))
        self.checkpoints.path.mkdir(exist_ok=True)

    def _went_on_from(self):
        """The version that `init_from` means now: later it may mean another."""
        if not self.config.init_from:
            return {}
        _, name, _ = identity(self.config.init_from)
        return {"went_on_from": name}

    def _require_shared(self, fingerprint):
        """Raises an error on every worker unless all see the folder that the chief writes to."""
        self.devices.sum(0)  # from here on it is written
        deadline = time.monotonic() + UNSEEN_FOR
        while not (sees := self._sees(fingerprint)) and time.monotonic() < deadline:
            time.sleep(0.2)
        blind = self.devices.sum(not sees)
        if blind:
            raise ValueError(
                "All workers must see the folder that the first one writes to. Received: "
                f"{self.path} is another folder, or none, on {blind:.0f} of them. "
                "Give --output a folder that the machines share"
            )

    def _sees(self, fingerprint):
        try:
            return read_about(self.path).get("fingerprint") in (None, fingerprint)
        except (OSError, ValueError):
            return False

    def _note_config(self):
        """Writes down options that have changed."""
        about, config = read_about(self.path), dataclasses.asdict(self.config)
        if about["config"] != config:
            write(self.path / "run.json", _json({**about, "config": config}))

    def forget_after(self, epoch):
        """Takes back the lines of metrics.jsonl that a killed run wrote after its checkpoint."""
        if not self.is_chief:
            return
        file = self.path / "metrics.jsonl"
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True) if file.exists() else []
        kept = [
            line for line in lines if line.endswith("\n") and json.loads(line)["epoch"] <= epoch
        ]
        write(file, "".join(kept).encode())

    def log(self, values):
        """Appends a line to metrics.jsonl and a point to each curve of TensorBoard."""
        with open(self.path / "metrics.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps({**values, "time": round(time.time())}) + "\n")
        writer = tf.summary.create_file_writer(str(self.path / "tensorboard"))
        with writer.as_default(step=values["step"]):
            for name, value in values.items():
                tf.summary.scalar(name, value)
        writer.close()


def read_about(path):
    """What run.json says of the run in a folder."""
    file = pathlib.Path(path) / "run.json"
    if not file.exists():
        raise FileNotFoundError(f"{path} holds no run: there is no {file}. `zoo train` makes one")
    return read_json(file, recipe=str, config=dict, data=dict)


def with_model_of(config, parse=None):
    """The config with the model and the search of its `init_from`, as far as it leaves them out.

    What it leaves out is what has the recipe's default; or, for sure, what the command line does
    not say, which `parse` reads again with another config for the rest.
    """
    if not config.init_from or config.is_complete:
        return config
    model, search = _of_saved_model(config)
    if parse:
        default = type(config)(output=config.output, init_from=config.init_from)
        config = parse(dataclasses.replace(default, **model, **search))
    else:
        defaults = {field.name: field.default for field in dataclasses.fields(config)}
        theirs = {**model, **search}.items()
        theirs = {name: value for name, value in theirs if getattr(config, name) == defaults[name]}
        config = dataclasses.replace(config, **theirs)
    for name, before in model.items():
        now = getattr(config, name)
        if now != before:
            raise ValueError(
                f"`{name}` is {before} in {config.init_from}, whose model is trained on. "
                f"Received: {name}={now}. Leave the option out"
            )
    config.is_complete = True
    return config


def _of_saved_model(config):
    """What `init_from` says of the options of its model, and of those of its search: two dicts."""
    about = read_saved_model(config.init_from)
    before, search = about.get("config", {}), about.get("pipeline", {}).get("search", {})
    ours = [cls for cls in type(config).__mro__ if cls.__module__ == Settings.__module__]
    free = {field.name for cls in ours for field in dataclasses.fields(cls)}
    free |= {"data", *config.of_training, *config.search}
    model = [field for field in dataclasses.fields(config) if field.name not in free]
    model = {field.name: before.get(field.name, field.default) for field in model}
    search = {name: search[name] for name in config.search if name in search}
    if search.get("num_results") == search.get("beam_width"):
        search.pop("num_results", None)  # as many as the beam, whatever that is
    return model, search


def stored_config(cls, path):
    """The config of the run in a folder, or None where it has options that are no more."""
    if not (pathlib.Path(path) / "run.json").exists():
        return None
    about, recipe = read_about(path), pathlib.Path(inspect.getfile(cls)).stem
    if about["recipe"] != recipe:
        raise ValueError(
            f"{path} holds a run of the recipe {about['recipe']}. Received: {recipe}. Choose "
            "another --output"
        )
    config = about["config"]
    names = {field.name for field in dataclasses.fields(cls)}
    return cls(**{**config, "output": path}) if set(config) <= names else None


def _lock(path):
    """Holds a run's folder until the process ends, or says that another does."""
    file = open(path / "lock", "a")  # noqa: SIM115  closed by the end of the process
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ValueError(f"{path} is being trained by another process") from error
    return file


def machine():
    """The machine in a few words."""
    name = platform.processor() or platform.machine()
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        name = names[0].split(":", 1)[1].strip() if names else name
    gpus = len(tf.config.list_physical_devices("GPU"))
    cpus = f"{cores()} core{'s' if cores() > 1 else ''} of {name}"
    return cpus + (f", {gpus} GPUs" if gpus else ", no GPU")


def _digest(data):
    """A number below 2**50 that tells data apart."""
    text = json.dumps(data, sort_keys=True, default=str).encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:6], "big")


def _json(data):
    text = json.dumps(data, ensure_ascii=False, indent=1, default=_b64)
    return (text + "\n").encode("utf-8")


def _b64(data):
    """What `read_json` makes bytes of again."""
    return {"b64": base64.b64encode(data).decode("ascii")}
