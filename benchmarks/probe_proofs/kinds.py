"""A dozen kinds of clients, each with the batch that it trains on."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaklab.probing.client import Client
from probe_proofs.clients import draw_from, mlp, pictures

VOCABULARY, WORDS = 200, 12


@dataclass(frozen=True)
class Kind:
    """A client and its batch."""

    client: Client
    inputs: Tensor
    targets: Tensor


class TwoHeads(nn.Module):
    """One body, two answers."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.first, self.second = mlp(625, 200, 50), nn.Linear(50, 10).double(), nn.Linear(50, 2).double()

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits of both."""
        seen = self.body(images).relu()
        return self.first(seen), self.second(seen)


class Bare(nn.Module):
    """Parameters of no layer, the second of them used twice."""

    def __init__(self) -> None:
        super().__init__()
        draw_from(0)
        self.first = nn.Parameter(0.04 * torch.randn(625, 200).double())
        self.offset = nn.Parameter(torch.zeros(200).double())
        self.again = nn.Parameter(0.07 * torch.randn(200, 200).double())
        self.last = nn.Linear(200, 10).double()

    def forward(self, images: Tensor) -> Tensor:
        """Return logits."""
        seen = (images.flatten(1) @ self.first + self.offset).relu()
        return self.last(((seen @ self.again).relu() @ self.again).relu())


class LowRank(nn.Module):
    """A frozen layer and what is trained beside it."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        draw_from(base.out_features)
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(0.05 * torch.randn(4, base.in_features).double())
        self.up = nn.Parameter(0.05 * torch.randn(base.out_features, 4).double())

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the sum of both."""
        return self.base(inputs) + inputs @ self.down.T @ self.up.T


class Residual(nn.Module):
    """Two blocks of convolutions with a norm, and a head."""

    def __init__(self, norm: Callable[[int], nn.Module]) -> None:
        super().__init__()
        draw_from(0)
        self.stem = nn.Conv2d(1, 8, 3, padding=1)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), norm(8)) for _ in range(2))
        self.head = nn.Linear(8, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits."""
        seen = self.stem(images)
        for block in self.blocks:
            seen = (seen + block(seen)).relu()
        return self.head(seen.mean((2, 3)))


