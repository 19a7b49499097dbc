"""Files of a colleague's, altered at random: each is read rightly or refused in one line, and never ends in a crash."""

import copy
import json

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leaklab.captures.truth import Truth, load_truth, save_truth
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.files import load_observation, save_observation
from leaklab.records.errors import UserError

CASES = settings(
    max_examples=600, deadline=None, database=None, derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)
FACTS = {
    "architecture": {"name": "mlp", "settings": {}}, "batch_size": 3, "local_steps": 1, "nominal_rate": 0.1,
    "step_factors": [1.0], "input_shape": [1, 4, 4], "input_range": [0.0, 1.0], "num_classes": 3, "round": 0,
    "normalisation": {"mean": [0.1], "std": [0.3]}, "optimizer": {"name": "sgd", "settings": {}},
    "weight_decay": 0.0, "labels": [[1], [2], [0], [1]],
}  # fmt: skip


@pytest.fixture
def observation(tmp_path):
    """The files of a whole observation."""
    weights = {"z": torch.rand(2, 3), "a": torch.rand(2)}
    update = {name: torch.rand(4, *value.shape) for name, value in weights.items()}
    files = tmp_path / "observation.safetensors", tmp_path / "facts.json"
    whole = Observation(weights, update, "delta", "train", {"name": "mlp", "settings": {}}, (0, 1, 2, 3))
    save_observation(*files, whole, Knowledge("honest-but-curious-with-labels", FACTS))
    return files


@pytest.fixture
def truth(tmp_path):
    """The files of a whole truth."""
    files = tmp_path / "truth.safetensors", tmp_path / "truth.json"
    trial = {"image": 5, "draw": 0}
    save_truth(*files, Truth(torch.rand(2, 1, 1, 4, 4), torch.tensor([[1], [2]]), torch.rand(2, 3), (trial,) * 2))
    return files


def places(value, way=()):
    """Return the ways to all values inside a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [way, *(place for key, part in inner for place in places(part, (*way, key)))]


def altered(value, draw):
    """Return a JSON value with one value inside it dropped, replaced, or set beside what is there."""
    found = copy.deepcopy(value)
    way = draw(st.sampled_from(places(found)[1:]))
    holder = found
    for key in way[:-1]:
        holder = holder[key]
    match draw(st.sampled_from(["drop", "replace", "beside"])):
        case "drop":
            del holder[way[-1]]
        case "replace":
            holder[way[-1]] = draw(JUNK)
        case "beside" if isinstance(holder, dict):
            holder[draw(st.text(max_size=6))] = draw(JUNK)
        case _:
            holder.append(draw(JUNK))
    return found


def damaged(content, draw):
    """Return bytes that are cut short, have bits turned, or have other bytes put in."""
    place = draw(st.integers(0, len(content) - 1))
    match draw(st.sampled_from(["cut", "turn", "put"])):
        case "cut":
            return content[:place]
        case "turn":
            return content[:place] + bytes([content[place] ^ (1 << draw(st.integers(0, 7)))]) + content[place + 1 :]
    return content[:place] + draw(st.binary(min_size=1, max_size=12)) + content[place:]


def reads_or_refuses(load, files):
    """Load; a refusal is one line that names a file. Returns what was read."""
    try:
        return load(*files)
    except UserError as error:
        said = str(error)
    assert "\n" not in said
    assert any(str(file) in said for file in files), said
    return None


@CASES
@given(st.data())
def test_altered_facts(observation, data):
    content = json.loads(observation[1].read_text())
    try:
        observation[1].write_text(json.dumps(altered(content, data.draw)))
        found = reads_or_refuses(load_observation, observation)
        if found:
            assert set(found[1].facts) <= set(FACTS)
            assert len(found[0].trials) == 4
    finally:
        observation[1].write_text(json.dumps(content))


@CASES
@given(st.data())
def test_altered_truth(truth, data):
    content = truth[1].read_bytes()
    try:
        truth[1].write_text(json.dumps(altered(json.loads(content), data.draw)))
        reads_or_refuses(load_truth, truth)
    finally:
        truth[1].write_bytes(content)


@pytest.mark.parametrize("kind", ["observation", "truth"])
@pytest.mark.parametrize("part", [0, 1])
@CASES
@given(st.data())
def test_damaged_bytes(request, kind, part, data):
    files = request.getfixturevalue(kind)
    content = files[part].read_bytes()
    try:
        files[part].write_bytes(damaged(content, data.draw))
        reads_or_refuses(load_observation if kind == "observation" else load_truth, files)
    finally:
        files[part].write_bytes(content)
