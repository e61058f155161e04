"""A SavedModel answers as the pipeline that it was made of, wherever it is and whatever it gets."""

import json
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import prediction_log_pb2

import zoo
from tests.serving.bare import require_alike, serve
from tests.serving.tools import tiny_pipeline
from tests.tools import close, log_softmax
from zoo.serving import SavedModel, export

WORDS = ["cab", "a", "decade", "", "bead", "fabled", "é", "facade"]


@pytest.fixture(scope="module")
def pipeline():
    return tiny_pipeline()


@pytest.fixture(scope="module")
def folder(pipeline, tmp_path_factory):
    about = {"recipe": "tiny", "scores": {"wer": {"score": 12.3, "signature": "wer|lines:1"}}}
    return export(pipeline, tmp_path_factory.mktemp("models") / "tiny", about, WORDS)


def test_it_answers_as_the_pipeline_in_a_process_without_the_zoo(pipeline, tmp_path):
    made = export(pipeline, tmp_path / "here" / "tiny", examples=WORDS)
    moved = made.parents[1].rename(tmp_path / "elsewhere") / "tiny" / "1"
    said, score = require_alike(pipeline, moved, WORDS, tmp_path)
    close(score["log_prob"][4:], said["scores"][4:, 1], 1e-4)


def test_weights_of_float16_take_half_the_space_and_settings_of_search_survive(folder, tmp_path):
    about, pipeline = {"recipe": "tiny"}, tiny_pipeline(length_penalty=0.6, min_length=3)
    made = export(pipeline, tmp_path / "here" / "tiny", about, WORDS, float16=True)
    moved = made.parents[1].rename(tmp_path / "elsewhere") / "tiny" / "1"
    data = "variables/variables.data-00000-of-00001"
    floats = 4 * pipeline.model.count_params()
    saved = (folder / data).stat().st_size - (moved / data).stat().st_size
    assert saved == pytest.approx(floats / 2, rel=0.1)
    # Computed in float32: the answers are those of the model, but for rounded weights.
    (answer,) = serve(moved, [("serving_default", {"text": WORDS})], tmp_path)
    texts = pipeline(WORDS)
    assert answer["text"].tolist() == texts["text"].numpy().tolist()
    close(answer["score"], texts["score"], 1e-2)
    loaded = zoo.load(moved)
    for ours, theirs in zip(loaded.model.weights, pipeline.model.weights, strict=True):
        assert ours.dtype == "float32"
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy().astype("float16"))
    said = loaded(WORDS)
    close(said["scores"], answer["scores"], 1e-4)
    assert loaded.default_search.length_penalty == 0.6
    assert all(len(t.decode().split()) >= 2 for t in said["texts"].numpy()[0])
    # The model itself has changed in nothing.
    assert pipeline(WORDS)["scores"].numpy().tolist() == texts["scores"].numpy().tolist()
    assert "float16" in (moved / "README.md").read_text()
    assert "float16" not in (folder / "README.md").read_text()


def test_a_weight_that_float16_cannot_hold_is_told(tmp_path):
    pipeline = tiny_pipeline()
    bias = pipeline.model.decoder.output_dense.bias
    bias.assign(bias.numpy() + 1e5)
    with pytest.raises(ValueError, match=r"float16 ends at 65504. .*bias of 1000"):
        export(pipeline, tmp_path / "tiny", float16=True)
    assert list((tmp_path / "tiny").iterdir()) == []


