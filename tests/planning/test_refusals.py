"""Nonsense in an item is refused by the plan with file and key: values that a job would choke on, or train with."""

import pytest

from leaklab.items.items import load_item
from leaklab.planning.plan import build_plan
from leaklab.records.errors import UserError

TRAIN = """
    stage: train
    dataset: digits
    partition: {name: two-clients, shard_size: 5}
    model: mlp
    rates: [[0.1]]
    rounds: 2
    local_steps: 3
    batch_size: 4
    seeds: [1, 2]
"""
ATTACK = """
    stage: attack
    dataset: digits
    images: {count: 2}
    model: dlg-lenet
    attack: idlg
    iterations: 5
    metrics: [mse]
"""
DEAL = "partition: {name: iid, clients: 4}"
CHECK = "\n    stage: check\n    check: lemma-sampling\n"
HEAD = "paper: lrp\nitem: table1\ntitle: A title\nnumber: 1\nkind: table\nrenderer: table\nscales: {small: {}}\n"
ITEM = f"{HEAD}runs:\n  main:"


@pytest.fixture
def refusal(tmp_path):
    def refused(block, change):
        """Plan a block with the lines of ``change`` in place of those with the same keys."""
        lines = [line.strip() for line in change.split("\n")]
        keys = {line.partition(":")[0] for line in lines}
        kept = [line for line in block.split("\n") if line.strip().partition(":")[0] not in keys]
        path = tmp_path / "lrp/table1.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join([ITEM + kept[0], *kept[1:], *(f"    {line}" for line in lines)]), encoding="utf-8")
        with pytest.raises(UserError) as caught:
            plan(path)
        message = str(caught.value)
        assert "\n" not in message
        assert "lrp/table1.yaml: " in message
        return message.partition("lrp/table1.yaml: ")[2]

    return refused


def plan(path):
    item = load_item(path)
    return build_plan({item.key: item})


@pytest.mark.parametrize("block", [TRAIN, ATTACK, CHECK])
def test_the_blocks_as_they_stand_are_planned(tmp_path, block):
    path = tmp_path / "lrp/table1.yaml"
    path.parent.mkdir()
    path.write_text(f"{ITEM}{block}", encoding="utf-8")
    assert plan(path).jobs


