"""Who the other workers are, by TF_CONFIG or by Slurm's variables."""

import json
import os

import pytest

from zoo.training.devices import cluster_around


def tf_config(cluster, **task):
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}


def test_the_machines_that_the_environment_tells_of():
    hosts = {"worker": ["a:1", "b:2"]}
    assert cluster_around({}) is None
    assert cluster_around(tf_config(hosts, type="worker", index=1)) == (["a:1", "b:2"], 1)
    led = {"chief": ["c:3"], **hosts}
    assert cluster_around(tf_config(led, type="chief", index=0)) == (["c:3", "a:1", "b:2"], 0)
    assert cluster_around(tf_config(led, type="worker", index=1)) == (["c:3", "a:1", "b:2"], 2)
    for wrong in (
        {"TF_CONFIG": "{"},
        tf_config(hosts, type="worker", index=2),
        tf_config({"ps": ["a:1"], **hosts}, type="worker", index=0),
        tf_config({"worker": "a:1"}, type="worker", index=0),
        tf_config({"worker": ["a"]}, type="worker", index=0),
        tf_config(hosts),
    ):
        with pytest.raises(ValueError, match="TF_CONFIG must be .*Received: "):
            cluster_around(wrong)


def slurm_step(monkeypatch, nodes="node[7-8]", tasks="2(x2)", rank=2):
    """The variables of a task that srun started."""
    job = {
        "SLURM_PROCID": str(rank),
        "SLURM_NTASKS": "4",
        "SLURM_STEP_NUM_TASKS": "4",
        "SLURM_STEP_NODELIST": nodes,
        "SLURM_STEP_TASKS_PER_NODE": tasks,
    }
    for name, value in job.items():
        monkeypatch.setenv(name, value)


def test_the_machines_of_a_slurm_job(monkeypatch):
    slurm_step(monkeypatch)
    addresses, worker = cluster_around(os.environ)
    assert worker == 2
    assert [address.split(":")[0] for address in addresses] == ["node7", "node7", "node8", "node8"]
    assert len(set(addresses)) == 4
    monkeypatch.delenv("SLURM_STEP_NODELIST")
    with pytest.raises(ValueError, match="Slurm's variables do not tell the machines"):
        cluster_around(os.environ)
    # A job's script that starts the training without srun: SLURM_PROCID is there, a step is not.
    for name in ("SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE"):
        monkeypatch.delenv(name)
    assert cluster_around(os.environ) is None


@pytest.mark.parametrize(
    ("gpus", "tasks", "dealt_by_slurm", "visible"),
    [
        (2, "2(x2)", None, "1"),  # rank 3 is the second task of node8
        (4, "2(x2)", None, "2,3"),
        (1, "2(x2)", None, None),  # each task sees its own
        (0, "2(x2)", None, None),
        (4, "2(x2)", "1", None),
        (4, "1(x4)", None, None),
    ],
)
def test_tasks_of_a_machine_share_its_gpus(
    gpus, tasks, dealt_by_slurm, visible, tmp_path, monkeypatch
):
    slurm_step(monkeypatch, "node[5-8]" if tasks == "1(x4)" else "node[7-8]", tasks, rank=3)
    found = "".join(f"echo 'GPU {i}: one of them'\n" for i in range(gpus)) or "exit 6\n"
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\n{found}")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # so that it is put back
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    if dealt_by_slurm:
        monkeypatch.setenv("SLURM_GPUS_PER_TASK", dealt_by_slurm)
    assert cluster_around(os.environ).worker == 3
    assert os.environ.get("CUDA_VISIBLE_DEVICES") == visible