def test_anything_is_answered(folder, tmp_path):
    rng = np.random.default_rng(1)
    noise = [rng.bytes(rng.integers(0, 40)) for _ in range(2000)]
    awkward = [
        b"",
        b" ",
        b"\x00",
        b"\xff" * 100,
        "e\u0301\u202emixed \U0001f600 \u05e9\u05dc\u05d5\u05dd".encode(),
        b"a" * 10_000,
        ("\U0001f600" * 10_000).encode(),
    ]
    batches = [noise, awkward, [], [b""], [b"a" * 10_000] * 64]
    targets = [noise[::-1], awkward[::-1], [], [b""], [b"B " * 10_000] * 64]
    requests = [("serving_default", {"text": batch}) for batch in batches]
    requests += [("align", {"text": batch}) for batch in batches]
    requests += [
        ("score", {"text": batch, "target": target})
        for batch, target in zip(batches, targets, strict=True)
    ]
    answers = serve(folder, requests, tmp_path)
    for (_, columns), answer in zip(requests, answers, strict=True):
        assert answer.pop("megabytes") < 500
        for values in answer.values():
            assert len(values) == len(columns["text"])
            if values.dtype == object:
                assert all(isinstance(text.decode("utf-8"), str) for text in values.ravel())
            else:
                assert np.isfinite(values).all()


def test_rows_do_not_depend_on_each_other(folder):
    model = SavedModel(folder)
    together = model("align", text=WORDS)
    for i, word in enumerate(WORDS):
        alone = model("align", text=[word])
        for name in ("source_tokens", "target_tokens"):
            row = together[name][i].tolist()
            size = alone[name].shape[1]
            assert row[:size] == alone[name][0].tolist()
            assert set(row[size:]) <= {b""}
        _, time, source = alone["alignments"].shape
        close(together["alignments"][i, :time, :source], alone["alignments"][0], 1e-4)
        assert together["alignments"][i].sum() == pytest.approx(alone["alignments"].sum(), abs=1e-4)


def test_there_is_nothing_in_the_graph_that_a_server_cannot_run(folder):
    saved = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    (graph,) = [meta.graph_def for meta in saved.meta_graphs]
    functions = graph.library.function
    nodes = [*graph.node, *(node for function in functions for node in function.node_def)]
    assert len(nodes) > 100
    for node in nodes:
        assert not any(word in node.op for word in ("PyFunc", "CudnnRNN", "Xla")), node.op
        assert "Random" not in node.op  # nothing is drawn, and no state is changed
    for function in functions:
        must_compile = function.attr.get("_XlaMustCompile")
        assert must_compile is None or not must_compile.b


def test_warm_up_requests_are_what_clients_send(folder):
    file = folder / "assets.extra" / "tf_serving_warmup_requests"
    records = list(tf.data.TFRecordDataset(str(file)).as_numpy_iterator())
    logs = [prediction_log_pb2.PredictionLog.FromString(record) for record in records]
    signatures = tf.saved_model.load(str(folder)).signatures
    seen = set()
    for log in logs:
        request = log.predict_log.request
        columns = {k: tf.constant(tf.make_ndarray(v)) for k, v in request.inputs.items()}
        answer = signatures[request.model_spec.signature_name](**columns)
        sizes = {int(tensor.shape[0]) for tensor in answer.values()}
        seen.add((request.model_spec.signature_name, *sizes))
    names = ("serving_default", "align", "score")
    assert seen == {(name, size) for name in names for size in (1, 8)}


def test_each_export_is_the_next_version(pipeline, folder, tmp_path):
    shutil.copytree(folder, tmp_path / "tiny" / "8")
    (tmp_path / "tiny" / "9").mkdir()  # someone else's, and taken
    assert export(pipeline, tmp_path / "tiny").name == "10"  # by numbers: after 9, not after 1
    assert SavedModel(tmp_path / "tiny").path.name == "10"
    assert SavedModel(tmp_path / "tiny" / "8").path.name == "8"


def test_a_version_is_not_there_before_it_is_whole(pipeline, tmp_path):
    seen = []

    class Examples(list):
        def __iter__(self):  # the model is written, the warm-up requests are next
            seen.extend(path.name for path in (tmp_path / "tiny").iterdir())
            return super().__iter__()

    export(pipeline, tmp_path / "tiny", examples=Examples(["cab"]))
    assert len(seen) == 1
    assert seen[0].startswith(".")
    assert [path.name for path in (tmp_path / "tiny").iterdir()] == ["1"]
    assert (tmp_path / "tiny" / "1").stat().st_mode & 0o777 == 0o755