@pytest.mark.parametrize(
    ("block", "change", "key"),
    [
        # not numbers (I1)
        (TRAIN, "defense: {name: additive-noise, sigma: .nan}", "runs.main.defense.sigma: .nan is not a number"),
        (TRAIN, "defense: {name: laplace-noise, variance: .inf}", "runs.main.defense.variance: .inf is not a number"),
        (ATTACK, "defense: {name: outpost, pruned: 0.0}", "runs.main: defenses plug-in 'outpost': pruned"),
        (ATTACK, "defense: {name: outpost, noised: 1.4}", "runs.main: defenses plug-in 'outpost': noised"),
        (TRAIN, "defense: {name: soteria-probes, probes: 0}", "runs.main: defenses plug-in 'soteria-probes': probes"),
        # a root set that no batch holds
        (TRAIN, "defense: {name: grad-defense, root_samples: 5}", "runs.main: defense 'grad-defense' looks at 5 samp"),
        (ATTACK, "defense: {name: grad-defense, root_samples: 2}", "runs.main: defense 'grad-defense' looks at 2 samp"),
        # layers in training state that the attack cannot follow, whatever the size of the batch
        (ATTACK, "model: resnet-small\nmode: train", "runs.main: attack 'idlg' cannot follow model 'resnet-small' in"),
        (ATTACK, "model: resnet-18\nmode: train\nattack: dlg\nbatch_size: 2", "runs.main: attack 'dlg' cannot follow"),
        (ATTACK, "model: mlp\nmode: train", "runs.main: attack 'idlg' does not know the dropout masks of model 'mlp'"),
        # steps that are no gradients
        (ATTACK, "model: mlp\nattack: analytic\noptimizer: adam", "runs.main: attack 'analytic' reads updates of sgd,"),
        (ATTACK, "optimizer: adam", "runs.main: attack 'idlg' reads updates of sgd, not of adam"),
        # a budget without noise
        (TRAIN, "defense: {name: dp-sgd, sigma: 0, epsilon: 4}", "runs.main: defense 'dp-sgd': sigma 0 adds no noise"),
        (ATTACK, "defense: {name: dp-sgd, sigma: 0.0, epsilon: 4}", "runs.main: defense 'dp-sgd': sigma 0 adds no"),
        (TRAIN, "defense: {name: dp-sgd, sampling: drawn}", "runs.main: defenses plug-in 'dp-sgd': sampling: "),
        (TRAIN, "rates: [[.inf]]", "runs.main.rates.0.0: .inf is not"),
        # malformed keys of blocks (I2)
        (TRAIN, "overrides: {when: none}", "runs.main: overrides"),
        (TRAIN, "overrides: [{when: none, set: {rounds: 3}}]", "runs.main: overrides.0.when"),
        (TRAIN, "overrides: [{when: {model: mlp}, set: text}]", "runs.main: overrides.0.set"),
        (TRAIN, "overrides: -0.0", "runs.main: overrides"),
        (TRAIN, "skip: 3", "runs.main: skip"),
        (TRAIN, "skip: [mlp]", "runs.main: skip.0"),
        (TRAIN, "like: {main: 1}", "runs.main.like: "),
        (TRAIN, "variant: [a]", "runs.main: variant"),
        (TRAIN, "rate: {grid: [x]}\nrates: null", "runs.main.rate: grid.0"),
        (TRAIN, "rate: {grid: [[x]]}\nrates: null", "runs.main.rate: grid.0.0"),
        # who trains with whom, and how fast (I4, I5)
        (TRAIN, "clients_per_round: -1", "runs.main: clients_per_round: Input should be greater than or equal to 1"),
        (TRAIN, "clients_per_round: 0", "runs.main: clients_per_round: "),
        (TRAIN, "rates: [[-1.0]]", "runs.main: rates.0.0: Input should be greater than 0"),
        (TRAIN, "rates: [[0]]", "runs.main: rates.0.0: "),
        (TRAIN, "rates: [[1.0e+308]]", "runs.main: rates.0.0: Input should be less than or equal to 1000"),
        # empty and sizeless (I6, I7)
        (TRAIN, "seeds: []", "runs.main: seeds: "),
        (TRAIN, "rates: []", "runs.main: rates: "),
        (TRAIN, "rates: [[]]", "runs.main: rates.0: "),
        (TRAIN, "rate: {grid: []}\nrates: null", "runs.main.rate: grid: "),
        (TRAIN, "rate: {grid: [[]]}\nrates: null", "runs.main.rate: grid.0: "),
        (TRAIN, "model: {name: mlp, hidden: 0}", "runs.main: models plug-in 'mlp': hidden: "),
        (ATTACK, "attack: {name: idlg, history: 0}", "runs.main: attacks plug-in 'idlg': history: "),
        (ATTACK, "attack: {name: idlg, matched: a}", "runs.main: attacks plug-in 'idlg': matched: "),
        (ATTACK, f"seed: {10**18 * 10}", "runs.main.seed: 1000"),
        (ATTACK, f"seed: {10**30}", "runs.main.seed: 1000"),
        (ATTACK, f"seed: {'9' * 5000}", "runs.main.seed: 9999"),
        (TRAIN, "dataset: []", "runs.main.dataset: the list is empty"),
        (ATTACK, "attack: []", "runs.main.attack: the list is empty"),
        (ATTACK, "transform: []", "runs.main.transform: the list is empty"),
        (ATTACK, "metrics: []", "runs.main: metrics: "),
        # said twice, or as something else (I8, I9)
        (TRAIN, "seeds: [1, 1, 2]", "runs.main: seeds: 1 stands here twice"),
        (ATTACK, "attack: [idlg, idlg]", 'runs.main.attack: "idlg" stands here twice'),
        (ATTACK, "metrics: [mse, mse]", 'runs.main: metrics: "mse" stands here twice'),
        (TRAIN, "rounds: true", "runs.main: rounds: Input should be a valid integer"),
        (TRAIN, "rounds: '7'", "runs.main: rounds: Input should be a valid integer"),
        (TRAIN, "rounds: 7.0", "runs.main: rounds: Input should be a valid integer"),
        (ATTACK, "rate: true", "runs.main: attack.capture.rate: Input should be a valid number"),
        (TRAIN, "model: {name: mlp, hidden: 3, hidden: 4}", "runs.main.model.hidden: the key stands here twice"),
        (TRAIN, "model: {name: mlp, 3: 4}", "runs.main.model: the key 3 is not text"),
        (TRAIN, "dataset: 2020-01-01", "runs.main.dataset: !!timestamp has no meaning here"),
        # no such data set (I10)
        (TRAIN, "dataset: nope", "runs.main: unknown dataset 'nope': choose from digits, "),
        (ATTACK, 'dataset: "mnist; touch x"', "runs.main: unknown dataset 'mnist; touch x'"),
        (ATTACK, "dataset: ../mnist", "runs.main: unknown dataset '../mnist'"),
        # sizes that nobody can mean (I11, I12)
        (TRAIN, "rounds: 1000001", "runs.main: rounds: Input should be less than or equal to 1000000"),
        (ATTACK, "images: {count: 1000000000}", "runs.main: attack.capture.images.count: "),
        (ATTACK, "images: {coumt: 2}", "runs.main: attack.capture.images.coumt: unknown key; known keys are count, "),
        (ATTACK, f"images: {{{DEAL}, clients: [1, 1]}}", "runs.main: attack.capture.images.clients: clients are diff"),
        (ATTACK, f"images: {{{DEAL}, clients: [1], sed: 3}}", "runs.main: attack.capture.images.sed: unknown key; "),
        (ATTACK, f"images: {{{DEAL}}}", "runs.main: attack.capture.images.clients: Field required"),
        (ATTACK, "images: 3", "runs.main: attack.capture.images: Input should be a valid dictionary"),
        (ATTACK, "restarts: 1000000000", "runs.main: attack.restarts: Input should be less than or equal to 1000"),
        (ATTACK, "attack: {name: idlg, improvement: 2}", "runs.main: attacks plug-in 'idlg': improvement: "),
        (ATTACK, "attack: {name: idlg, patience: 0}", "runs.main: attacks plug-in 'idlg': patience: "),
        (ATTACK, "attack: {name: ggl, population: -1}", "runs.main: attacks plug-in 'ggl': population: "),
        (CHECK, "check: {name: lemma-sampling, draws: 1000000000}", "theory plug-in 'lemma-sampling': draws: "),
        (ATTACK, "defense: {name: additive-noise, sigma: 1.0e+308}", "defenses plug-in 'additive-noise': sigma: "),
        (TRAIN, f"rounds: {list(range(1, 202))}\nlocal_steps: {list(range(1, 202))}", "runs.main: 40,401 combinations"),
    ],
)  # fmt: skip
def test_nonsense_is_refused_with_its_key(refusal, block, change, key):
    assert key in refusal(block, change)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"title: \xff", "is not UTF-8 text (byte 7): save it as UTF-8"),
        ("title: Größe".encode("latin-1"), "is not UTF-8 text"),
        ("title: x".encode("utf-16"), "is not UTF-8 text"),
        (b"[" * 20_000, "nested more than 50 levels deep"),
        (b"[" * 200_000 + b"]" * 200_000, "nested more than 50 levels deep"),
        (b"- " * 20_000 + b"a", "nested more than 50 levels deep"),
        (b"title: &a [*a]", "an anchor that contains itself"),
        (b"a: &a [x, x, x, x, x, x, x, x, x]\n" + b"".join(
            b"%c: &%c [%s]\n" % (name, name, b", ".join([b"*%c" % (name - 1)] * 9)) for name in range(98, 106)
        ), "anchors and aliases repeat too much"),
    ],
)  # fmt: skip
def test_a_file_that_nobody_can_read_is_named(tmp_path, content, what):
    path = tmp_path / "lrp/table1.yaml"
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        load_item(path)
    assert str(path) in str(caught.value)
    assert what in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("row", "refusal"),
    [
        ("{method: row.method}", "'row.method' does not point into the runs of this block: give it that field"),
        ("{eta: rates}", "'rates' is "),
        ("{eta: rates.1}", "'rates.1' does not point into the runs of this block"),
        ("{eta: rates.0, model: model.name, steps: local_steps}", ""),
        ("{model: {from: model.names}}", "'model.names' does not point into the runs of this block"),
    ],
)
def test_a_row_key_that_leads_nowhere_is_refused_before_anything_runs(tmp_path, row, refusal):
    path = tmp_path / "lrp/table1.yaml"
    path.parent.mkdir()
    path.write_text(f"{ITEM}{TRAIN}cells: {{row: {row}}}\n", encoding="utf-8")
    if not refusal:
        assert plan(path).runs["small", "lrp/table1"]
        return
    with pytest.raises(UserError) as caught:
        plan(path)
    assert f"lrp/table1.yaml: runs.main: cells.row: {refusal}" in str(caught.value)


