#!/usr/bin/env python3
"""One training step of GPT-2 124M in PyTorch on the CPU, as PyTorch's users write it: bf16 autocast (or f32), scaled dot
product attention, tied output, clipping, fused AdamW. Prints one JSON line of seconds per step; gpt2_speed.py calls it.

    python torch_step.py --batch 8 --length 512 --threads 2 --steps 5 [--compile] [--f32] [--seconds 30]
"""
import argparse
import json
import time

import torch
import torch.nn.functional as F
from torch import nn

LAYERS, WIDTH, HEADS, VOCABULARY, POSITIONS = 12, 768, 12, 50257, 1024


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.fc, self.projection = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.projection(F.gelu(self.fc(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(POSITIONS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)

    def forward(self, ids, targets):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.view(-1, VOCABULARY), targets.view(-1))


def main():
    parser = argparse.ArgumentParser()
    for name in ("batch", "length", "threads", "steps"):
        parser.add_argument("--" + name, type=int, required=True)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--f32", action="store_true", help="no autocast")
    parser.add_argument("--warm", type=int, default=2, help="steps before those that are measured")
    parser.add_argument("--seconds", type=float, default=60, help="no further step once so long was measured")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    model = Gpt2()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, fused=True)
    step_model = torch.compile(model) if options.compile else model
    data = torch.randint(0, VOCABULARY, (options.batch, options.length + 1))
    ids, targets = data[:, :-1].contiguous(), data[:, 1:].contiguous()

    def step():
        begin, processor_begin = time.monotonic(), time.process_time()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not options.f32):
            loss = step_model(ids, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return time.monotonic() - begin, time.process_time() - processor_begin, loss.item()

    warm = [step()[2] for _ in range(options.warm)]
    times, processor_times, losses = [], [], []
    while len(times) < options.steps and sum(times) < options.seconds:
        seconds, processor_seconds, loss = step()
        times.append(seconds)
        processor_times.append(processor_seconds)
        losses.append(loss)
    print(json.dumps({"seconds": times, "processor_seconds": processor_times, "first_loss": (warm + losses)[0],
                      "last_loss": losses[-1], "torch": torch.__version__}))


if __name__ == "__main__":
    main()