def test_a_failed_export_leaves_nothing_behind(pipeline, tmp_path):
    with pytest.raises(ValueError, match="must be a list of strings"):
        export(pipeline, tmp_path / "tiny", examples=[None])
    assert list((tmp_path / "tiny").iterdir()) == []


def test_card_and_json_say_what_it_is(folder, pipeline):
    about = json.loads((folder / "zoo.json").read_text())
    assert about["recipe"] == "tiny"
    assert about["pipeline"] == json.loads(json.dumps(pipeline.get_config()))
    card = (folder / "README.md").read_text()
    assert card.startswith("# tiny, version 1")
    assert "| wer | 12.30 | wer\\|lines:1 |" in card


def test_load_gives_the_model_back(folder, pipeline):
    loaded = zoo.load(folder)
    for ours, theirs in zip(loaded.model.weights, pipeline.model.weights, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
    served = SavedModel(folder)("serving_default", text=WORDS)
    answer = loaded(WORDS)
    assert answer["texts"].numpy().tolist() == served["texts"].tolist()
    close(answer["scores"], served["scores"], 1e-4)
    assert loaded(WORDS, beam_width=2)["texts"].shape == (8, 2)
    # Its dropout works again: it can be trained on.
    inputs = {"source": np.array([[4, 5, 6]]), "target": np.array([[1, 4, 5]])}
    assert np.ptp([loaded.model(inputs, training=True)[0, 0, 4].numpy() for _ in range(5)]) > 1e-4


def test_a_loaded_model_can_be_sampled_from(folder):
    """Ancestral sampling by the contract: how often a first symbol comes is its probability."""
    loaded = zoo.load(folder)
    decoder, encoded = loaded.model.decoder, loaded.model.encoder(np.array([[6, 4, 5]]))
    state, source = decoder.begin(*encoded)
    logits, _, _ = decoder.step(np.array([[1]]), state, source)
    probabilities = tf.nn.softmax(logits[0, 0]).numpy()
    drawn = tf.random.stateless_categorical(logits[0], 4000, seed=(1, 2))[0].numpy()
    frequencies = np.bincount(drawn, minlength=len(probabilities)) / 4000
    close(frequencies, probabilities, 0.04)
    # Whole samples are sequences that the model scores as it scores any other.
    token, total = np.array([[1]]), 0.0
    state, source = decoder.begin(*encoded)
    ids = [1]
    for i in range(5):
        logits, state, _ = decoder.step(token, state, source)
        token = tf.random.stateless_categorical(logits[0], 1, seed=(i, 3)).numpy()
        ids.append(int(token[0, 0]))
        total += log_softmax(logits.numpy())[0, 0, ids[-1]]
    forced = log_softmax(decoder(np.array([ids[:-1]]), *encoded).numpy())[0]
    close(total, forced[np.arange(5), ids[1:]].sum(), 1e-4)


@pytest.mark.parametrize("damage", ["missing", "truncated"])
def test_damage_is_told_in_a_line(pipeline, tmp_path, damage):
    folder = export(pipeline, tmp_path / "tiny")
    file = folder / "variables" / "variables.data-00000-of-00001"
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:100])
    for loader in (SavedModel, zoo.load):
        with pytest.raises(ValueError, match=str(folder)) as error:
            loader(folder)
        assert "\n" not in str(error.value)


def test_another_model_in_zoo_json_is_told(pipeline, tmp_path):
    folder = export(pipeline, tmp_path / "tiny")
    text = (folder / "zoo.json").read_text()
    (folder / "zoo.json").write_text(text.replace('"bridge"', '"zeros"'))
    with pytest.raises(ValueError, match="its weights are not those of the model"):
        zoo.load(folder)
    (folder / "zoo.json").write_text("{}")
    with pytest.raises(ValueError, match=f"{folder}/zoo.json is damaged: it has no 'pipeline'"):
        zoo.load(folder)


def test_what_is_no_saved_model_is_told(tmp_path):
    with pytest.raises(FileNotFoundError, match="is no SavedModel of the zoo"):
        zoo.load(tmp_path)
    with pytest.raises(FileNotFoundError, match="zoo list"):
        SavedModel(pathlib.Path(tmp_path) / "nothing")