@pytest.mark.parametrize(("headline", "refused"), [("reconstruction_loss", True), ("psnr", False), ("", False)])
def test_a_headline_that_no_guess_can_be_held_against_is_refused(tmp_path, headline, refused):
    path = tmp_path / "lrp/table1.yaml"
    path.parent.mkdir()
    block = ATTACK.replace("[mse]", "[psnr, reconstruction-loss]")
    path.write_text(f"{ITEM}{block}headline: '{headline}'\n", encoding="utf-8")
    if not refused:
        assert plan(path).runs["small", "lrp/table1"]
        return
    with pytest.raises(UserError, match="headline: 'reconstruction_loss' compares no images") as caught:
        plan(path)
    assert "\n" not in str(caught.value)


LEARNT = "attack: annealed-likelihood\ngenerator: {dataset: digits, model: class-gaussian, steps: 1}\n"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (LEARNT + "transform: learnt", "transform 'learnt' takes a law of the defense: add law: {images: 24}"),
        (LEARNT + "law: {images: 3}", "transform 'none' takes no law: leave law out, set law.images: 0"),
        (LEARNT + "law: {images: 0}", "nothing is rehearsed: set law.images or law.gate, or leave law out"),
        (LEARNT + "law: {images: 0, gate: 6}", "attack 'annealed-likelihood' has nothing to choose: set attack.splits"),
        (LEARNT + "transform: learnt\nlaw: {image: 3}", "law.image"),
        ("attack: annealed-likelihood\ntransform: learnt\nlaw: {images: 3}", "generator"),
    ],
)
def test_a_law_without_who_takes_it_or_who_takes_one_without_it_is_refused(refusal, change, says):
    assert says in refusal(ATTACK, change)
