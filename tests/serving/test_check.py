"""`zoo check` passes what TF Serving will serve, and names each fault that is planted."""

import json
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

from tests.serving.planted import (
    WORDS,
    assert_only,
    edited,
    faults,
    good,
    save,
    valid,
    write_warm_up,
)
from tests.tools import run_zoo
from zoo.cli import main


@pytest.fixture(scope="module")
def good_folder(tmp_path_factory):
    return save(tmp_path_factory.mktemp("good") / "1", good)


@pytest.fixture
def copy(good_folder, tmp_path):
    """A copy of a good SavedModel, to be damaged."""
    return shutil.copytree(good_folder, tmp_path / "1")


@pytest.mark.slow  # `make check`, which CI runs, checks all models
def test_the_saved_model_of_this_repository_passes():
    done = run_zoo("check", "saved_models/pronounce_en")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("saved_models/pronounce_en\n  ok ")
    for line in ("signatures: align, score, serving_default", "warm-up: 6 requests replayed"):
        assert line in done.stdout
    assert "FAIL" not in done.stdout


def check(capsys, *arguments):
    """The command within this process: exit code, output, errors."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["zoo", "check", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code
    return code, *capsys.readouterr()


def test_a_good_model_passes_and_a_bad_one_is_told_in_json(good_folder, tmp_path, capsys):
    bad = shutil.copytree(good_folder, tmp_path / "latest")
    code, out, err = check(capsys, good_folder, bad, "--json")
    assert (code, err) == (1, "")
    first, second = map(json.loads, out.splitlines())
    assert first["servable"]
    assert all(line["ok"] for line in first["lines"])
    groups = " ".join(line["group"] for line in first["lines"])
    assert groups == "files signatures ops load warm-up awkward batches empty answers"
    assert not second["servable"]
    (fault,) = [line for line in second["lines"] if not line["ok"]]
    assert fault["group"] == "files"
    assert "named 'latest'" in fault["text"]


def test_wrong_usage_is_told_in_a_line(good_folder, tmp_path, capsys):
    for arguments, wanted, message in [
        ((), 2, "needs a SavedModel"),
        ((tmp_path / "nothing",), 1, "is no folder"),
        ((tmp_path,), 1, "has no SavedModel"),
        ((good_folder, "--python", "/usr/bin/env"), 1, "/usr/bin/env cannot load"),
        ((good_folder, "--python", "/nothing"), 1, "/nothing: No such file"),
    ]:
        code, _, err = check(capsys, *arguments)
        assert code == wanted, err
        assert re.fullmatch(f"zoo: .*{message}.*\n", err), err


# What TF Serving loads, and then cannot run.


def test_a_function_that_xla_must_compile(tmp_path):
    @tf.function(jit_compile=True)
    def square(x):
        return x * x

    def model(text):
        return {"score": square(tf.cast(tf.strings.length(text), tf.float32))}

    found = faults(save(tmp_path / "1", model))
    assert {group for group, _ in found} == {"ops", "warm-up"}
    assert found[0][0] == "ops"
    assert re.search(r"function \S*square\S* .*must be compiled by XLA.*jit_compile", found[0][1])
    assert "fails" in found[1][1]  # the loader itself agrees


@pytest.mark.parametrize("call", [tf.py_function, tf.numpy_function])
def test_a_call_of_python(tmp_path, call):
    def model(text):
        score = call(lambda x: np.float32(len(x)) + np.zeros(len(x), "float32"), [text], tf.float32)
        return {"score": tf.ensure_shape(score, [None])}

    found = faults(save(tmp_path / "1", model))
    assert {group for group, _ in found} == {"ops", "warm-up"}
    assert re.search(r"op (Eager)?PyFunc in function \S+: it calls Python", found[0][1])
    assert "fails" in found[1][1]


def test_ops_for_gpus_or_of_others_are_found_where_nobody_calls_them(copy):
    with edited(copy) as graph:
        function = graph.graph_def.library.function.add()
        function.signature.name = "unused"
        function.node_def.add(name="rnn", op="CudnnRNNV3")
    assert_only(faults(copy), "ops", "op CudnnRNNV3 in function unused: it runs on GPUs only")
    with edited(copy) as graph:
        function.node_def[0].op = "Addons>GatherTree"
        graph.graph_def.library.function[-1].CopyFrom(function)
    found = faults(copy)
    assert found[0][0] == "ops"
    assert "Addons>GatherTree in function unused: neither TensorFlow nor" in found[0][1]


# Files.


def test_a_folder_that_is_no_number(good_folder, tmp_path):
    shutil.copytree(good_folder, tmp_path / "v1")
    assert_only(faults(tmp_path), "files", r"named 'v1'.*rename it to .*/1$")


def test_the_highest_number_is_what_is_loaded(copy):
    (copy.parent / "10").mkdir()
    assert_only(faults(copy.parent), "files", "saved_model.pb is missing")


def test_a_damaged_graph(copy):
    file = copy / "saved_model.pb"
    file.write_bytes(file.read_bytes()[:-1000])
    assert_only(faults(copy), "files", "saved_model.pb is damaged")


def test_a_missing_asset(tmp_path):
    (tmp_path / "words.txt").write_text("cab\na\n")
    module = tf.Module()
    initializer = tf.lookup.TextFileInitializer(
        str(tmp_path / "words.txt"), tf.string, tf.lookup.TextFileIndex.WHOLE_LINE,
        tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER,
    )  # fmt: skip
    module.table = tf.lookup.StaticHashTable(initializer, -1)
    folder = save(tmp_path / "1", lambda text: {"id": module.table.lookup(text)}, module=module)
    assert faults(folder) == []
    (folder / "assets" / "words.txt").unlink()
    found = faults(folder)
    assert found[0] == ("files", "assets/words.txt is missing: copy it, or export again")
    assert found[1][0] == "load"


@pytest.mark.parametrize("damage", ["truncated", "no index", "no data"])
def test_damaged_variables(tmp_path, damage):
    module = tf.Module()
    module.weight = tf.Variable(np.ones(10_000, "float32"))
    mean = lambda text: {"score": tf.fill([tf.size(text)], tf.reduce_mean(module.weight))}  # noqa: E731
    folder = save(tmp_path / "1", mean, module=module)
    data = folder / "variables" / "variables.data-00000-of-00001"
    if damage == "truncated":
        data.write_bytes(data.read_bytes()[:1000])
        assert [group for group, _ in faults(folder)] == ["load"]
    elif damage == "no data":
        data.unlink()
        found = faults(folder)
        assert found[0][1].startswith("variables/variables.data-* is missing")
    else:
        (folder / "variables" / "variables.index").unlink()
        found = faults(folder)
        assert found[0][1].startswith("variables/variables.index is missing")


# Answers.


def test_outputs_that_are_no_batch(tmp_path):
    def model(text):
        lengths = tf.strings.length(text)
        longest = tf.reduce_max(tf.concat([lengths, [0]], axis=0))
        return {"length": lengths, "longest": longest, "both": tf.stack([longest, longest])}

    found = faults(save(tmp_path / "1", model))
    texts = " ".join(text for _, text in found)
    assert {group for group, _ in found} == {"signatures", "answers"}
    assert "output 'longest' is a scalar, which cannot be a batch" in texts
    assert "output 'both' has 2 rows always" in texts
    assert "output 'both' is of shape (2,) for 1 rows" in texts
    assert "'length'" not in texts


def test_an_answer_that_depends_on_the_padding(tmp_path):
    def model(text):
        codes = tf.strings.unicode_decode(valid(text), "UTF-8").to_tensor(0)
        codes = tf.pad(codes, ((0, 0), (0, 1)))
        return {"score": tf.reduce_mean(tf.cast(codes, tf.float32), axis=1)}

    assert_only(
        faults(save(tmp_path / "1", model)), "batches",
        "output 'score' of a row depends on the rows in a batch with it: mask the padding",
    )  # fmt: skip


def test_an_answer_that_depends_on_its_neighbour(tmp_path):
    """As does a recurrent network that goes backwards over the batch by mistake."""
    rolled = save(tmp_path / "1", lambda text: {"text": tf.roll(valid(text), 1, axis=0)})
    assert_only(faults(rolled), "batches", "output 'text' of a row depends on the rows")


def test_an_answer_that_is_drawn(tmp_path):
    random = save(tmp_path / "1", lambda text: {"score": tf.random.uniform(tf.shape(text))})
    assert_only(faults(random), "batches", "changes from call to call")


def test_an_empty_batch_that_fails(tmp_path):
    def model(text):
        size = tf.shape(text)[0]
        with tf.control_dependencies([tf.debugging.assert_positive(size)]):
            return {"text": valid(text)}

    assert_only(faults(save(tmp_path / "1", model)), "empty", "fails on a batch without rows")


def test_output_that_is_no_utf8(tmp_path):
    both = save(tmp_path / "1", lambda text: {"text": tf.identity(text), "raw_bytes": text})
    assert_only(faults(both), "answers", "output 'text' is no UTF-8.*Received: b'.xff")


def test_numbers_that_are_not_finite(tmp_path):
    def model(text):
        lengths = tf.cast(tf.strings.length(text), tf.float32)
        return {"score": lengths / lengths}  # 0/0 of an empty text

    assert_only(faults(save(tmp_path / "1", model)), "answers", "'score' has a value nan")


def test_awkward_text_that_fails(tmp_path):
    def model(text):
        return {"text": tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="strict")}

    assert_only(faults(save(tmp_path / "1", model)), "awkward", "fails on invalid UTF-8, and so do")


def test_a_name_that_means_base64(tmp_path):
    module = tf.Module()
    spec = tf.TensorSpec((None,), tf.string, name="b64")
    module.function = tf.function(lambda b64: {"text": valid(b64)}, input_signature=[spec])
    tf.saved_model.save(module, str(tmp_path / "1"), signatures=module.function)
    write_warm_up(tmp_path / "1", [{"b64": WORDS}])
    assert_only(faults(tmp_path / "1"), "signatures", "input is named 'b64'")


def test_images_are_tried_with_broken_ones(tmp_path):
    """Requests come from the warm-up; a picture cut off must not fail those in a batch with it."""

    def model(image_bytes):
        decode = lambda image: tf.image.decode_jpeg(image, channels=3)[0, 0]  # noqa: E731
        return {"color": tf.map_fn(decode, image_bytes, fn_output_signature=tf.uint8)}

    module = tf.Module()
    spec = tf.TensorSpec((None,), tf.string, name="image_bytes")
    module.function = tf.function(model, input_signature=[spec])
    tf.saved_model.save(module, str(tmp_path / "1"), signatures=module.function)
    (_, not_there), (_, not_tried) = faults(tmp_path / "1")
    assert "warmup_requests is missing" in not_there
    assert "was not tried: write warm-up requests" in not_tried
    images = [tf.io.encode_jpeg(np.full((8, 8, 3), x, "uint8")).numpy() for x in (10, 200)]
    write_warm_up(tmp_path / "1", [{"image_bytes": images}])
    found = faults(tmp_path / "1")
    assert {group for group, _ in found} == {"awkward"}
    assert any("fails on no bytes" in text for _, text in found)


# Warm-up.


def test_no_warm_up(copy):
    shutil.rmtree(copy / "assets.extra")
    assert_only(faults(copy), "warm-up", "warmup_requests is missing")


def test_a_damaged_warm_up(copy):
    file = copy / "assets.extra" / "tf_serving_warmup_requests"
    file.write_bytes(file.read_bytes()[:-5])
    assert_only(faults(copy), "warm-up", "is damaged after record 1")


def test_warm_up_requests_that_fail_the_load(copy):
    write_warm_up(copy, [{"txt": WORDS}, {"text": [1, 2]}])
    found = [text for group, text in faults(copy) if group == "warm-up"]
    assert "request 1: serving_default takes text. Received: txt" in found[0]
    assert "request 2: serving_default: text is string. Received: int32" in found[1]
    write_warm_up(copy, [{"text": WORDS}], signature="align")
    assert_only(faults(copy), "warm-up", "there is no signature align, but serving_default")
    write_warm_up(copy, [{"text": ["a"]}] * 1001)
    assert_only(faults(copy), "warm-up", "more than 1000 records")
    write_warm_up(copy, [])
    assert_only(faults(copy), "warm-up", "no warm-up request is for signature serving_default")
