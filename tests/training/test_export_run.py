"""What an export says of its training; that it exports is tested with each recipe."""

import pytest

from zoo.training.export_run import without_folders


@pytest.mark.parametrize(
    ("value", "public"),
    [
        ("/data/me/aeslc", "aeslc"),
        ("multi30k:/data/multi30k", "multi30k:multi30k"),
        ("zoo train x --data /data/y/ --output /runs//z", "zoo train x --data y/ --output z"),
        ("multi30k:../../shared/data", "multi30k:data"),
        ("zoo train x --data ../y --output runs/../z", "zoo train x --data y --output runs/../z"),
        ("~/data", "~/data"),
        ("runs/me/x", "runs/me/x"),
        ("tfds:ted_hrlr_translate/pt_to_en", "tfds:ted_hrlr_translate/pt_to_en"),
        ("https://host/a/b", "https://host/a/b"),
        ("gs://bucket/a/b", "gs://bucket/a/b"),
        ("/", "/"),
        (3, 3),
        (None, None),
    ],
)
def test_a_path_to_elsewhere_is_its_last_part(value, public):
    assert without_folders(value) == public
