"""The landscape of an attack: inversion, attack and map as the rules run them, and what a hidden factor does to it."""

import json

import pytest
import torch
from sklearn.datasets import load_digits

from leaklab.records.files import read_json, read_table, read_tensors, write_json, write_tensors
from leaklab.steps import capture_updates, map_landscape, project_image, run_attack, train_generator

GENERATOR = {
    "dataset": "digits",
    "model": {"name": "conditional-gan", "latent_size": 8, "embedding": 4, "width": 8},
    "steps": 20,
    "batch_size": 8,
    "classifier": {"name": "resnet-small", "width": 4},
    "classifier_steps": 4,
    "judged": 3,
}
IMAGES = {"split": "test", "count": 2}
PLANTED = {"count": 2, "seed": 5, "planted": GENERATOR}
PROJECTION = {
    "dataset": "digits",
    "images": IMAGES,
    "generator": GENERATOR,
    "generations": 3,
    "population": 4,
    "inner_steps": 5,
    "final_steps": 60,
}


def attack_on(defense, transform="none", weight=2.0, images=None):
    capture = {"dataset": "digits", "images": images or IMAGES, "model": "dlg-lenet", "defense": defense}
    capture["client_weight"] = weight
    return {
        "capture": capture,
        "attack": {"name": "ggl", "population": 8},
        "transform": transform,
        "iterations": 5,
        "generator": GENERATOR,
    }


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("landscape")


@pytest.fixture(scope="module")
def digits(place):
    loaded = load_digits()
    images, labels = torch.tensor(loaded.images * 15).to(torch.uint8)[:, None], torch.tensor(loaded.target)
    path = place / "digits.safetensors"
    parts = {"train": slice(0, 200), "test": slice(200, 240)}
    tensors = {f"{part}_images": images[rows].clone() for part, rows in parts.items()}
    write_tensors(path, tensors | {f"{part}_labels": labels[rows].clone() for part, rows in parts.items()})
    card = {"name": "digits", "num_classes": 10, "shape": [1, 8, 8], "mean": [0.5], "std": [0.3], "substitute": None}
    write_json(path.with_suffix(".json"), card)
    return {"dataset": path, "card": path.with_suffix(".json")}


@pytest.fixture(scope="module")
def generator(step, place, digits):
    inputs = {"dataset": digits["dataset"], "dataset_card": digits["card"]}
    outputs = {"generator": "generator.safetensors", "description": "generator.json", "card": "card.json"}
    made = step(train_generator, place / "generator", GENERATOR, inputs, outputs)
    return {name: made[name] for name in ("generator", "description")}


@pytest.fixture(scope="module")
def projected(step, place, digits, generator):
    def run(**changes):
        folder = place / f"projection-{sum(map(ord, json.dumps(changes)))}"
        outputs = {"projection": "projection.safetensors"}
        spec = {**PROJECTION, **changes}
        return step(project_image, folder, spec, {**digits, **generator}, outputs)["projection"]

    return run


@pytest.fixture(scope="module")
def projection(projected):
    return projected()


@pytest.fixture(scope="module")
def mapped(step, place, digits, generator, projected):
    found = {}

    def landscape(attack, **changes):
        images = attack["capture"]["images"]
        projection = projected(**({} if images == IMAGES else {"images": images}))
        key = json.dumps([attack, changes], sort_keys=True)
        if key not in found:
            folder = place / f"map-{len(found)}"
            captured = {"observation": "observation.safetensors", "facts": "facts.json"}
            truth = {"truth": "truth.safetensors", "truth_facts": "truth_facts.json"}
            planting = generator if "planted" in images else {}
            files = {**captured, **truth}
            seen = step(capture_updates, folder / "capture", attack["capture"], {**digits, **planting}, files)
            attacked = step(
                run_attack,
                folder / "attack",
                {name: value for name, value in attack.items() if name != "capture"},
                {**{name: seen[name] for name in captured}, **generator},
                {"reconstruction": "reconstruction.safetensors", "trials": "trials.csv"},
            )
            spec = {
                "attack": attack,
                "projection": {**PROJECTION, "images": images},
                "metrics": ["mse", "psnr"],
                **changes,
            }
            ends = {"reconstruction": attacked["reconstruction"], "projection": projection}
            files = {"landscape": "landscape.csv", "cards": "cards.json"}
            found[key] = (step(map_landscape, folder, spec, {**seen, **ends, **generator}, files), attacked)
        return found[key]

    return landscape


