import contextlib
import functools
import json
import os
import re
from typing import Any, NamedTuple

import tensorflow as tf

from zoo.errors import Failure, first_line
from zoo.startup import ctrl_c_ends

# What TensorFlow raises where Slurm's variables, or the GPUs that it finds, are not enough for it.
SLURM_LACKS = (OSError, RuntimeError, ValueError, KeyError)


class Devices(NamedTuple):
    """What a training computes on: the devices of this process, and those of its fellow workers.

    Every worker runs the same program on the same batches, of which each replica takes its rows.
    The first worker, the chief, also scores, writes and talks.
    """

    strategy: Any  # tf.distribute.Strategy
    worker: int = 0
    workers: int = 1

    @property
    def is_chief(self):
        return self.worker == 0

    @property
    def replicas(self):
        """Of all workers together."""
        return self.strategy.num_replicas_in_sync

    def sum(self, value):
        """A number of this worker, added up over all workers; all of them have to ask."""
        if self.workers == 1:
            return float(value)

        share = float(value) / (self.replicas // self.workers)
        return float(_adder(self.strategy)(tf.constant(share, tf.float64)))

    def require_same(self, number, what):
        """Raises an error on every worker unless all have the same number (below 2**50)."""
        mean = self.sum(number) / self.workers
        if self.sum(float(number != mean)):
            raise ValueError(
                f"All {self.workers} workers must have the same {what}. Received: {number} on "
                f"worker {self.worker}, {mean:.12g} on average. Give all of them the same command, "
                "data and folder"
            )

    @contextlib.contextmanager
    def together(self):
        """Within it, a fellow worker that has gone is an error that says so."""
        try:
            yield
        except (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError,
                tf.errors.InternalError, tf.errors.DeadlineExceededError) as error:  # fmt: skip
            if self.workers == 1:
                raise
            raise WorkerLost(self, error) from error


@functools.cache
def _adder(strategy):
    """A function that adds up a number over all replicas of all workers."""

    def add(number):
        context = tf.distribute.get_replica_context()
        return context.all_reduce("sum", tf.identity(number))  # on the replica's own device

    def add_all(number):
        return strategy.experimental_local_results(strategy.run(add, args=(number,)))[0]

    return tf.function(add_all, autograph=False)


class WorkerLost(Failure):
    """A fellow worker has gone; what is trained is in the last checkpoint."""

    def __init__(self, devices, error):
        # TensorFlow says first that a graph was executed, and where; then why it was not.
        reason = first_line(str(error).rpartition("aborted by: ")[2])[:200]
        super().__init__(
            f"Worker {devices.worker} of {devices.workers} has lost the others ({reason}). Start "
            "all workers again: they go on at the last checkpoint"
        )


_started = []


def start(strategy="auto"):
    """Takes the devices for this process's training, before TensorFlow does anything.

    Arguments:
        strategy: "auto" (several machines where TF_CONFIG tells of them, else all GPUs, else the
            CPU), "cpu", "mirrored" (all GPUs of this machine, or all its logical CPUs) or
            "multiworker" (the machines of TF_CONFIG, or of Slurm's job).

    Returns the `Devices`, which `current` gives from now on.
    """
    cluster = cluster_around(os.environ) if strategy in ("auto", "multiworker") else None
    if strategy == "cpu":
        tf.config.set_visible_devices([], "GPU")
    if strategy == "multiworker" and cluster is None:
        raise ValueError(
            "`--strategy multiworker` needs to know the machines: set TF_CONFIG, or start it with "
            "srun. Received: neither TF_CONFIG nor SLURM_STEP_NUM_TASKS in the environment"
        )
    if cluster and (strategy == "multiworker" or len(cluster.addresses) > 1):
        devices = _join(cluster)
    else:
        found = tf.config.list_logical_devices("GPU")
        if strategy == "mirrored":
            found = found or tf.config.list_logical_devices("CPU")
        names = [device.name for device in found]
        several = strategy == "mirrored" or len(names) > 1
        devices = Devices(
            tf.distribute.MirroredStrategy(names) if several else tf.distribute.get_strategy()
        )
    _started[:] = [devices]
    return devices


def current():
    """The devices that `start` took, or those of the `tf.distribute` scope around."""
    return _started[0] if _started else Devices(tf.distribute.get_strategy())


class Cluster(NamedTuple):
    """The machines of a training, and which of them this is."""

    addresses: list  # "host:port" of each worker, the chief first
    worker: int


def cluster_around(environment):
    """The `Cluster` that TF_CONFIG or Slurm's variables tell of; None where neither is there."""
    if environment.get("TF_CONFIG"):
        return _cluster_of_tf_config(environment["TF_CONFIG"])
    # A job's own script has SLURM_PROCID, too; the steps that srun starts have these.
    if "SLURM_STEP_NUM_TASKS" not in environment:
        return None
    try:
        resolver = _slurm_resolver(environment)
        addresses = resolver.cluster_spec().job_tasks("worker")
        return Cluster(addresses, resolver.get_task_info()[1])
    except SLURM_LACKS as error:
        raise ValueError(f"Slurm's variables do not tell the machines: {error!r}") from error


def _slurm_resolver(environment):
    """Tells the tasks' machines, and deals out the GPUs that several tasks of a machine share."""
    make = tf.distribute.cluster_resolver.SlurmClusterResolver
    on_a_machine = re.findall(r"(?:^|,)(\d+)", environment.get("SLURM_STEP_TASKS_PER_NODE", ""))
    are_shared = "SLURM_GPUS_PER_TASK" not in environment  # else Slurm itself has dealt them out
    if are_shared and any(int(tasks) > 1 for tasks in on_a_machine):
        with contextlib.suppress(*SLURM_LACKS):  # no GPUs, or fewer of them than tasks
            resolver = make()
            resolver.cluster_spec()
            return resolver
    # As if there were many, of which each task takes those that it sees.
    return make(gpus_per_node=1024, gpus_per_task=1, auto_set_gpu=False)


def _cluster_of_tf_config(text):
    shape = (
        '{"cluster": {"worker": ["HOST:PORT", ...]}, "task": {"type": "worker", "index": 0}}, '
        'perhaps with a "chief"'
    )
    try:
        config = json.loads(text)
        jobs, task = config["cluster"], config.get("task", {})
        kind, index = task["type"], int(task["index"])
        if not set(jobs) <= {"chief", "worker"}:
            raise ValueError(f"there is {sorted(set(jobs) - {'chief', 'worker'})} in it")
        for address in (address for job in jobs.values() for address in job):
            host, _, port = str(address).rpartition(":")
            if not (host and port.isdecimal()):
                raise ValueError(f"{address!r} is no HOST:PORT")
        before = jobs.get("chief", []) if kind == "worker" else []
        if not 0 <= index < len(jobs[kind]):
            raise ValueError(f"there is no {kind} {index}")
        return Cluster([*jobs.get("chief", []), *jobs.get("worker", [])], len(before) + index)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"TF_CONFIG must be {shape}. Received: {text} ({error!r})") from error


def _join(cluster):
    """Meets the other workers, which may take until all of them are up."""
    spec = tf.train.ClusterSpec({"worker": cluster.addresses})
    others = [a for i, a in enumerate(cluster.addresses) if i != cluster.worker]
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        spec, task_type="worker", task_id=cluster.worker, rpc_layer="grpc"
    )
    try:
        with ctrl_c_ends():
            print(f"worker {cluster.worker} waits for {', '.join(others)}", flush=True)
            strategy = tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=resolver)
    except (RuntimeError, tf.errors.OpError) as error:
        reason = first_line(error)
        raise ValueError(
            f"Worker {cluster.worker} of {', '.join(cluster.addresses)} cannot join: {reason}"
        ) from error
    return Devices(strategy, cluster.worker, len(cluster.addresses))


def cores():
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
