#!/usr/bin/env python3
"""Writes golden/adapter-*/: adapters that PEFT wrote for the models of golden/, and the logits of each with its adapter.

    python make_adapter_golden.py [NAME ...]     # needs torch, transformers, peft, safetensors

Each folder is what PeftModel.save_pretrained leaves (adapter_config.json, adapter_model.safetensors), with a golden.json:
the model that it is for, a sequence, and the last three tokens' logits, which PEFT computed with the adapter apart from the
weights. Adapters are random, all of their tensors; from fixed seeds.
"""
import json
import pathlib
import shutil
import sys

import peft
import safetensors
import torch
import transformers

GOLDEN = pathlib.Path(__file__).resolve().parent / "golden"
VERSIONS = {"python": sys.version.split()[0]} | {m.__name__: m.__version__ for m in (torch, transformers, peft, safetensors)}
TOKENS, KEPT = 16, 3
LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
ADAPTERS = {
    "lora": ("model-untied", peft.LoraConfig(r=4, lora_alpha=6, target_modules=["q_proj", "v_proj"])),
    "rslora": ("model-untied", peft.LoraConfig(r=3, lora_alpha=2, use_rslora=True, target_modules=[*LINEAR, "lm_head"],
                                               rank_pattern={"o_proj": 5, "layers.1.mlp.up_proj": 2},
                                               alpha_pattern={"o_proj": 7, "layers.1.mlp.up_proj": 3})),
    "saved": ("model-untied", peft.LoraConfig(r=2, lora_alpha=4, target_modules=["embed_tokens", "down_proj"],
                                              modules_to_save=["lm_head", "input_layernorm"])),
    "dora": ("model-untied", peft.LoraConfig(r=4, lora_alpha=4, use_dora=True, target_modules=LINEAR)),
    "ia3": ("model-untied", peft.IA3Config(target_modules=["k_proj", "v_proj", "down_proj"], feedforward_modules=["down_proj"])),
    "gpt2": ("train-gpt2", peft.LoraConfig(r=4, lora_alpha=6, fan_in_fan_out=True, bias="all",
                                           target_modules=["c_attn", "c_proj", "c_fc"])),
    "gpt2-dora": ("train-gpt2", peft.LoraConfig(r=2, lora_alpha=3, fan_in_fan_out=True, use_dora=True,
                                                target_modules=["c_attn", "c_fc"])),
    "mixtral": ("train-mixtral", peft.LoraConfig(r=2, lora_alpha=3, target_modules=["q_proj", "w1", "w2", "w3"])),
    "mixtral-ia3": ("train-mixtral", peft.IA3Config(target_modules=["k_proj", "v_proj", "w2"], feedforward_modules=["w2"])),
}


def main():
    wanted = sys.argv[1:] or [*ADAPTERS]
    for number, (name, (base, config)) in enumerate(ADAPTERS.items()):
        if name not in wanted:
            continue
        folder, generator = GOLDEN / f"adapter-{name}", torch.Generator().manual_seed(7 + number)
        config.task_type = "CAUSAL_LM"
        config.base_model_name_or_path = base
        model = transformers.AutoModelForCausalLM.from_pretrained(GOLDEN / base, torch_dtype=torch.float32).eval()
        tuned = peft.get_peft_model(model, config)
        with torch.no_grad():
            for key, parameter in sorted(tuned.named_parameters()):
                if parameter.requires_grad:
                    noise = torch.randn(parameter.shape, generator=generator)
                    parameter.copy_(parameter * (1 + 0.2 * noise) if "magnitude" in key or "ia3" in key else parameter + 0.15 * noise)
        ids = torch.randint(0, model.config.vocab_size, (1, TOKENS), generator=generator)
        tuned.eval()
        with torch.no_grad():
            logits = tuned(ids).logits[0, -KEPT:]
            with tuned.disable_adapter():
                moved = float((logits - tuned(ids).logits[0, -KEPT:]).abs().max())
        assert moved > 0.05, f"{name} changes nothing"
        shutil.rmtree(folder, ignore_errors=True)
        tuned.save_pretrained(folder)
        (folder / "README.md").unlink(missing_ok=True)
        config_path = folder / "adapter_config.json"
        written = json.loads(config_path.read_text())
        written["base_model_name_or_path"] = base  # no path of this machine
        for key, value in written.items():
            if isinstance(value, list):
                written[key] = sorted(value)
        config_path.write_text(json.dumps(written, indent=2) + "\n")
        rows = [[float(f"{x:.8g}") for x in row] for row in logits.tolist()]
        (folder / "golden.json").write_text(json.dumps({"versions": VERSIONS, "base": base, "ids": ids[0].tolist(), "logits": rows}) + "\n")
        print(f"adapter-{name}: {sum(p.numel() for p in tuned.parameters() if p.requires_grad)} parameters, logits moved by {moved:.2f}")


if __name__ == "__main__":
    main()
