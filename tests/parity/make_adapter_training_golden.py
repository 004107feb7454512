#!/usr/bin/env python3
"""Writes golden/train-adapter-*/: what PEFT and torch make of ten AdamW steps of an adapter.

    python make_adapter_training_golden.py [NAME ...]     # needs torch, transformers, peft, bitsandbytes, safetensors

Each folder is an adapter of golden/train-llama-untied that PEFT wrote (adapter_config.json, adapter_model.safetensors) with
random values in all of its tensors, so that each has a gradient from the first step on (PEFT's prompt begins with such). golden.json: token ids, loss and the
gradient's norm of each step. after/adapter_model.safetensors: the adapter after ten steps. All in f32, from fixed seeds.
train-adapter-dropout has the masks of engine/ops/pointwise/dropout.h in place of PEFT's random ones.
train-adapter-houlsby and -pfeiffer are of no PEFT: two layers of torch behind those of transformers, in the files that a stage of ours writes.
train-adapter-nf4 is QLoRA: the matrices of the base are what bitsandbytes keeps of them. train-adapter-reward is one of golden/reward-llama, whose output layer is trained beside it: pairs in place of token ids.
"""
import json
import shutil
import sys

import bitsandbytes
import numpy
import peft
import safetensors.torch
import torch
import transformers
from make_reward_golden import VOCABULARY as REWARD_VOCABULARY, padded
from make_training_golden import ADAMW, GOLDEN, LENGTH, SEQUENCES, STEPS, VOCABULARY, VERSIONS, loss_of

BASE, REWARD_BASE, GPT2_BASE, MIXTRAL_BASE = "train-llama-untied", "reward-llama", "train-gpt2", "train-mixtral"
GPT2 = {
    "gpt2": peft.LoraConfig(r=4, lora_alpha=6, fan_in_fan_out=True, target_modules=["c_attn", "mlp.c_proj"]),
    "gpt2-dora": peft.LoraConfig(r=2, lora_alpha=3, fan_in_fan_out=True, use_dora=True, target_modules=["c_attn", "c_fc"]),
}
MIXTRAL = {
    "mixtral": peft.LoraConfig(r=2, lora_alpha=3, target_modules=["q_proj", "w1", "w2", "w3"]),
    "mixtral-dora": peft.LoraConfig(r=2, lora_alpha=3, use_dora=True, target_modules=["w1", "w2", "w3"]),
}
CENTER, PAIRS = 0.01, 4
PROMPTS = {  # embeddings, or keys and values of each layer, before every text
    "prompt": (BASE, peft.PromptTuningConfig(num_virtual_tokens=5, task_type="CAUSAL_LM")),
    "gpt2-prompt": (GPT2_BASE, peft.PromptTuningConfig(num_virtual_tokens=4, task_type="CAUSAL_LM")),
    "p-tuning": (BASE, peft.PromptEncoderConfig(num_virtual_tokens=4, encoder_hidden_size=12, task_type="CAUSAL_LM")),
    "prefix": (BASE, peft.PrefixTuningConfig(num_virtual_tokens=3, task_type="CAUSAL_LM")),
    "gpt2-prefix": (GPT2_BASE, peft.PrefixTuningConfig(num_virtual_tokens=3, task_type="CAUSAL_LM")),
}
BOTTLENECKS = {  # size, and the halves of a layer that they stand behind
    "houlsby": (BASE, 5, ["attention", "feed_forward"]),
    "pfeiffer": (GPT2_BASE, 6, ["feed_forward"]),
}
DROPOUT, DROPOUT_SEED = 0.25, 11
LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
ADAPTERS = {
    "lora": peft.LoraConfig(r=4, lora_alpha=6, target_modules=["q_proj", "v_proj", "down_proj"]),
    "rslora": peft.LoraConfig(r=3, lora_alpha=2, use_rslora=True, target_modules=LINEAR),
    "dora": peft.LoraConfig(r=4, lora_alpha=4, use_dora=True, target_modules=LINEAR),
    "ia3": peft.IA3Config(target_modules=["k_proj", "v_proj", "down_proj"], feedforward_modules=["down_proj"]),
}
PARTS = {  # adapters whose parts differ
    "patterns": peft.LoraConfig(r=4, lora_alpha=6, target_modules=["q_proj", "v_proj", "down_proj"],
                                rank_pattern={"v_proj": 2, "layers.1.mlp.down_proj": 6}, alpha_pattern={"q_proj": 9}),
    "modules": peft.LoraConfig(r=4, lora_alpha=6, target_modules=["q_proj", "down_proj"],
                               modules_to_save=["embed_tokens", "lm_head", "model.norm", "input_layernorm"]),
    "table": peft.LoraConfig(r=4, lora_alpha=6, target_modules=["embed_tokens", "q_proj"]),
}


