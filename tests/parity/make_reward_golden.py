#!/usr/bin/env python3
"""Writes golden/reward-*/: tiny reward models of `transformers`, what they say of pairs, their loss and its gradient.

    python make_reward_golden.py [NAME ...]     # needs torch, transformers (4.43 or later), safetensors

Each folder is a Hugging Face folder of a model ...ForSequenceClassification with one label (config.json,
model.safetensors in f32). golden.json: pairs of token ids with margins, the number that the model gives each text in one
padded batch, and for each weight of the centering term the loss as TRL's RewardTrainer has it:
-logsigmoid(chosen - rejected - margin) in the mean, and center_rewards_coefficient * mean((chosen + rejected)^2).
gradients/model.safetensors: the gradient of every tensor, of the last of those losses. All in f32, from fixed seeds.
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
VOCABULARY, PADDING, LENGTHS, CENTERS = 48, 0, [(5, 9), (11, 4), (7, 7), (3, 10)], [0.0, 0.01, 0.3]
MARGINS = [0.0, 0.5, 1.25, 0.0]


def llama():
    return transformers.LlamaForSequenceClassification(transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=32, rms_norm_eps=1e-5, num_labels=1, pad_token_id=PADDING,
        tie_word_embeddings=False, torch_dtype="float32", attn_implementation="eager"))


def gpt2():
    return transformers.GPT2ForSequenceClassification(transformers.GPT2Config(
        vocab_size=VOCABULARY, n_embd=16, n_inner=40, n_layer=2, n_head=4, n_positions=16, attn_pdrop=0.0,
        embd_pdrop=0.0, resid_pdrop=0.0, bos_token_id=1, eos_token_id=1, num_labels=1, pad_token_id=PADDING,
        tie_word_embeddings=False, torch_dtype="float32", attn_implementation="eager"))


MODELS = {"reward-llama": llama, "reward-gpt2": gpt2}


def spread_weights(model):
    """Values that give every path a gradient worth comparing; biases and norms not at their neutral points."""
    generator = torch.Generator().manual_seed(21)
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            noise = torch.randn(p.shape, generator=generator)
            is_norm = ("norm" in name or ".ln_" in name) and name.endswith("weight")
            p.copy_(1 + 0.2 * noise if is_norm else 0.2 * noise)


def padded(texts):
    longest = max(map(len, texts))
    ids = torch.tensor([text + [PADDING] * (longest - len(text)) for text in texts])
    return {"input_ids": ids, "attention_mask": (ids != PADDING).long()}


def loss_of(scores, center):
    chosen, rejected = scores[0::2], scores[1::2]
    loss = -F.logsigmoid(chosen - rejected - torch.tensor(MARGINS, dtype=scores.dtype)).mean()
    return loss + center * torch.mean((chosen + rejected) ** 2)


def write(name):
    folder = GOLDEN / name
    torch.manual_seed(1)
    model = MODELS[name]().train()
    spread_weights(model)
    model.save_pretrained(folder, safe_serialization=True)
    generator = torch.Generator().manual_seed(22)
    draw = lambda n: torch.randint(1, VOCABULARY, (n,), generator=generator).tolist()
    pairs = [(draw(a), draw(b)) for a, b in LENGTHS]
    batch = padded([text for pair in pairs for text in pair])
    scores = model(**batch).logits[:, 0]
    losses = [loss_of(scores, center) for center in CENTERS]
    losses[-1].backward()
    gradient = {n: p.grad.detach().clone().contiguous() for n, p in model.named_parameters()}
    (folder / "gradients").mkdir(exist_ok=True)
    save_file(gradient, folder / "gradients" / "model.safetensors", {"format": "pt"})
    (folder / "golden.json").write_text(json.dumps(
        {"versions": VERSIONS,
         "pairs": [{"chosen": a, "rejected": b, "margin": m} for (a, b), m in zip(pairs, MARGINS)],
         "scores": [round(x, 8) for x in scores.tolist()],
         "losses": [{"center_weight": c, "loss": loss.item()} for c, loss in zip(CENTERS, losses)]},
        separators=(",", ":")) + "\n")
    (folder / "generation_config.json").unlink(missing_ok=True)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{name}: losses {[round(x.item(), 4) for x in losses]}; {size} bytes")


def main():
    torch.set_num_threads(1)
    for name in sys.argv[1:] or MODELS:
        write(name)


if __name__ == "__main__":
    main()
