#!/usr/bin/env python3
"""A small Llama model of random weights with its tokenizer and prompts, for rollout_speed.py; needs torch and transformers.

    make_model.py FOLDER TEXT [--prompts 64] [--hidden 256] [--layers 6] [--vocabulary 3072] [--mean-answer 64] [--seed 1]
                         [--period 0] [--likely 0.98]

Writes FOLDER/model and FOLDER/prompts.jsonl. TEXT is a folder of *.md files: the tokenizer is trained on it, and prompts are
pieces of it, of 10 to 90 words. Every token is drawn with about the same probability but the one that ends an answer: that
has 1 / mean_answer at each place, so that answers have the lengths of real ones, many short and a few long (0: it has no
more than any other). With --period the tokens stand in rings of so many: each is followed by the next of its ring with the
probability --likely, on average, so that answers are texts that repeat themselves; the output layer is trained to it.
"""
import argparse
import json
import math
import pathlib
import random

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

END, PAD = "<|end|>", "<|pad|>"
TEMPLATE = ("{% for message in messages %}{{ message['role'] + ': ' + message['content'] }}"
            "{% if message['role'] == 'assistant' %}{{ '" + END + "' }}{% endif %}{{ '\n' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}")


def make_tokenizer(texts, vocabulary, folder):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=[END, PAD],
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.train_from_iterator(texts, trainer)
    assert tokenizer.get_vocab_size() == vocabulary, "the text is too short for such a vocabulary"
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END, pad_token=PAD)
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)
    return fast


def successors(ids, options):
    """Of each token the next of its ring; the last ring may be a shorter one."""
    place, size = ids - 2, options.vocabulary - 2
    first = place - place % options.period
    return 2 + first + (place - first + 1) % torch.clamp(size - first, max=options.period)


def ring_texts(options, rows, length):
    """Ids [rows, length]: one in fifty is not the successor of the one before it."""
    def anywhere():
        return torch.randint(2, options.vocabulary, (rows,))
    columns = [anywhere()]
    for _ in range(length - 1):
        columns.append(torch.where(torch.rand(rows) < 0.02, anywhere(), successors(columns[-1], options)))
    return torch.stack(columns, 1)


def repeat(model, options):
    """Trains the output layer, until what it gives to successors in such texts is what was asked for, on average."""
    torch.nn.init.normal_(model.model.embed_tokens.weight, std=1.0)
    optimizer = torch.optim.Adam(model.lm_head.parameters(), lr=0.01)
    steps_max = 2000
    for step in range(steps_max):
        ids = ring_texts(options, 16, 64)
        with torch.no_grad():
            hidden = model.model(ids).last_hidden_state.flatten(0, 1)
        losses = torch.nn.functional.cross_entropy(model.lm_head(hidden), successors(ids, options).flatten(),
                                                   reduction="none")
        likely = torch.exp(-losses).mean().item()
        if likely >= options.likely:
            print(f"a token is followed by the next of its ring with the probability {likely:.3f}, after {step} steps")
            return
        optimizer.zero_grad()
        losses.mean().backward()
        optimizer.step()
    raise SystemExit(f"the model does not follow its rings after {steps_max} steps")


def make_model(options, tokenizer):
    torch.manual_seed(options.seed)
    config = LlamaConfig(hidden_size=options.hidden, num_hidden_layers=options.layers, vocab_size=options.vocabulary,
                         num_attention_heads=options.hidden // 32, num_key_value_heads=options.hidden // 64,
                         intermediate_size=options.hidden * 11 // 4, max_position_embeddings=512,
                         tie_word_embeddings=False, eos_token_id=tokenizer.eos_token_id,
                         pad_token_id=tokenizer.pad_token_id, bos_token_id=None)
    model = LlamaForCausalLM(config)
    if options.period > 0:
        repeat(model, options)
    if options.mean_answer > 0:
        # One channel is far larger than the others and hardly moved by the blocks, so its normalised value is nearly
        # the same everywhere: what the output layer makes of it is a bias of the end's logit.
        with torch.no_grad():
            model.model.embed_tokens.weight[:, 0] = 3.0
            model.lm_head.weight[:, 0] = 0
            model.lm_head.weight[tokenizer.eos_token_id] = 0
            model.lm_head.weight[tokenizer.eos_token_id, 0] = 1
            ids = torch.randint(2, options.vocabulary, (8, 64))
            logits = model(ids).logits[:, 16:].flatten(0, 1).double()
            end = logits[:, tokenizer.eos_token_id].clone()
            logits[:, tokenizer.eos_token_id] = -math.inf
            wanted = torch.logsumexp(logits, -1).mean() - math.log(max(1e-3, options.mean_answer - 1))
            model.lm_head.weight[tokenizer.eos_token_id, 0] = wanted / end.mean()
    return model


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("text", type=pathlib.Path)
    for name, value in (("prompts", 64), ("hidden", 256), ("layers", 6), ("vocabulary", 3072),
                        ("mean-answer", 64), ("seed", 1), ("period", 0)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--likely", type=float, default=0.98)
    options = parser.parse_args()
    texts = [path.read_text(encoding="utf-8") for path in sorted(options.text.rglob("*.md"))]
    folder = options.folder / "model"
    tokenizer = make_tokenizer(texts, options.vocabulary, folder)
    make_model(options, tokenizer).save_pretrained(folder)
    draw = random.Random(options.seed)
    words = " ".join(texts).split()
    with (options.folder / "prompts.jsonl").open("w") as file:
        for _ in range(options.prompts):
            at, count = draw.randrange(len(words) - 90), draw.randrange(10, 91)
            file.write(json.dumps({"prompt": " ".join(words[at:at + count])}) + "\n")


if __name__ == "__main__":
    main()