class Bottleneck(torch.nn.Module):
    def __init__(self, hidden, size):
        super().__init__()
        self.down, self.up = torch.nn.Linear(hidden, size), torch.nn.Linear(size, hidden)

    def forward(self, h):
        return h + self.up(torch.nn.functional.gelu(self.down(h), approximate="tanh"))


def add_bottlenecks(model, size, after):
    model.requires_grad_(False)
    layers = model.transformer.h if hasattr(model, "transformer") else model.model.layers
    for layer in layers:
        halves = {"attention": layer.attn if hasattr(layer, "attn") else layer.self_attn, "feed_forward": layer.mlp}
        for half in after:
            made = Bottleneck(model.config.hidden_size, size)
            layer.add_module(f"{half}_bottleneck", made)
            halves[half].register_forward_hook(
                lambda module, inputs, out, made=made: (made(out[0]), *out[1:]) if isinstance(out, tuple) else made(out))
    model.bottleneck = {"size": size, "after": after}
    return model


def save_bottlenecks(tuned, folder, base):
    folder.mkdir(parents=True, exist_ok=True)
    safetensors.torch.save_file({name: p.detach().clone() for name, p in tuned.named_parameters() if p.requires_grad},
                                folder / "adapter_model.safetensors")
    said = {"longhaul_bottleneck": tuned.bottleneck, "base_model_name_or_path": base}
    (folder / "adapter_config.json").write_text(json.dumps(said, indent=2) + "\n")


def save(tuned, folder, base=BASE):
    if hasattr(tuned, "bottleneck"):
        return save_bottlenecks(tuned, folder, base)
    tuned.save_pretrained(folder, save_embedding_layers=False)  # of a table that is adapted the base is not wanted
    (folder / "README.md").unlink(missing_ok=True)
    path = folder / "adapter_config.json"
    written = json.loads(path.read_text())
    written["base_model_name_or_path"] = base  # no path of this machine
    for key, value in written.items():
        if isinstance(value, list):
            written[key] = sorted(value)
    path.write_text(json.dumps(written, indent=2) + "\n")


def save_encoder(tuned, folder):
    # PEFT keeps what a p-tuning's encoder makes, not the encoder.
    if getattr(tuned, "peft_type", None) == peft.PeftType.P_TUNING:
        safetensors.torch.save_file({name.replace(".default", ""): p.detach().clone()
                                     for name, p in tuned.named_parameters() if p.requires_grad}, folder / "encoder.safetensors")


def of_pairs(tuned, pairs):
    scores = tuned(**padded([text for pair in pairs for text in (pair["chosen"], pair["rejected"])])).logits[:, 0]
    chosen, rejected = scores[0::2], scores[1::2]
    margins = torch.tensor([pair["margin"] for pair in pairs])
    loss = -torch.nn.functional.logsigmoid(chosen - rejected - margins).mean() + CENTER * torch.mean((chosen + rejected) ** 2)
    return loss, {"pairs": pairs}


def of_ids(tuned, ids):
    return loss_of(tuned, ids)[1], {"ids": ids.tolist()}


