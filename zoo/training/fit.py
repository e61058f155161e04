import contextlib
import dataclasses
import signal
import time

from zoo.evaluation.metrics import LOWER_IS_BETTER, evaluate
from zoo.serving import Pipeline
from zoo.training.progress import Progress, duration
from zoo.training.trainer import Trainer


@dataclasses.dataclass
class State:
    """Where a training stands, beside its variables."""

    epoch: int = 0
    batch: int = 0  # of the epoch, the next one
    seconds: float = 0.0
    loss: float = 0.0  # summed over the epoch so far
    tokens: float = 0.0
    best_epoch: int = 0
    best: dict = dataclasses.field(default_factory=dict)  # the scores of the best epoch


class Interrupted(Exception):
    """The training was asked to stop, and has written down where it stands."""

    def __init__(self, signal_number, path):
        super().__init__(f"Stopped. The same command goes on with {path}")
        self.exit_code = 128 + signal_number


def fit(run, pipeline, batches, dev, metrics):
    """Trains a run's pipeline to its last epoch, from wherever the run stands.

    After each epoch the mean of the last epochs' weights is scored on dev by the pipeline's own
    search, and kept if it is the best so far. Ctrl-C and SIGTERM end the training after the
    current step, with a checkpoint from which the same steps follow as would have without them.

    Arguments:
        run: a `Run`.
        pipeline: what `run.pipeline(...)` gave.
        batches: `Batches`.
        dev: `Examples`.
        metrics: names out of `zoo.evaluation.metrics.METRICS`; the first one decides what is best.

    Returns the scores of the best epoch, {metric: {"score", "signature"}}.
    """
    settings = run.config
    run.begin(pipeline, batches)
    trainer = Trainer(pipeline.model, settings, len(batches) * settings.epochs)
    # What is scored and kept computes in float32, as it will when it is exported.
    averaged = Pipeline.from_config(pipeline.get_config())
    state = State()
    if run.has("state"):
        arrays, values = run.read("state")
        _assign(trainer.variables, arrays)
        state = State(**values)
        run.forget_after(state.epoch)
    progress = Progress(settings.epochs, len(batches))
    _tell_losses(pipeline, batches, progress)
    if (state.epoch or state.batch) and state.epoch < settings.epochs:
        progress.keep(f"going on at epoch {state.epoch + 1}, step {state.batch} of {len(batches)}")

    with _signals() as received:
        while state.epoch < settings.epochs and not _stalled(state, settings.patience):
            _train_epoch(run, trainer, batches, state, progress, received)
            state.epoch, state.batch = state.epoch + 1, 0
            _finish_epoch(run, trainer, averaged, dev, metrics, state, progress)
            if received and state.epoch < settings.epochs:
                raise Interrupted(received[0], run.path)
    listed = ", ".join(f"{name} {value['score']:.2f}" for name, value in state.best.items())
    progress.keep(
        f"best: epoch {state.best_epoch}, {listed}; {duration(state.seconds)} of training"
    )
    return state.best


def _train_epoch(run, trainer, batches, state, progress, received):
    began = saved = time.monotonic()
    seconds, loss, tokens = state.seconds, state.loss, state.tokens
    for batch in batches.epoch(state.epoch, first=state.batch):
        step_loss, step_tokens = trainer.step(batch)
        loss, tokens = loss + step_loss, tokens + step_tokens  # tensors: nothing waits for them
        state.batch += 1
        now = time.monotonic()
        save = now - saved > 60 * run.config.save_minutes
        if save or received or state.batch == len(batches):
            state.loss, state.tokens = float(loss), float(tokens)
            state.seconds = seconds + time.monotonic() - began
        if save or received:
            run.save("state", trainer.variables, **dataclasses.asdict(state))
            saved = now
        if received:
            raise Interrupted(received[0], run.path)
        progress.show(state.epoch, state.batch, loss, tokens)


def _finish_epoch(run, trainer, averaged, dev, metrics, state, progress):
    began = time.monotonic()
    run.save_epoch(state.epoch, trainer.model.weights)
    progress.say(f"epoch {state.epoch}: scoring {len(dev.sources)} dev examples")
    _assign(averaged.model.weights, run.average(state.epoch))
    texts = averaged(dev.sources, batch_size=256)["text"].numpy()
    scores = evaluate([text.decode() for text in texts], dev.targets, metrics)
    is_best = _is_better(scores, state.best, metrics[0])
    if is_best:
        state.best_epoch, state.best = state.epoch, scores
        run.save("best", averaged.model.weights, epoch=state.epoch, scores=scores)
    state.seconds += time.monotonic() - began
    values = {
        "epoch": state.epoch,
        "step": int(trainer.optimizer.iterations),
        "loss": state.loss / max(state.tokens, 1.0),
        "learning_rate": trainer.learning_rate,
        "seconds": round(state.seconds, 1),
        **{name: value["score"] for name, value in scores.items()},
    }
    run.log(values)
    listed = "  ".join(f"{name} {value['score']:.2f}" for name, value in scores.items())
    left = state.seconds / state.epoch * (run.config.epochs - state.epoch)
    progress.keep(
        f"epoch {state.epoch}/{run.config.epochs}  loss {values['loss']:.4f}  {listed}"
        f"{' *' if is_best else '  '}  {duration(state.seconds)}, {duration(left)} left"
    )
    state.loss = state.tokens = 0.0
    run.save("state", trainer.variables, **dataclasses.asdict(state))


def _tell_losses(pipeline, batches, progress):
    """What of the data is not learnt from."""
    if batches.too_long:
        progress.keep(
            f"{batches.too_long} of {len(batches.sources)} examples are longer than "
            "--max-length and left out"
        )
    unknown = sum(ids.count(pipeline.target_tokenizer.unknown_id) for ids in batches.targets)
    if unknown:
        progress.keep(f"{unknown} symbols of the targets are unknown to the model's tokenizer")


def _is_better(scores, best, metric):
    if not best:
        return True
    sign = -1 if metric in LOWER_IS_BETTER else 1
    return sign * scores[metric]["score"] > sign * best[metric]["score"]


def _stalled(state, patience):
    return bool(patience) and state.epoch - state.best_epoch >= patience


def _assign(variables, arrays):
    for variable, array in zip(variables, arrays, strict=True):
        variable.assign(array)


@contextlib.contextmanager
def _signals():
    """Collects Ctrl-C and SIGTERM, so that a step is finished first; a second one stops at once."""
    received = []

    def receive(number, frame):
        if received:
            raise KeyboardInterrupt
        received.append(number)

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, receive) for number in numbers]
    try:
        yield received
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
