"""What starts a training on a cluster says what the training understands."""

import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

import yaml

from tests.tools import run_zoo
from zoo.training.devices import cluster_around

DEPLOY = pathlib.Path(__file__).parents[2] / "deploy" / "training"


def run_tf_config(*arguments):
    command = [sys.executable, DEPLOY / "tf_config.py", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def test_each_worker_finds_itself_among_all():
    for index in range(3):
        done = run_tf_config("--index", index, "--count", 3, "--address", "zoo-{}.zoo:2222")
        found = cluster_around({"TF_CONFIG": done.stdout})
        assert found == (["zoo-0.zoo:2222", "zoo-1.zoo:2222", "zoo-2.zoo:2222"], index)
    for index, address in ((3, "{}:1"), (0, "no-number:1")):
        done = run_tf_config("--index", index, "--count", 3, "--address", address)
        assert done.returncode == 1
        assert "Received: " in done.stderr
        assert done.stderr.count("\n") == 1


def documents(name):
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


def test_the_job_starts_as_many_workers_as_it_tells_of():
    service, claim, job = documents("job.yaml")
    assert [d["kind"] for d in (service, claim, job)] == ["Service", "PersistentVolumeClaim", "Job"]
    spec = job["spec"]
    assert spec["completionMode"] == "Indexed"
    assert spec["completions"] == spec["parallelism"]
    pod = spec["template"]["spec"]
    assert pod["shareProcessNamespace"]  # else SIGTERM ends nothing that waits, but after a minute
    (container,) = pod["containers"]
    (script,) = container["args"]
    count = int(re.search(r"--count (\d+)", script)[1])
    assert count == spec["completions"]

    # The pods' names in the service: JOB-INDEX.SUBDOMAIN, as Kubernetes gives them.
    job_name = job["metadata"]["name"]
    assert service["metadata"]["name"] == pod["subdomain"]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {"job-name": job_name}
    (port,) = service["spec"]["ports"]
    assert container["ports"] == [{"containerPort": port["port"]}]
    making = script[: script.index("exec")].replace("python ", f"{sys.executable} ", 1)
    for index in range(count):
        done = subprocess.run(
            ["sh", "-c", making + 'printf %s "$TF_CONFIG"'],
            capture_output=True,
            text=True,
            cwd=DEPLOY.parents[1],
            env={**os.environ, "JOB_COMPLETION_INDEX": str(index)},
        )
        names = [f"{job_name}-{i}.{pod['subdomain']}:{port['port']}" for i in range(count)]
        assert cluster_around({"TF_CONFIG": done.stdout}) == (names, index), done.stderr
        assert json.loads(done.stdout)["task"]["type"] == "worker"

    (volume,) = pod["volumes"]
    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    (mount,) = container["volumeMounts"]
    assert mount["name"] == volume["name"]
    assert f"--output {mount['mountPath']}/" in script


def test_the_commands_have_options_that_there_are():
    """`zoo train` takes them, up to the data, which is not there."""
    job = documents("job.yaml")[2]["spec"]["template"]["spec"]["containers"][0]["args"][0]
    slurm = (DEPLOY / "slurm.sh").read_text()
    assert subprocess.run(["sh", "-n", DEPLOY / "slurm.sh"]).returncode == 0
    for script in (job, slurm):
        command = script[script.rindex("zoo train") :].replace("\\\n", " ")
        words = shlex.split(command)[1:]
        words[words.index("multi30k")] = "/nowhere"
        words[words.index("multiworker")] = "cpu"
        done = run_zoo(*words)
        assert done.returncode == 1
        assert "Received: /nowhere" in done.stderr


def test_the_image_has_what_the_job_runs():
    text = (DEPLOY / "Dockerfile").read_text()
    for line in re.findall(r"^COPY (.+) \S+$", text, re.MULTILINE):
        for path in line.split():
            assert (DEPLOY.parents[1] / path).exists(), path
