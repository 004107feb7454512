#!/usr/bin/env python3
"""Does PEFT read an adapter that a stage left, and does the model of that stage answer as PEFT does with it?

    venv/bin/python tests/parity/check_adapter.py BASE_MODEL STAGE_OUT...     # needs torch, transformers, peft

BASE_MODEL is the folder that the stage started from, STAGE_OUT what it left: the merged model, and the folder adapter.
"""
import sys

import peft
import torch
import transformers

BAR = 1e-4  # of logits, in f32


def logits_of(model, ids):
    with torch.no_grad():
        return model(ids).logits


def main():
    base, failed = sys.argv[1], False
    for out in sys.argv[2:]:
        plain = transformers.AutoModelForCausalLM.from_pretrained(base, torch_dtype=torch.float32).eval()
        ids = torch.randint(0, plain.config.vocab_size, (2, 24), generator=torch.Generator().manual_seed(3))
        before = logits_of(plain, ids)
        apart = logits_of(peft.PeftModel.from_pretrained(plain, f"{out}/adapter").eval(), ids)
        merged = logits_of(transformers.AutoModelForCausalLM.from_pretrained(out, torch_dtype=torch.float32).eval(), ids)
        moved, difference = (apart - before).abs().max().item(), (apart - merged).abs().max().item()
        print(f"{out}: the adapter moves logits by {moved:.3g}; merged, they differ from PEFT's by {difference:.1e}, bar {BAR:.0e}")
        failed |= difference > BAR or moved < 100 * BAR
    sys.exit(failed)


if __name__ == "__main__":
    main()
