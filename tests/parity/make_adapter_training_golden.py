#!/usr/bin/env python3
"""Writes golden/train-adapter-*/: what PEFT and torch make of ten AdamW steps of an adapter.

    python make_adapter_training_golden.py     # needs torch, transformers, peft, safetensors

Each folder is an adapter of golden/train-llama-untied that PEFT wrote (adapter_config.json, adapter_model.safetensors) with
random values in all of its tensors, so that each has a gradient from the first step on. golden.json: token ids, loss and the
gradient's norm of each step. after/adapter_model.safetensors: the adapter after ten steps. All in f32, from fixed seeds.
"""
import json
import shutil

import peft
import safetensors
import torch
import transformers
from make_training_golden import ADAMW, GOLDEN, LENGTH, SEQUENCES, STEPS, VOCABULARY, VERSIONS, loss_of

BASE = "train-llama-untied"
LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
ADAPTERS = {
    "lora": peft.LoraConfig(r=4, lora_alpha=6, target_modules=["q_proj", "v_proj", "down_proj"]),
    "rslora": peft.LoraConfig(r=3, lora_alpha=2, use_rslora=True, target_modules=LINEAR),
    "dora": peft.LoraConfig(r=4, lora_alpha=4, use_dora=True, target_modules=LINEAR),
    "ia3": peft.IA3Config(target_modules=["k_proj", "v_proj", "down_proj"], feedforward_modules=["down_proj"]),
}


def save(tuned, folder):
    tuned.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    path = folder / "adapter_config.json"
    written = json.loads(path.read_text())
    written["base_model_name_or_path"] = BASE  # no path of this machine
    for key, value in written.items():
        if isinstance(value, list):
            written[key] = sorted(value)
    path.write_text(json.dumps(written, indent=2) + "\n")


def train(tuned, batches):
    trained = {name: p for name, p in tuned.named_parameters() if p.requires_grad}
    decayed = [p for name, p in trained.items() if "lora_A" in name or "lora_B" in name]
    others = [p for name, p in trained.items() if "lora_A" not in name and "lora_B" not in name]
    groups = [{"params": decayed, "weight_decay": ADAMW["weight_decay"]}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW([group for group in groups if group["params"]], lr=ADAMW["lr"], betas=ADAMW["betas"],
                                  eps=ADAMW["eps"])
    rows = []
    for ids in batches:
        optimizer.zero_grad()
        _, loss, _ = loss_of(tuned, ids)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(trained.values(), ADAMW["clip_grad"])
        optimizer.step()
        rows.append({"ids": ids.tolist(), "loss": loss.item(), "grad_norm": norm.item()})
    return rows


def main():
    torch.set_num_threads(1)
    for number, (name, config) in enumerate(ADAPTERS.items()):
        folder, generator = GOLDEN / f"train-adapter-{name}", torch.Generator().manual_seed(31 + number)
        config.task_type = "CAUSAL_LM"
        model = transformers.AutoModelForCausalLM.from_pretrained(GOLDEN / BASE, torch_dtype=torch.float32,
                                                                  attn_implementation="eager")
        tuned = peft.get_peft_model(model, config).train()
        with torch.no_grad():
            for key, parameter in sorted(tuned.named_parameters()):
                if parameter.requires_grad:
                    noise = torch.randn(parameter.shape, generator=generator)
                    changed = parameter * (1 + 0.2 * noise) if "magnitude" in key or "ia3" in key else parameter + 0.15 * noise
                    parameter.copy_(changed)
        shutil.rmtree(folder, ignore_errors=True)
        save(tuned, folder)
        batches = [torch.randint(0, VOCABULARY, (SEQUENCES, LENGTH), generator=generator) for _ in range(STEPS)]
        steps = train(tuned, batches)
        save(tuned, folder / "after")
        (folder / "after" / "adapter_config.json").unlink()
        versions = VERSIONS | {m.__name__: m.__version__ for m in (peft, safetensors)}
        (folder / "golden.json").write_text(
            json.dumps({"versions": versions, "base": BASE, "adamw": ADAMW, "steps": steps}, separators=(",", ":")) + "\n")
        print(f"train-adapter-{name}: loss {steps[0]['loss']:.4f} to {steps[-1]['loss']:.4f}")


if __name__ == "__main__":
    main()
