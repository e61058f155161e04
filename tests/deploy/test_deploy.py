"""The files of deploy/ are what their readers take, and agree with each other.

The server itself is not run here: its configs are parsed by the messages that it parses them with,
where tensorflow-serving-api has them, and by messages of the same fields where it has not.
"""

import http.server
import pathlib
import re
import subprocess
import threading

import jsonschema
import kubernetes_validate
import pytest
import yaml
from google.protobuf import json_format, text_format
from tensorflow_serving.apis import get_model_status_pb2
from tensorflow_serving.config import model_server_config_pb2

from tests.deploy import schemas
from zoo.commands import console

ROOT = pathlib.Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CONFIG = DEPLOY / "config"
KUBERNETES = DEPLOY / "kubernetes"

# The flags of tensorflow_model_server, of its source main.cc, that are used here.
FLAGS = {
    "port", "rest_api_port", "rest_api_timeout_in_ms", "model_config_file",
    "model_config_file_poll_wait_seconds", "allow_version_labels_for_unavailable_models",
    "enable_batching", "batching_parameters_file", "monitoring_config_file",
    "tensorflow_intra_op_parallelism", "tensorflow_inter_op_parallelism",
}  # fmt: skip


def read_yaml(path):
    return list(yaml.safe_load_all(path.read_text()))


def by_kind(path=KUBERNETES):
    manifests = [one for file in path.glob("*.yaml") for one in read_yaml(file)]
    kinds = {one["kind"]: one for one in manifests}
    assert len(kinds) == len(manifests), "two of a kind: one of them would not be looked at"
    return kinds


def compose():
    (config,) = read_yaml(DEPLOY / "compose.yaml")
    return config


def compose_service():
    return compose()["services"]["tensorflow-serving"]


def container():
    (one,) = by_kind()["Deployment"]["spec"]["template"]["spec"]["containers"]
    return one


def flags(arguments):
    return dict(argument.removeprefix("--").split("=", 1) for argument in arguments)


def models():
    parsed = text_format.Parse(
        (CONFIG / "models.config").read_text(), model_server_config_pb2.ModelServerConfig()
    )
    return list(parsed.model_config_list.config)


def batching():
    return schemas.batching((CONFIG / "batching.config").read_text())


def monitoring():
    return schemas.monitoring((CONFIG / "monitoring.config").read_text())


def test_models_are_there_in_the_versions_that_are_named():
    assert models()
    for model in models():
        assert model.model_platform == "tensorflow"
        assert model.base_path == f"/models/{model.name}"
        served = list(model.model_version_policy.specific.versions)
        assert served
        for version in served:
            folder = ROOT / "saved_models" / model.name / str(version)
            assert (folder / "saved_model.pb").exists(), folder
        assert {"stable", "canary"} == set(model.version_labels)
        assert set(model.version_labels.values()) <= set(served)
        assert all(re.fullmatch(r"\w+", label) for label in model.version_labels)


def test_batches_are_as_large_as_what_the_command_sends_and_as_many_as_the_cpus():
    config = batching()
    size = len(next(iter(console.batches(range(1000)))))
    assert config.max_batch_size.value >= size
    assert 0 < config.batch_timeout_micros.value <= 10_000
    assert config.max_enqueued_batches.value > 0
    if config.allowed_batch_sizes:
        assert config.allowed_batch_sizes[-1] == config.max_batch_size.value
    limits = container()["resources"]["limits"]
    assert config.num_batch_threads.value == int(limits["cpu"])
    cpus = compose_service()["deploy"]["resources"]["limits"]["cpus"]
    for arguments in (container()["args"], compose_service()["command"]):
        assert flags(arguments)["tensorflow_inter_op_parallelism"] == limits["cpu"] == cpus


def test_metrics_are_where_they_are_read():
    config = monitoring().prometheus_config
    assert config.enable
    annotations = by_kind()["Deployment"]["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/path"] == config.path
    assert annotations["prometheus.io/port"] == flags(container()["args"])["rest_api_port"]


def test_a_misspelt_field_would_be_found():
    """What the messages of this test are for."""
    for parse, text in [
        (schemas.batching, "max_batch_sizes { value: 1 }"),
        (schemas.monitoring, "prometheus {}"),
    ]:
        with pytest.raises(text_format.ParseError):
            parse(text)


def test_compose_keeps_its_schema():
    jsonschema.validate(compose(), schemas.COMPOSE)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"services": {"a": {"image": "a:1", "port": []}}}, schemas.COMPOSE)
    assert all(port.startswith("127.0.0.1:") for port in compose_service()["ports"])


