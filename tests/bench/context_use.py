#!/usr/bin/env python3
"""Does an exported model look things up in its context? Needs transformers and torch (tests/parity/README.md).

  tests/bench/context_use.py MODEL_FOLDER TEXT_FILE

Prints the loss of pieces of the text, and of the same pieces where they stand a second time in the window (a model whose heads copy
finds the second time far cheaper), and by how much a token is likelier because it stands earlier in the window.
"""
import sys

import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

piece, gap, pieces, skip = 24, 8, 24, 8  # tokens; the first `skip` of a piece are not counted

if len(sys.argv) != 3:
    sys.exit(__doc__)
folder, text = sys.argv[1:]
ids = Tokenizer.from_file(folder + "/tokenizer.json").encode(open(text, encoding="utf-8").read(400_000)).ids
model = AutoModelForCausalLM.from_pretrained(folder).float().eval()
step = (len(ids) - piece - gap) // (2 * pieces)
if step < piece:
    sys.exit(f"{text} is too short: {len(ids)} tokens")
first = torch.tensor([ids[2 * i * step:][:piece] for i in range(pieces)])
between = torch.tensor([ids[(2 * i + 1) * step:][:gap] for i in range(pieces)])


def log_probabilities(tokens):
    with torch.no_grad():
        return torch.log_softmax(model(tokens).logits, -1)


window = torch.cat([first, between, first], 1)
loss = -log_probabilities(window)[:, :-1].gather(-1, window[:, 1:, None])[..., 0]
print(f"loss the first time    {loss[:, skip:piece - 1].mean():.3f} nats a token")
print(f"loss the second time   {loss[:, piece + gap + skip:].mean():.3f}")

# The prediction after the same `between`, behind a piece and behind another one.
behind_own = log_probabilities(torch.cat([first, between], 1))[:, -1]
behind_other = log_probabilities(torch.cat([first.roll(-1, 0), between], 1))[:, -1]
gains = []
for i in range(pieces):
    own = list(set(first[i].tolist()) - set(first[(i + 1) % pieces].tolist()))
    gains.append((behind_own[i, own] - behind_other[i, own]).mean().item())
print(f"a token seen earlier   {sum(gains) / len(gains):.3f} nats likelier")