def train(tuned, batches, judge=of_ids):
    trained = {name: p for name, p in tuned.named_parameters() if p.requires_grad}
    is_matrix = lambda name: any(part in name for part in ("lora_A", "lora_B", "lora_embedding", "score")) or (
        any(part in name for part in ("prompt_encoder", "modules_to_save", "bottleneck")) and trained[name].dim() > 1)
    decayed = [p for name, p in trained.items() if is_matrix(name)]
    others = [p for name, p in trained.items() if not is_matrix(name)]
    groups = [{"params": decayed, "weight_decay": ADAMW["weight_decay"]}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW([group for group in groups if group["params"]], lr=ADAMW["lr"], betas=ADAMW["betas"],
                                  eps=ADAMW["eps"])
    rows = []
    for batch in batches:
        optimizer.zero_grad()
        loss, said = judge(tuned, batch)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(trained.values(), ADAMW["clip_grad"])
        optimizer.step()
        rows.append(said | {"loss": loss.item(), "grad_norm": norm.item()})
    return rows


def spread(tuned, generator):
    with torch.no_grad():
        for key, parameter in sorted(tuned.named_parameters()):
            if parameter.requires_grad:
                noise = torch.randn(parameter.shape, generator=generator)
                changed = parameter * (1 + 0.2 * noise) if "magnitude" in key or "ia3" in key else parameter + 0.15 * noise
                parameter.copy_(changed)


def write(name, tuned, batches, judge=of_ids, base=BASE, **more):
    folder = GOLDEN / f"train-adapter-{name}"
    shutil.rmtree(folder, ignore_errors=True)
    save(tuned, folder, base)
    save_encoder(tuned, folder)
    steps = train(tuned, batches, judge)
    save(tuned, folder / "after", base)
    save_encoder(tuned, folder / "after")
    (folder / "after" / "adapter_config.json").unlink()
    versions = VERSIONS | {m.__name__: m.__version__ for m in (peft, safetensors)}
    (folder / "golden.json").write_text(
        json.dumps({"versions": versions, "base": base, "adamw": ADAMW, **more, "steps": steps}, separators=(",", ":")) + "\n")
    print(f"train-adapter-{name}: loss {steps[0]['loss']:.4f} to {steps[-1]['loss']:.4f}")


def philox(seed, counters, stream):
    # Philox4x32-10 of 64-bit counters: [n, 4] words (Salmon et al. 2011).
    low = numpy.uint64(0xFFFFFFFF)
    halves = lambda value: [value & low, value >> numpy.uint64(32)]
    c = halves(counters.astype(numpy.uint64)) + [numpy.full_like(counters, half, dtype=numpy.uint64)
                                                 for half in halves(numpy.uint64(stream))]
    key = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        p0, p1 = numpy.uint64(0xD2511F53) * c[0], numpy.uint64(0xCD9E8D57) * c[2]
        c = [(p1 >> numpy.uint64(32)) ^ c[1] ^ numpy.uint64(key[0]), p1 & low,
             (p0 >> numpy.uint64(32)) ^ c[3] ^ numpy.uint64(key[1]), p0 & low]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return numpy.stack(c, axis=1)


class Masked(torch.nn.Module):
    """The masks of the adapter's matrix of that number."""

    def __init__(self, number, step):
        super().__init__()
        self.number, self.step = number, step

    def forward(self, x):
        sequences, length, columns = x.shape
        blocks, threshold = (columns + 7) // 8, round(DROPOUT * 65536)
        rows = []
        for sequence in range(sequences):
            sample = self.step["number"] * sequences + sequence
            stream = (1 << 63) + sample * 65536 + (1 << 15) + self.number
            words = philox(DROPOUT_SEED, numpy.arange(length * blocks, dtype=numpy.uint64), stream)
            draws = numpy.stack([words & numpy.uint64(0xFFFF), words >> numpy.uint64(16)], axis=2).reshape(length, blocks * 8)
            rows.append(draws[:, :columns] >= threshold)
        return x * torch.tensor(numpy.stack(rows), dtype=x.dtype) * (65536 / (65536 - threshold))


def write_dropout():
    generator = torch.Generator().manual_seed(71)
    model = transformers.AutoModelForCausalLM.from_pretrained(GOLDEN / BASE, torch_dtype=torch.float32,
                                                              attn_implementation="eager")
    tuned = peft.get_peft_model(model, peft.LoraConfig(r=4, lora_alpha=6, lora_dropout=DROPOUT, target_modules=LINEAR,
                                                       task_type="CAUSAL_LM")).train()
    spread(tuned, generator)
    step = {"number": 0}
    adapted = [module for module in tuned.modules() if isinstance(module, peft.tuners.lora.Linear)]
    for number, module in enumerate(adapted):  # in the order of the forward pass
        module.lora_dropout["default"] = Masked(number, step)

    def of_step(tuned, ids):
        judged = of_ids(tuned, ids)
        step["number"] += 1
        return judged

    batches = [torch.randint(0, VOCABULARY, (SEQUENCES, LENGTH), generator=generator) for _ in range(STEPS)]
    write("dropout", tuned, batches, of_step, seed=DROPOUT_SEED)


def write_nf4():
    generator = torch.Generator().manual_seed(41)
    model = transformers.AutoModelForCausalLM.from_pretrained(GOLDEN / BASE, torch_dtype=torch.float32,
                                                              attn_implementation="eager")
    with torch.no_grad():
        for name, module in model.named_modules():
            if name.rsplit(".", 1)[-1] in LINEAR:
                codes, state = bitsandbytes.functional.quantize_4bit(module.weight.data, blocksize=64, quant_type="nf4")
                module.weight.copy_(bitsandbytes.functional.dequantize_4bit(codes, state))
    tuned = peft.get_peft_model(model, peft.LoraConfig(r=4, lora_alpha=6, target_modules=["q_proj", "v_proj", "down_proj"],
                                                       task_type="CAUSAL_LM")).train()
    spread(tuned, generator)
    batches = [torch.randint(0, VOCABULARY, (SEQUENCES, LENGTH), generator=generator) for _ in range(STEPS)]
    VERSIONS["bitsandbytes"] = bitsandbytes.__version__
    write("nf4", tuned, batches, base_weights="nf4")


def of_text(tuned, ids):
    # Behind the prompt; its first token has no loss, as without one.
    logits = tuned(input_ids=ids).logits[:, -ids.shape[1]:]
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].reshape(-1, VOCABULARY), ids[:, 1:].reshape(-1))
    return loss, {"ids": ids.tolist()}


