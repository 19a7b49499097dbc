"""Compiled templates are kept between processes, and nothing depends on their being there."""

import pytest
from jinja2 import DictLoader, Environment

from leaklab.report.site.site import KeptTemplates


def rendered(folder, text="{{ 1 + 1 }}"):
    environment = Environment(loader=DictLoader({"page": text}), bytecode_cache=KeptTemplates(folder))
    return environment.get_template("page").render()


def test_what_was_compiled_is_not_compiled_again_unless_its_source_changed(tmp_path, monkeypatch):
    folder = tmp_path / "kept/templates"
    assert rendered(folder) == "2"
    monkeypatch.setattr(Environment, "compile", lambda *_, **__: pytest.fail("it was compiled before"))
    assert rendered(folder) == "2"
    monkeypatch.undo()
    assert rendered(folder, "{{ 2 + 1 }}") == "3"


def test_damaged_or_refused_files_count_as_none(tmp_path):
    folder = tmp_path / "templates"
    rendered(folder)
    (kept,) = folder.iterdir()
    for content in (b"", b"no template", kept.read_bytes()[:-5]):
        kept.write_bytes(content)
        assert rendered(folder) == "2"
    kept.unlink()
    kept.mkdir()
    assert rendered(folder) == "2"
    assert rendered(tmp_path / "page" / "below", "x") == "x"
    (tmp_path / "file").write_text("")
    assert rendered(tmp_path / "file" / "below") == "2"
