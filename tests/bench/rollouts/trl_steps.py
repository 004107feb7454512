#!/usr/bin/env python3
"""GRPO by TRL on the folder of make_model.py; the last line of what it prints is JSON. Needs trl, torch, transformers.

    trl_steps.py FOLDER [--steps 4] [--batch 128] [--group 8] [--longest 128] [--beta 0.04] [--pattern e] [--threads 2]

Times of each step but the first: the whole step, and model.generate() as GRPOTrainer calls it, with the tokens of the answers.
"""
import argparse
import json
import pathlib
import re
import tempfile
import time

import torch
import transformers
import trl
from datasets import Dataset
from transformers import AutoTokenizer, LlamaForCausalLM, TrainerCallback


class StepTimes(TrainerCallback):
    def __init__(self):
        self.ends = []

    def on_step_begin(self, args, state, control, **kwargs):
        self.ends = self.ends or [time.monotonic()]

    def on_step_end(self, args, state, control, **kwargs):
        self.ends.append(time.monotonic())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    for name, value in (("steps", 4), ("batch", 128), ("group", 8), ("longest", 128), ("threads", 2)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--beta", type=float, default=0.04)
    parser.add_argument("--pattern", default="e")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model = LlamaForCausalLM.from_pretrained(options.folder / "model", dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(options.folder / "model")
    rows = [json.loads(line) for line in (options.folder / "prompts.jsonl").open()]
    data = Dataset.from_list([{"prompt": [{"role": "user", "content": row["prompt"]}]} for row in rows])

    def reward(completions, **kwargs):
        return [float(bool(re.search(options.pattern, answer[0]["content"]))) for answer in completions]

    generated = []
    generate = model.generate

    def timed(*args, **kwargs):
        begin = time.monotonic()
        out = generate(*args, **kwargs)
        seconds = time.monotonic() - begin
        answers = out[:, kwargs["input_ids"].size(1):]
        ended = (answers == tokenizer.eos_token_id).int().cumsum(1)
        tokens = int((ended - (answers == tokenizer.eos_token_id).int() == 0).sum())
        generated.append({"seconds": seconds, "tokens": tokens, "answers": answers.size(0), "places": answers.numel(),
                          "prompt_tokens": int(kwargs["attention_mask"].sum())})
        return out

    model.generate = timed
    times = StepTimes()
    with tempfile.TemporaryDirectory() as folder:
        settings = trl.GRPOConfig(
            output_dir=folder, use_cpu=True, bf16=False, fp16=False, gradient_checkpointing=False, loss_type="grpo",
            per_device_train_batch_size=options.batch, num_generations=options.group, max_steps=options.steps,
            max_completion_length=options.longest, beta=options.beta, learning_rate=1e-6, temperature=1.0, top_p=1.0,
            top_k=0, report_to=[], save_strategy="no", logging_strategy="no", disable_tqdm=True, seed=1)
        trainer = trl.GRPOTrainer(model=model, processing_class=tokenizer, reward_funcs=reward, args=settings,
                                  train_dataset=data, callbacks=[times])
        trainer.train()
    seconds = [end - begin for begin, end in zip(times.ends, times.ends[1:])]
    print(json.dumps({"steps": seconds[1:], "generate": generated[1:], "threads": torch.get_num_threads(),
                      "versions": f"trl {trl.__version__}, transformers {transformers.__version__}, torch {torch.__version__}"}))


if __name__ == "__main__":
    main()
