"""What an unfinished job keeps: its own tensors come back, anything else counts as nothing."""

import pytest
import torch

from leaklab.records.errors import UserError
from leaklab.records.kept import KeptTensors, read_kept

TENSORS = {"weights/0": torch.arange(3.0), "step": torch.tensor(7)}


def test_kept_tensors_come_back_to_the_same_job_only(tmp_path):
    path = tmp_path / "checkpoint.safetensors"
    KeptTensors(path, "one job").keep(TENSORS)
    found = KeptTensors(path, "one job").found()
    assert set(found) == set(TENSORS)
    assert all(torch.equal(found[name], value) for name, value in TENSORS.items())
    assert KeptTensors(path, "another job").found() == {}


def test_nothing_and_damage_count_as_nothing(tmp_path):
    path = tmp_path / "checkpoint.safetensors"
    kept = KeptTensors(path, "job")
    assert kept.found() == {}
    path.write_bytes(b"no tensors")
    assert kept.found() == {}
    kept.remove()
    kept.remove()
    assert not path.exists()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool])
def test_a_single_bit_that_has_flipped_is_damage(tmp_path, dtype):
    path = tmp_path / "checkpoint.safetensors"
    KeptTensors(path, "job").keep(
        {"value": torch.ones(2, 3).to(dtype), "none": torch.zeros(0, 4), "one": torch.ones(())}
    )
    assert torch.equal(KeptTensors(path, "job").found()["value"], torch.ones(2, 3).to(dtype))
    whole = path.read_bytes()
    for place in range(len(whole) - len(whole) // 2, len(whole), 3):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert KeptTensors(path, "job").found() == {}, place
        with pytest.raises(UserError, match=f"^{path} .*damaged"):
            read_kept(path)


def test_an_offer_is_taken_when_it_is_time(tmp_path):
    path = tmp_path / "checkpoint.safetensors"
    asked = []

    def collected():
        asked.append(1)
        return TENSORS

    KeptTensors(path, "job", seconds=3600).offer(collected)
    assert (asked, path.exists()) == ([], False)
    KeptTensors(path, "job", seconds=0).offer(collected)
    assert (asked, path.exists()) == ([1], True)