def test_the_line_begins_at_the_attacks_latent_and_ends_at_the_inverted_one(mapped, projection):
    files, attacked = mapped(attack_on("none"))
    table = read_table(files["landscape"])
    assert list(table) == ["image", "alpha", "matching_loss", "profiled_loss", "mse", "psnr"]
    losses = read_tensors(attacked["reconstruction"])["candidate_losses"][:, 0]
    errors = read_json(projection.with_name("run.json"))["facts"]["mean_squared_errors"]
    assert table.image.nunique() == 2
    for (_, own), loss, error in zip(table.groupby("image", sort=False), losses.tolist(), errors, strict=True):
        assert len(own) == 61
        start, end = ((own.alpha - place).abs().idxmin() for place in (0, 1))
        assert own.matching_loss[start] == pytest.approx(loss, rel=1e-6)
        assert own.mse[end] == pytest.approx(error, abs=1e-5)
    assert set(read_json(files["cards"])["metrics"]) == {"mse", "psnr"}


def test_a_plane_contains_the_line(mapped):
    plane = read_table(mapped(attack_on("none"), alpha=[0, 1, 3], beta=[-1, 1, 3])[0]["landscape"])
    line = read_table(mapped(attack_on("none"), alpha=[0, 1, 3])[0]["landscape"]).drop(columns="profiled_loss")
    assert plane.alpha.tolist() == [0, 0, 0, 0.5, 0.5, 0.5, 1, 1, 1] * 2
    assert plane.beta.tolist() == [-1, 0, 1] * 3 * 2
    middle = plane[plane.beta == 0].drop(columns="beta").reset_index(drop=True)
    torch.testing.assert_close(torch.tensor(middle.to_numpy()), torch.tensor(line.to_numpy()), rtol=1e-6, atol=1e-9)


def test_with_the_scale_profiled_out_lrp_has_the_landscape_without_defense(mapped):
    """LRP draws one factor for a single local step; figure 4's reformed curve is that factor and nothing else."""
    none, lrp = (read_table(mapped(attack_on(name, "profiled-scale"))[0]["landscape"]) for name in ("none", "lrp"))
    torch.testing.assert_close(torch.tensor(lrp.to_numpy()), torch.tensor(none.to_numpy()), rtol=1e-5, atol=1e-8)
    plain, bent = (read_table(mapped(attack_on(name))[0]["landscape"]) for name in ("none", "lrp"))
    assert abs(bent.matching_loss / plain.matching_loss - 1).max() > 0.01


def test_a_planted_image_lies_at_the_end_of_its_line(mapped):
    """There the loss without defense and the distance are zero, as nowhere else."""
    table = read_table(mapped(attack_on("none", weight=1.0, images=PLANTED), alpha=[-1, 2, 13])[0]["landscape"])
    assert table.image.unique().tolist() == [0, 1]
    there = (table.alpha - 1).abs() < 1e-9
    assert table[there].mse.max() < 1e-30 < table[~there].mse.min()
    assert table[there].matching_loss.max() < 1e-20 < table[~there].matching_loss.min()


def test_planted_images_do_not_depend_on_how_many_there_are(projected):
    two, three = (read_tensors(projected(images={**PLANTED, "count": count}))["latents"] for count in (2, 3))
    assert torch.equal(two, three[:2])
    assert not torch.equal(two[0], two[1])


def test_an_inversion_comes_nearer_the_longer_it_searches(projected, projection):
    short = projected(generations=1, inner_steps=1, final_steps=1)
    assert float(read_tensors(projection)["losses"][0]) < float(read_tensors(short)["losses"][0])


def test_a_distance_without_derivative_is_refused(projected):
    with pytest.raises(SystemExit, match="metric 'mse' has no derivative here: choose an lpips one"):
        projected(perceptual="mse")


def test_an_attack_without_latents_is_refused(mapped):
    with pytest.raises(SystemExit, match="uses no generator"):
        mapped({**attack_on("none"), "attack": "idlg"})