def write_prompt(name, number):
    base, config = PROMPTS[name]
    generator = torch.Generator().manual_seed(number)
    model = transformers.AutoModelForCausalLM.from_pretrained(GOLDEN / base, torch_dtype=torch.float32,
                                                              attn_implementation="eager")
    torch.manual_seed(number)
    tuned = peft.get_peft_model(model, config).train()
    spread(tuned, generator)
    batches = [torch.randint(0, VOCABULARY, (SEQUENCES, LENGTH), generator=generator) for _ in range(STEPS)]
    write(name, tuned, batches, of_text, base)


def write_bottleneck(name, number):
    base, size, after = BOTTLENECKS[name]
    generator = torch.Generator().manual_seed(number)
    model = transformers.AutoModelForCausalLM.from_pretrained(GOLDEN / base, torch_dtype=torch.float32,
                                                              attn_implementation="eager")
    torch.manual_seed(number)
    tuned = add_bottlenecks(model, size, after).train()
    spread(tuned, generator)
    batches = [torch.randint(0, VOCABULARY, (SEQUENCES, LENGTH), generator=generator) for _ in range(STEPS)]
    write(name, tuned, batches, base=base)


def write_reward():
    generator = torch.Generator().manual_seed(51)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        GOLDEN / REWARD_BASE, torch_dtype=torch.float32, attn_implementation="eager")
    tuned = peft.get_peft_model(model, peft.LoraConfig(r=4, lora_alpha=6, target_modules=["q_proj", "v_proj", "down_proj"],
                                                       modules_to_save=["score"], task_type="SEQ_CLS")).train()
    spread(tuned, generator)
    number = lambda below: torch.randint(1, below, (1,), generator=generator).item()
    draw = lambda: torch.randint(1, REWARD_VOCABULARY, (number(16),), generator=generator).tolist()
    pair = lambda: {"chosen": draw(), "rejected": draw(), "margin": number(5) / 4}
    write("reward", tuned, [[pair() for _ in range(PAIRS)] for _ in range(STEPS)], of_pairs, REWARD_BASE, center_weight=CENTER)


def main():
    torch.set_num_threads(1)
    wanted = sys.argv[1:] or [*ADAPTERS, *GPT2, *MIXTRAL, *PARTS, *PROMPTS, *BOTTLENECKS, "reward", "nf4", "dropout"]
    if "reward" in wanted:
        write_reward()
    if "nf4" in wanted:
        write_nf4()
    if "dropout" in wanted:
        write_dropout()
    for number, name in enumerate(PROMPTS):
        if name in wanted:
            write_prompt(name, 61 + number)
    for number, name in enumerate(BOTTLENECKS):
        if name in wanted:
            write_bottleneck(name, 81 + number)
    for number, (name, config) in enumerate((ADAPTERS | GPT2 | MIXTRAL | PARTS).items()):
        if name not in wanted:
            continue
        generator = torch.Generator().manual_seed(31 + number)
        config.task_type = "CAUSAL_LM"
        base = GPT2_BASE if name in GPT2 else MIXTRAL_BASE if name in MIXTRAL else BASE
        model = transformers.AutoModelForCausalLM.from_pretrained(GOLDEN / base, torch_dtype=torch.float32,
                                                                  attn_implementation="eager")
        tuned = peft.get_peft_model(model, config).train()
        spread(tuned, generator)
        batches = [torch.randint(0, VOCABULARY, (SEQUENCES, LENGTH), generator=generator) for _ in range(STEPS)]
        write(name, tuned, batches, base=base)


if __name__ == "__main__":
    main()
