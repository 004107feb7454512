#!/usr/bin/env python3
"""Writes golden/train-*/: tiny models of `transformers`, and what training makes of them there.

    python make_training_golden.py [NAME ...]     # needs torch, transformers (4.43 or later), safetensors

Each folder is a Hugging Face folder (config.json, model.safetensors in f32). golden.json: token ids of each step, of the
first the logits and the loss, of all ten the loss and the gradient's norm. gradients/model.safetensors: the first step's
gradient of every tensor. after/model.safetensors: the weights after ten AdamW steps. All in f32, from fixed seeds. A
model of another family is one more line in MODELS and one in training_golden_test.cc.
"""
import json
import pathlib
import sys

import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import save_file

GOLDEN = pathlib.Path(__file__).resolve().parent / "golden"
VERSIONS = {"python": sys.version.split()[0], "torch": torch.__version__, "transformers": transformers.__version__}
VOCABULARY, SEQUENCES, LENGTH, STEPS = 48, 3, 11, 10
ADAMW = {"lr": 2e-3, "betas": [0.9, 0.95], "eps": 1e-6, "weight_decay": 0.1, "clip_grad": 1.0}


def llama(**overrides):
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=32, rms_norm_eps=1e-5, torch_dtype="float32",
        attn_implementation="eager", **overrides))


def mistral():
    return transformers.MistralForCausalLM(transformers.MistralConfig(
        vocab_size=VOCABULARY, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=32, rms_norm_eps=1e-5, sliding_window=4, torch_dtype="float32",
        attn_implementation="eager"))


def gpt2():
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=VOCABULARY, n_embd=16, n_inner=40, n_layer=2, n_head=4, n_positions=16, attn_pdrop=0.0,
        embd_pdrop=0.0, resid_pdrop=0.0, bos_token_id=0, eos_token_id=0, torch_dtype="float32",
        attn_implementation="eager"))


def mixtral():
    return transformers.MixtralForCausalLM(transformers.MixtralConfig(
        vocab_size=VOCABULARY, hidden_size=16, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=32, rms_norm_eps=1e-5, num_local_experts=4,
        num_experts_per_tok=2, router_aux_loss_coef=0.02, output_router_logits=True, rope_theta=10000.0,
        torch_dtype="float32", attn_implementation="eager"))


MODELS = {
    "train-llama-untied": lambda: llama(tie_word_embeddings=False),
    "train-llama-tied": lambda: llama(tie_word_embeddings=True, rope_theta=500000.0),
    "train-mistral": mistral,  # a window of 4 in sequences of 11
    "train-gpt2": gpt2,
    "train-mixtral": mixtral,
}


def tensors_of(model, what):
    """By the names of the file; a tied output is not there."""
    return {name: what(p).detach().clone().contiguous() for name, p in model.named_parameters()}


def spread_weights(model):
    """Values that give every path a gradient worth comparing; biases and norms not at their neutral points."""
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            noise = torch.randn(p.shape, generator=generator)
            is_norm = ("norm" in name or ".ln_" in name) and name.endswith("weight")
            p.copy_(1 + 0.2 * noise if is_norm else 0.2 * noise)


def loss_of(model, ids):
    """Logits, the mean loss of the tokens, and what experts add to it."""
    out = model(ids)
    auxiliary = torch.zeros((), dtype=out.logits.dtype)
    if getattr(model.config, "router_aux_loss_coef", 0):
        auxiliary = model.config.router_aux_loss_coef * transformers.models.mixtral.modeling_mixtral.\
            load_balancing_loss_func(out.router_logits, model.num_experts, model.num_experts_per_tok)
    loss = F.cross_entropy(out.logits[:, :-1].reshape(-1, VOCABULARY), ids[:, 1:].reshape(-1))
    return out.logits, loss, auxiliary


def train(model, batches):
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": ADAMW["weight_decay"]}, {"params": others, "weight_decay": 0.0}],
        lr=ADAMW["lr"], betas=ADAMW["betas"], eps=ADAMW["eps"])
    rows = []
    for ids in batches:
        optimizer.zero_grad()
        _, loss, auxiliary = loss_of(model, ids)
        (loss + auxiliary).backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), ADAMW["clip_grad"])
        optimizer.step()
        rows.append({"ids": ids.tolist(), "loss": loss.item(), "grad_norm": norm.item(),
                     "auxiliary_loss": auxiliary.item()})
    return rows


def write(name):
    folder = GOLDEN / name
    torch.manual_seed(1)
    model = MODELS[name]().train()
    spread_weights(model)
    model.save_pretrained(folder, safe_serialization=True)
    generator = torch.Generator().manual_seed(12)
    batches = [torch.randint(0, VOCABULARY, (SEQUENCES, LENGTH), generator=generator) for _ in range(STEPS)]
    logits, loss, auxiliary = loss_of(model, batches[0])
    (loss + auxiliary).backward()
    gradient = tensors_of(model, lambda p: p.grad)
    model.zero_grad()
    model.double()
    _, exact_loss, exact_auxiliary = loss_of(model, batches[0])
    (exact_loss + exact_auxiliary).backward()
    exact = tensors_of(model, lambda p: p.grad)
    worst = max(((gradient[n] - exact[n]).abs().max() / exact[n].abs().max()).item() for n in exact
                if exact[n].abs().max() > 1e-6)
    model.zero_grad()
    model.float()
    steps = train(model, batches)
    for part, tensors in (("gradients", gradient), ("after", tensors_of(model, lambda p: p))):
        (folder / part).mkdir(exist_ok=True)
        save_file(tensors, folder / part / "model.safetensors", {"format": "pt"})
    (folder / "golden.json").write_text(json.dumps(
        {"versions": VERSIONS, "adamw": ADAMW, "steps": steps, "loss": loss.item(),
         "auxiliary_loss": auxiliary.item(),
         "logits": [[round(x, 7) for x in row] for row in logits[0].tolist()]},
        separators=(",", ":")) + "\n")
    (folder / "generation_config.json").unlink(missing_ok=True)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{name}: their f32 gradients are within {worst:.1e} of their f64; {size} bytes")


def main():
    torch.set_num_threads(1)
    for name in sys.argv[1:] or MODELS:
        write(name)


if __name__ == "__main__":
    main()