@pytest.mark.parametrize("version", ["1.30.0", "1.37.0"])
def test_manifests_keep_the_schemas_of_kubernetes(version):
    kinds = by_kind()
    assert {"Deployment", "Service", "HorizontalPodAutoscaler", "PersistentVolumeClaim"} < set(
        kinds
    )
    for kind, manifest in kinds.items():
        if kind != "Kustomization":
            kubernetes_validate.validate(manifest, version, strict=True)
    manifest = kinds["Deployment"]
    manifest["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(manifest, version, strict=True)


def test_compose_and_kubernetes_start_the_same_server():
    assert compose_service()["image"] == container()["image"]
    assert [compose_service()["entrypoint"]] == container()["command"]
    arguments = flags(compose_service()["command"])
    assert arguments == flags(container()["args"])
    assert set(arguments) == FLAGS
    ports = {port["name"]: port["containerPort"] for port in container()["ports"]}
    assert ports == {"grpc": int(arguments["port"]), "rest": int(arguments["rest_api_port"])}
    for port in compose_service()["ports"]:
        _, outside, inside = port.split(":")
        assert outside == inside
        assert int(inside) in ports.values()
    exposed = by_kind()["Service"]["spec"]["ports"]
    assert {port["name"]: port["port"] for port in exposed} == ports
    assert all(port["targetPort"] == port["name"] for port in exposed)


def test_manifests_find_each_other():
    kinds = by_kind()
    pod = kinds["Deployment"]["spec"]["template"]
    for selector in (
        kinds["Deployment"]["spec"]["selector"]["matchLabels"],
        kinds["Service"]["spec"]["selector"],
        kinds["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        pod["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"],
    ):
        assert selector == pod["metadata"]["labels"]
    target = kinds["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]
    assert target["name"] == kinds["Deployment"]["metadata"]["name"]
    assert "replicas" not in kinds["Deployment"]["spec"]
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    claim = kinds["PersistentVolumeClaim"]["metadata"]["name"]
    assert volumes["saved-models"]["persistentVolumeClaim"]["claimName"] == claim
    (generator,) = by_kind(CONFIG)["Kustomization"]["configMapGenerator"]
    assert volumes["config"]["configMap"]["name"] == generator["name"]
    probe = container()["readinessProbe"]["httpGet"]
    # The status of a model is 200 whatever its state; its metadata are there if it answers.
    assert probe["path"] in [f"/v1/models/{model.name}/metadata" for model in models()]


def test_every_path_exists():
    """On this side of the mounts, and on theirs."""
    for volume in compose_service()["volumes"]:
        assert (DEPLOY / volume.split(":")[0]).is_dir(), volume
    mounts = {mount["mountPath"]: mount["name"] for mount in container()["volumeMounts"]}
    assert set(mounts) == {volume.split(":")[1] for volume in compose_service()["volumes"]}
    (generator,) = by_kind(CONFIG)["Kustomization"]["configMapGenerator"]
    used = [value for value in flags(container()["args"]).values() if value.startswith("/config/")]
    used += container()["startupProbe"]["exec"]["command"][1:]
    used += compose_service()["healthcheck"]["test"][2:]
    assert {pathlib.Path(path).name for path in used} == set(generator["files"])
    for path in used:
        assert (CONFIG / path.removeprefix("/config/")).exists(), path
    resources = by_kind()["Kustomization"]["resources"]
    assert all((KUBERNETES / path).exists() for path in resources)
    files = {path.name for path in KUBERNETES.glob("*.yaml")} - {"kustomization.yaml"}
    assert files == {path for path in resources if path.endswith(".yaml")}


def test_every_path_of_the_guide_exists():
    text = (DEPLOY / "README.md").read_text()
    named = re.findall(r"\]\(([^)#]+?)\)", text)
    assert named
    for link in named:
        assert link.startswith("https://") or (DEPLOY / link).exists(), link
    for path in re.findall(r"\bdeploy/[\w./-]*[\w]", text):
        assert (ROOT / path).exists(), path


class Status(http.server.BaseHTTPRequestHandler):
    """The status route, its JSON written from the message that the server writes it from."""

    states = {}

    def do_GET(self):
        state = self.states.get(self.path.removeprefix("/v1/models/"))
        response = get_model_status_pb2.GetModelStatusResponse()
        if state:
            response.model_version_status.add(version=1, state=state)
        self.send_response(200 if state else 404)
        self.end_headers()
        self.wfile.write(json_format.MessageToJson(response).encode())

    def log_message(self, *_):
        pass


def test_it_is_ready_when_every_model_is_available(tmp_path):
    config = tmp_path / "models.config"
    text = (CONFIG / "models.config").read_text()
    config.write_text(text.replace('"translate_en_fr"', '"other"'))
    status = get_model_status_pb2.ModelVersionStatus
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Status) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def ready(**states):
            Status.states = states
            command = ["bash", CONFIG / "ready.sh", config, str(server.server_port)]
            return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)

        available = dict.fromkeys((model.name for model in models()), status.AVAILABLE)
        available["other"] = available.pop("translate_en_fr")
        done = ready(**available)
        assert done.returncode == 0, done.stderr
        for state in (status.LOADING, status.END, None):
            done = ready(**{**available, "other": state})
            assert done.returncode == 1
            assert done.stderr == "other has no version that answers\n"
        server.shutdown()
    assert ready(**available).returncode == 1
