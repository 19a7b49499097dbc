"""Text data sets: the catalog, the readers, the step that fetches one, and what it says when a file is not there."""

import json
import os
import zipfile
from pathlib import Path

import pytest

from leaklab.data.catalog import TEXTS, find_text
from leaklab.data.text import corpus
from leaklab.data.text.corpus import PRINTED, TEXT_READERS, UNKNOWN, Corpus, make_text_reader, split
from leaklab.records.errors import UserError
from leaklab.records.files import read_json, sha256
from leaklab.records.record import Component
from leaklab.steps import fetch_text
from leaklab.steps.base import main

ROOT = Path(__file__).parents[3]
CATALOG = ROOT / TEXTS
MIRROR = os.environ.get("LEAKLAB_MIRROR")


@pytest.fixture
def fetch(tmp_path, monkeypatch):
    """Run the step for a data set without mirror; return the folder of its files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LEAKLAB_MIRROR", raising=False)

    def run(name, catalog=CATALOG):
        spec = json.dumps({"dataset": name})
        outputs = ["--output", f"corpus={tmp_path / 'corpus.json'}", f"run={tmp_path / 'run.json'}"]
        main("fetch_text", fetch_text.run, ["--spec", spec, "--input", f"catalog={catalog}", *outputs])
        return tmp_path

    return run


def test_the_printed_sentences_need_no_download(fetch):
    corpus = Corpus.load(fetch("printed-sentences") / "corpus.json")
    assert corpus.sentences == PRINTED
    assert corpus.num_classes == 2
    words = {token for text in PRINTED.texts for token in split(text)}
    assert words <= set(corpus.vocabulary.tokens)
    # an answer at random is no good answer: most words are not in the sentences
    assert len(corpus.vocabulary) > 8 * len(words)
    assert not any(UNKNOWN in corpus.vocabulary.encode(text) for text in PRINTED.texts)
    assert corpus.vocabulary.tokens[4:8] == ("the", ",", ".", "of")  # the order of common words, not that of the secret
    assert "in place of word pieces" in corpus.substitute


def test_the_record_names_the_file_behind_the_vocabulary(fetch):
    facts = read_json(fetch("printed-sentences") / "run.json")["facts"]
    words = ROOT / "src/leaklab/data/text/common_words.txt"
    (source,) = facts["sources"]
    assert source == {
        "path": "data/text/common_words.txt",
        "sha256": sha256(words),
        "source": "package leaklab",
    }
    assert facts["sentences"] == 2


def test_a_missing_cola_says_what_to_do(fetch, tmp_path):
    text = CATALOG.read_text(encoding="utf-8")
    offline = tmp_path / "texts.yaml"
    assert "https://raw" in text
    offline.write_text(text.replace("https://raw", "https://nowhere.invalid/raw"), encoding="utf-8")
    with pytest.raises(SystemExit) as caught:
        fetch("cola", offline)
    message = str(caught.value)
    assert message.startswith("leaklab fetch_text: cannot download https://nowhere.invalid/")
    assert "put it at data/raw/CoLA/cola_public.zip, or set LEAKLAB_MIRROR to a folder that has data/CoLA/" in message
    assert "\n" not in message


def test_an_unknown_data_set_names_those_that_there_are(fetch):
    with pytest.raises(SystemExit, match="unknown text data set 'colla': choose from printed-sentences, cola, or add"):
        fetch("colla")


@pytest.mark.skipif(not MIRROR, reason="needs CoLA: set LEAKLAB_MIRROR")
def test_cola_as_it_is_published(fetch, monkeypatch):
    monkeypatch.setenv("LEAKLAB_MIRROR", MIRROR)
    corpus = Corpus.load(fetch("cola") / "corpus.json")
    assert len(corpus.sentences.texts) == 8551
    assert sum(corpus.sentences.labels) == 6023
    assert set(PRINTED.texts) <= set(corpus.sentences.texts)
    assert not any(UNKNOWN in corpus.vocabulary.encode(text) for text in corpus.sentences.texts)


def test_cola_is_read_from_its_zip_with_a_smallest_count(tmp_path):
    path = tmp_path / "cola.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for part in ("in_domain_train", "in_domain_dev", "out_of_domain_dev"):
            archive.writestr(f"cola_public/raw/{part}.tsv", f"x\t1\t\tJohn saw John {part}.\n")
    sentences, vocabulary = make_text_reader(Component(name="cola")).read({"archive": path})
    assert sentences.texts == ("John saw John in_domain_train.",)
    assert {"john", "saw", "train"} <= set(vocabulary.tokens)
    few = make_text_reader(Component(name="cola", settings={"smallest_count": 2})).read({"archive": path})[1]
    assert few.tokens[4:] == ("_", "john")


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"name": "colla"}, "unknown text reader 'colla': choose from cola, printed"),
        ({"name": "cola", "smallest": 2}, "text reader 'cola' does not take smallest"),
    ],
)
def test_wrong_readers_are_refused(choice, message):
    with pytest.raises(UserError, match=message):
        make_text_reader(Component.model_validate(choice))
    with pytest.raises(UserError, match="needs a file called 'archive', it has words"):
        corpus.Cola().read({"words": Path("words.txt")})


def test_every_source_of_the_catalog_has_a_reader():
    for name in ("printed-sentences", "cola"):
        entry = find_text(name, CATALOG)
        for source in filter(None, (entry.embedded, entry.mirror, entry.official)):
            assert source.reader.name in TEXT_READERS
            assert source.substitute


def test_another_json_is_no_corpus(tmp_path):
    (tmp_path / "corpus.json").write_text("{}", encoding="utf-8")
    with pytest.raises(UserError, match="is not a prepared text data set: delete it and run snakemake again"):
        Corpus.load(tmp_path / "corpus.json")
