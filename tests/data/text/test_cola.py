"""Reading CoLA's zip, made here and as it is published, and refusing what is no such zip."""

import os
import zipfile
from pathlib import Path

import pytest

from leaklab.data.text.corpus import PARTS, PRINTED, UNKNOWN, Vocabulary, read_cola, split
from leaklab.records.errors import UserError

LINES = "gj04\t1\t\tJohn's here, isn't he?\nbc01\t0\t*\tJohn \u201cis\u201d here here.\n"


@pytest.fixture
def write(tmp_path):
    def make(content=LINES, parts=PARTS):
        path = tmp_path / "cola.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for part in parts:
                archive.writestr(f"cola_public/raw/{part}.tsv", content)
        return path

    return make


def test_sentences_and_labels_are_read(write):
    parts = read_cola(write())
    assert tuple(parts) == PARTS
    for part in parts.values():
        assert part.texts == ("John's here, isn't he?", "John \u201cis\u201d here here.")
        assert part.labels == (1, 0)


def test_the_last_line_may_lack_its_end_and_lines_may_end_as_on_windows(write):
    expected = read_cola(write())
    assert read_cola(write(LINES.rstrip("\n"))) == expected
    assert read_cola(write(LINES.replace("\n", "\r\n"))) == expected


@pytest.mark.parametrize(
    "content",
    ["", "gj04\t1\tJohn\n", "gj04\t2\t\tJohn\n", "gj04\t\t\tJohn\n", "gj04\t1\t\t \n", LINES + "gj04\t1\t\tA\tB\n"],
    ids=["empty", "three fields", "label 2", "no label", "no sentence", "five fields"],
)
def test_other_contents_are_refused(write, content):
    with pytest.raises(UserError, match=r"cola\.zip:in_domain_train\.tsv.*get cola_public\.zip again") as caught:
        read_cola(write(content))
    assert "\n" not in str(caught.value)


def test_a_foreign_archive_is_refused(write):
    with pytest.raises(UserError, match="is not CoLA's public zip"):
        read_cola(write(parts=PARTS[:2]))


def test_a_missing_or_damaged_archive_is_refused(write, tmp_path):
    with pytest.raises(UserError, match="cannot be read"):
        read_cola(tmp_path / "nowhere.zip")
    path = write()
    whole = bytearray(path.read_bytes())
    path.write_bytes(whole[:100])
    with pytest.raises(UserError, match="cannot be read"):
        read_cola(path)
    whole[70:80] = b"\xff" * 10  # within the first member's deflated data
    path.write_bytes(whole)
    with pytest.raises(UserError, match="cannot be read"):
        read_cola(path)


@pytest.mark.mirror
@pytest.mark.skipif("LEAKLAB_MIRROR" not in os.environ, reason="LEAKLAB_MIRROR is not set")
class TestPublished:
    @pytest.fixture(scope="class")
    def cola(self):
        return read_cola(Path(os.environ["LEAKLAB_MIRROR"]) / "data/CoLA/cola_public.zip")

    def test_sizes(self, cola):
        assert [len(cola[part].texts) for part in PARTS] == [8551, 527, 516]
        assert sum(cola["in_domain_train"].labels) == 6023

    def test_the_printed_sentences_are_among_the_training_part(self, cola):
        train = dict(zip(cola["in_domain_train"].texts, cola["in_domain_train"].labels, strict=True))
        assert [train[text] for text in PRINTED.texts] == list(PRINTED.labels)

    def test_every_training_sentence_survives_the_round_trip(self, cola):
        texts = cola["in_domain_train"].texts
        vocabulary = Vocabulary.build(texts)
        for text in texts:
            ids = vocabulary.encode(text)
            assert UNKNOWN not in ids
            assert vocabulary.decode(ids) == split(text)
