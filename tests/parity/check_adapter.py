#!/usr/bin/env python3
"""Does PEFT read an adapter that a stage left, and does the model of that stage answer as PEFT does with it?

    venv/bin/python tests/parity/check_adapter.py ENGINE BASE_MODEL STAGE_OUT...     # needs torch, transformers, peft

ENGINE is longhaul-engine, BASE_MODEL the folder that the stage started from, STAGE_OUT what it left: the merged model, and
the folder adapter. Of a prompt or a prefix, which is merged into nothing, the engine's logits are compared, of others transformers'.
Of a reward model its number is compared with that of transformers by the weights that the stage left, with what stands before
texts put there by hand. What PEFT holds after reading has to be what the file has, name by name: it fills in what a file lacks,
without an error. PEFT 0.13 cannot read what stands before the texts of a reward model, not even what it wrote itself.
"""
import json
import subprocess
import sys
import tempfile

import peft
import safetensors.torch
import torch
import transformers

BAR = 1e-4  # of logits, in f32


def logits_of(model, ids):
    with torch.no_grad():
        return model(ids).logits


def engine_logits(engine, out, ids):
    rows = []
    for row in ids.tolist():
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(row, file)
            file.flush()
            said = subprocess.run([engine, "logits", "--model", out, "--tokens", file.name, "--precision", "f32"],
                                  check=True, capture_output=True, text=True).stdout
        rows.append(json.loads(said)["logits"])
    return torch.tensor(rows)


PROMPTS = (peft.PeftType.PROMPT_TUNING, peft.PeftType.P_TUNING, peft.PeftType.PREFIX_TUNING)


def keys_before(file, config):
    """The cache of a text before which keys and values stand; those of a layer are [tokens, heads * width]."""
    cache = transformers.DynamicCache()
    for layer in range(config.num_hidden_layers):
        rows = [file[f"model.layers.{layer}.self_attn.prefix_{what}"] for what in ("keys", "values")]
        cache.update(*(r.view(1, len(r), config.num_key_value_heads, -1).transpose(1, 2) for r in rows), layer)
    return cache


def numbers_of(model, ids, file=None):
    """What a reward model says of each text; `file`: of the weights beside which something stands before texts."""
    said = []
    for row in ids:
        row = row[None]
        with torch.no_grad():
            if file is None:
                said.append(model(row).logits)
            elif "prompt_embeddings" in file:
                before = file["prompt_embeddings"][None]
                said.append(model(inputs_embeds=torch.cat((before, model.get_input_embeddings()(row)), 1)).logits)
            else:
                said.append(model(row, past_key_values=keys_before(file, model.config)).logits)
    return torch.cat(said)


def check_reward(base, out, ids):
    """The numbers without the adapter, PEFT's with it, the stage's model's, and what PEFT has read otherwise."""
    load = lambda folder: transformers.AutoModelForSequenceClassification.from_pretrained(
        folder, num_labels=1, torch_dtype=torch.float32).eval()
    tuned = peft.PeftModel.from_pretrained(load(base), f"{out}/adapter").eval()
    # From 0.15 on the output layer beside a prompt is the model's own to PEFT, which it reads and does not write.
    otherwise = [name for name in read_otherwise(tuned, f"{out}/adapter") if name != "base_model.score.weight"]
    head = next(value for name, value in reversed(tuned.state_dict().items()) if "score" in name and "original" not in name)
    plain, merged = load(base), load(out)
    plain.score.load_state_dict({"weight": head})  # a language model has none: only what the adapter moves is of interest
    before = numbers_of(plain, ids)
    if not torch.equal(head, merged.score.weight):
        otherwise.append("score.weight")
    file = safetensors.torch.load_file(f"{out}/model.safetensors") if tuned.peft_type in PROMPTS else None
    return before, numbers_of(tuned, ids), numbers_of(merged, ids, file), otherwise


def read_otherwise(tuned, folder):
    """Names of what PEFT and the file do not have alike."""
    held = peft.get_peft_model_state_dict(tuned, save_embedding_layers=False)
    written = safetensors.torch.load_file(f"{folder}/adapter_model.safetensors")
    return sorted(name for name in held.keys() | written.keys()
                  if name not in held or name not in written or not torch.equal(held[name], written[name]))


def check_logits(engine, base, out, ids):
    """The same of a language model."""
    load = lambda folder: transformers.AutoModelForCausalLM.from_pretrained(folder, torch_dtype=torch.float32).eval()
    plain = load(base)
    before = logits_of(plain, ids)
    tuned = peft.PeftModel.from_pretrained(plain, f"{out}/adapter").eval()
    apart = logits_of(tuned, ids)[:, -ids.shape[1]:]  # behind a prompt
    merged = engine_logits(engine, out, ids) if tuned.peft_type in PROMPTS else logits_of(load(out), ids)
    return before, apart, merged, read_otherwise(tuned, f"{out}/adapter")


def main():
    engine, base, failed = sys.argv[1], sys.argv[2], False
    vocabulary = transformers.AutoConfig.from_pretrained(base).vocab_size
    for out in sys.argv[3:]:
        ids = torch.randint(0, vocabulary, (2, 24), generator=torch.Generator().manual_seed(3))
        with open(f"{out}/adapter/adapter_config.json") as file:
            is_reward = json.load(file).get("task_type") == "SEQ_CLS"
        checked = check_reward(base, out, ids) if is_reward else check_logits(engine, base, out, ids)
        before, apart, merged, otherwise = checked
        if otherwise:
            print(f"{out}: PEFT and the file differ in {', '.join(otherwise)}")
        moved, difference = (apart - before).abs().max().item(), (apart - merged).abs().max().item()
        print(f"{out}: the adapter moves logits by {moved:.3g}; those of the stage's model differ from PEFT's by {difference:.1e}, bar {BAR:.0e}")
        failed |= bool(otherwise) or difference > BAR or moved < (1 if is_reward else 100) * BAR
    sys.exit(failed)


if __name__ == "__main__":
    main()