class Reader(nn.Module):
    """Embedding, LSTM and a head."""

    def __init__(self) -> None:
        super().__init__()
        draw_from(0)
        self.words, self.cells = nn.Embedding(VOCABULARY, 16), nn.LSTM(16, 24, batch_first=True)
        self.head = nn.Linear(24, 4)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits after the last word."""
        return self.head(self.cells(self.words(tokens))[0][:, -1])


def _cnn() -> nn.Module:
    draw_from(0)
    return nn.Sequential(
        nn.Conv2d(1, 8, 5, stride=2),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(200, 10),
    ).double()


def _low_rank() -> nn.Module:
    network = mlp(625, 200)
    return nn.Sequential(*(LowRank(one) if isinstance(one, nn.Linear) else one for one in network))


def _vit() -> nn.Module:
    import timm  # slow to import

    draw_from(0)
    # as for small pictures: 64 patches, tokens of 192 numbers
    network: nn.Module = timm.create_model("vit_tiny_patch16_224", img_size=32, patch_size=4, num_classes=10, depth=4)
    return network


def _resnet() -> nn.Module:
    from torchvision.models import resnet18  # slow to import

    draw_from(0)
    network: nn.Module = resnet18(num_classes=10)
    return network


def _tokens(count: int) -> Tensor:
    draws = torch.Generator().manual_seed(5)  # one of its own: the same sentences for all networks
    return torch.randint(0, VOCABULARY, (count, WORDS), generator=draws)


def _bert() -> nn.Module:
    from transformers import BertConfig, BertForSequenceClassification  # slow to import

    draw_from(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    return BertForSequenceClassification(
        BertConfig(vocab_size=VOCABULARY, **sizes, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    )


def _gpt2() -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel  # slow to import

    draw_from(0)
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 32}
    return GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, **sizes, embd_pdrop=0.0, attn_pdrop=0.0, resid_pdrop=0.0))


def _next_word(logits: Tensor, tokens: Tensor) -> Tensor:
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def _tabular(count: int) -> tuple[Tensor, Tensor]:
    draws = torch.Generator().manual_seed(3)  # one of its own: the same table for all
    inputs = torch.randn(count, 30, generator=draws, dtype=torch.float64) * torch.arange(1, 31)
    return inputs, inputs[:, :1] * 0.1 + 1


def _two_losses(outputs: tuple[Tensor, Tensor], targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs[0], targets) + F.cross_entropy(outputs[1], targets % 2)


def kinds() -> dict[str, Callable[[], Kind]]:
    """Return all kinds by name, each made when it is called."""

    def of(network: Callable[[], nn.Module], count: int, side: int = 25, channels: int = 1, **client: object):
        def made() -> Kind:
            inputs, targets = pictures(count, side, channels)
            model = network()
            kind = next(model.parameters()).dtype
            return Kind(Client(model, **client), inputs.to(kind), targets)  # type: ignore[arg-type]

        return made

    def words(network: Callable[[], nn.Module], loss: object = F.cross_entropy, **client: object):
        def made() -> Kind:
            tokens = _tokens(4)
            targets = tokens if loss is _next_word else torch.arange(4) % 2
            return Kind(Client(network(), loss=loss, **client), tokens, targets)  # type: ignore[arg-type]

        return made

    def table(count: int) -> Callable[[], Kind]:
        return lambda: Kind(Client(mlp(30, 100, 1), loss=F.mse_loss), *_tabular(count))

    def logits(model: nn.Module, tokens: Tensor) -> Tensor:
        found: Tensor = model(tokens).logits
        return found

    return {
        "MLP, 1 sample": of(lambda: mlp(625, 200), 1),
        "MLP, 4 samples": of(lambda: mlp(625, 200), 4),
        "MLP, 32 samples": of(lambda: mlp(625, 200), 32),
        "MLP, 4 samples, float32": of(lambda: mlp(625, 200).float(), 4),
        "MLP, 1 sample, 5 steps": of(lambda: mlp(625, 200), 1, steps=5),
        "MLP, 1 sample, Adam": of(lambda: mlp(625, 200), 1, optimizer=torch.optim.Adam),
        "MLP, 4 samples, loss x 0.5": of(lambda: mlp(625, 200), 4, loss=lambda o, t: 0.5 * F.cross_entropy(o, t)),
        "MLP, 4 samples, smoothing": of(
            lambda: mlp(625, 200), 4, loss=lambda o, t: F.cross_entropy(o, t, label_smoothing=0.1)
        ),
        "MLP of GELU, 1 sample": of(lambda: mlp(625, 200, activation=nn.GELU), 1),
        "MLP of GELU, 4 samples": of(lambda: mlp(625, 200, activation=nn.GELU), 4),
        "dropout behind the first layer, 4 samples": of(
            lambda: (lambda net: nn.Sequential(*net[:3], nn.Dropout(0.5), *net[3:]))(mlp(625, 200)), 4
        ),
        "2x2 mean before an MLP, 1 sample": of(lambda: nn.Sequential(nn.AvgPool2d(2), mlp(144, 200)), 1),
        "two heads, 4 samples": of(TwoHeads, 4, loss=_two_losses),
        "bare and tied parameters, 4 samples": of(Bare, 4),
        "LoRA on a frozen MLP, 1 sample": of(_low_rank, 1),
        "LoRA on a frozen MLP, 3 samples": of(_low_rank, 3),
        "table, squared error, 1 sample": table(1),
        "table, squared error, 4 samples": table(4),
        "CNN, 1 sample": of(_cnn, 1),
        "residual CNN with batch norm, 4 samples": of(lambda: Residual(nn.BatchNorm2d), 4),
        "residual CNN with group norm, 4 samples": of(lambda: Residual(lambda width: nn.GroupNorm(2, width)), 4),
        "ViT of timm, 1 sample": of(_vit, 1, side=32, channels=3),
        "ResNet-18 of torchvision, 4 samples": of(_resnet, 4, side=32, channels=3),
        "LSTM, 4 sentences": words(Reader),
        "BERT of transformers, 4 sentences": words(_bert, call=logits),
        "GPT-2 of transformers, tied, 4 sentences": words(_gpt2, _next_word, call=logits),
    }
