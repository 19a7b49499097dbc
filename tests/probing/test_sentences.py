"""Sentences of transformers as their owners hold them: wrapped, under other names, with LoRA of peft."""

from collections.abc import Mapping
from dataclasses import replace

import peft
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GemmaConfig,
    GemmaForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from leaklab.probing.case import Case
from leaklab.probing.client import Client
from leaklab.probing.sentences import Sentences, sentences

WORDS = 200
GPT2 = {"n_positions": 16, "n_embd": 64, "n_layer": 2, "n_head": 4, "embd_pdrop": 0.0, "resid_pdrop": 0.0,
        "attn_pdrop": 0.0, "bos_token_id": 0, "eos_token_id": 0}  # fmt: skip
LLAMA = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 16, "pad_token_id": 0}  # fmt: skip


def _ids(sentences: int, length: int) -> Tensor:
    """Return random sentences of unlike lengths, padded with 0 as most rows end."""
    rows = torch.randint(1, WORDS, (sentences, length))
    rows[0, -1] = 0
    rows[:, -1] = 0
    return rows


def _next_token(logits: Tensor, ids: Tensor) -> Tensor:
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten(), ignore_index=0)


def _logits(model: nn.Module, ids: Tensor) -> Tensor:
    logits: Tensor = model(input_ids=ids, attention_mask=(ids != 0).long()).logits
    return logits


def _gpt2() -> GPT2LMHeadModel:
    return GPT2LMHeadModel(GPT2Config(vocab_size=WORDS, **GPT2))


def _decoder(model: nn.Module, **changes: object) -> Client:
    return replace(Client(model, loss=_next_token, call=_logits, rate=1.0), **changes)  # type: ignore[arg-type]


def _read(client: Client, ids: Tensor, targets: Tensor | None = None) -> Sentences:
    targets = ids if targets is None else targets
    return sentences(Case(client, client.round(ids, targets), ids, targets))


def _words(ids: Tensor) -> set[tuple[int, ...]]:
    return {tuple(int(one) for one in row if one) for row in ids}


def _said(found: Sentences) -> set[tuple[int, ...]]:
    return _words(torch.stack([reading.values for reading in found.readings]))


@pytest.mark.parametrize("make", [_gpt2, lambda: Qwen2ForCausalLM(Qwen2Config(vocab_size=WORDS, **LLAMA))])
@pytest.mark.parametrize("sends", ["gradient", "delta"])
def test_all_sentences_of_a_decoder_are_read_and_proven(make: type, sends: str) -> None:
    torch.manual_seed(1)
    ids = _ids(3, 7)
    found = _read(_decoder(make(), sends=sends), ids)
    assert _said(found) == _words(ids)
    assert all(reading.proven for reading in found.readings)


def test_an_encoder_in_a_wrapper_with_a_loss_of_its_own() -> None:
    class Wrapper(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = BertForSequenceClassification(
                BertConfig(
                    vocab_size=WORDS, hidden_size=96, num_hidden_layers=2, num_attention_heads=4, num_labels=3,
                    intermediate_size=192, max_position_embeddings=16, initializer_range=0.1,
                )
            )  # fmt: skip

        def forward(self, ids: Tensor) -> Tensor:
            return _logits(self.encoder, ids)

    torch.manual_seed(2)
    client = Client(Wrapper(), loss=nn.CrossEntropyLoss(label_smoothing=0.1), rate=1.0, mode="eval")
    ids = _ids(3, 7)
    found = _read(client, ids, torch.arange(3))
    assert _said(found) == _words(ids)
    assert all(reading.proven for reading in found.readings)
    hidden = _read(replace(client, mode="train"), ids, torch.arange(3))  # dropout in front of the first block
    assert not any(reading.proven for reading in hidden.readings)


def test_layers_under_other_names_are_told_by_one_mapping() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            whole = _gpt2()
            self.words, self.at = whole.transformer.wte, whole.transformer.wpe
            self.blocks, self.last, self.out = whole.transformer.h, whole.transformer.ln_f, whole.lm_head

        def forward(self, ids: Tensor) -> Tensor:
            held = self.words(ids) + self.at(torch.arange(ids.shape[1]))
            for block in self.blocks:
                held = block(held)
                held = held[0] if isinstance(held, tuple) else held
            out: Tensor = self.out(self.last(held))
            return out

    torch.manual_seed(3)
    usual: Mapping[str, str] = {
        "words": "transformer.wte", "at": "transformer.wpe", "blocks": "transformer.h", "last": "transformer.ln_f",
        "out": "lm_head",
    }  # fmt: skip
    client, ids = _decoder(Own(), call=None, usual=usual), _ids(2, 6)
    assert _said(_read(client, ids)) == _words(ids)
    assert "holds no transformer" in _read(replace(client, usual=None), ids).refusal
    assert "no layer 'wards'" in _read(replace(client, usual={"wards": "transformer.wte"}), ids).refusal


@pytest.mark.parametrize("fused", [True, False])
def test_lora_of_peft_before_and_after_its_first_step(fused: bool) -> None:
    torch.manual_seed(4)
    base = _gpt2() if fused else Qwen2ForCausalLM(Qwen2Config(vocab_size=WORDS, **LLAMA))
    targets = ["c_attn"] if fused else ["q_proj", "v_proj"]
    adapted = peft.get_peft_model(
        base, peft.LoraConfig(r=8, lora_alpha=5, target_modules=targets, fan_in_fan_out=fused)
    )
    client = _decoder(adapted, sends="gradient")
    for sentences_sent in (1, 2):
        ids = _ids(sentences_sent, 6)
        found = _read(client, ids)
        # the next token is learnt, and without the last matrix nothing shows the last one
        assert _said(found) == {words[:-1] for words in _words(ids)}
        assert all(reading.proven for reading in found.readings)
        for name, value in adapted.named_parameters():
            if "lora_B" in name:
                nn.init.normal_(value, std=0.02)


def test_a_first_block_that_computes_something_else_is_refused() -> None:
    model = GemmaForCausalLM(GemmaConfig(vocab_size=WORDS, head_dim=16, **LLAMA))
    assert "computes something else" in _read(_decoder(model), _ids(2, 6)).refusal


def test_what_noise_blurs_is_not_proven() -> None:
    torch.manual_seed(5)

    def blurred(sent: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: value + 1e-4 * torch.randn_like(value) for name, value in sent.items()}

    found = _read(_decoder(_gpt2(), defense=blurred, sends="gradient"), _ids(2, 6))
    assert not any(reading.proven for reading in found.readings)
