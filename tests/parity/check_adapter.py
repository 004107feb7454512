#!/usr/bin/env python3
"""Does PEFT read an adapter that a stage left, and does the model of that stage answer as PEFT does with it?

    venv/bin/python tests/parity/check_adapter.py ENGINE BASE_MODEL STAGE_OUT...     # needs torch, transformers, peft

ENGINE is longhaul-engine, BASE_MODEL the folder that the stage started from, STAGE_OUT what it left: the merged model, and
the folder adapter. Of a prompt or a prefix, which is merged into nothing, the engine's logits are compared, of others transformers'.
What PEFT holds after reading has to be what the file has, name by name: it fills in what a file lacks, without an error.
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


def read_otherwise(tuned, folder):
    """Names of what PEFT and the file do not have alike."""
    held = peft.get_peft_model_state_dict(tuned, save_embedding_layers=False)
    written = safetensors.torch.load_file(f"{folder}/adapter_model.safetensors")
    return sorted(name for name in held.keys() | written.keys()
                  if name not in held or name not in written or not torch.equal(held[name], written[name]))


def main():
    engine, base, failed = sys.argv[1], sys.argv[2], False
    for out in sys.argv[3:]:
        plain = transformers.AutoModelForCausalLM.from_pretrained(base, torch_dtype=torch.float32).eval()
        ids = torch.randint(0, plain.config.vocab_size, (2, 24), generator=torch.Generator().manual_seed(3))
        before = logits_of(plain, ids)
        tuned = peft.PeftModel.from_pretrained(plain, f"{out}/adapter").eval()
        apart = logits_of(tuned, ids)[:, -ids.shape[1]:]  # behind a prompt
        otherwise = read_otherwise(tuned, f"{out}/adapter")
        if otherwise:
            print(f"{out}: PEFT and the file differ in {', '.join(otherwise)}")
        if tuned.peft_type in (peft.PeftType.PROMPT_TUNING, peft.PeftType.P_TUNING, peft.PeftType.PREFIX_TUNING):
            merged = engine_logits(engine, out, ids)
        else:
            merged = logits_of(transformers.AutoModelForCausalLM.from_pretrained(out, torch_dtype=torch.float32).eval(), ids)
        moved, difference = (apart - before).abs().max().item(), (apart - merged).abs().max().item()
        print(f"{out}: the adapter moves logits by {moved:.3g}; those of the stage's model differ from PEFT's by {difference:.1e}, bar {BAR:.0e}")
        failed |= bool(otherwise) or difference > BAR or moved < 100 * BAR
    sys.exit(failed)


if __name__ == "__main__":
    main()
