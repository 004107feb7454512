#!/usr/bin/env python3
"""Writes the golden files beside it: what the reference implementations make of small inputs.

    python make_golden.py     # rewrites golden/; needs tokenizers, transformers, safetensors, numpy, jinja2

Everything here is drawn from fixed seeds; the versions used are written into every file.
"""
import json
import pathlib
import random
import sys

import jinja2.sandbox
import numpy
import safetensors
import safetensors.numpy
import tokenizers
import transformers
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

GOLDEN = pathlib.Path(__file__).resolve().parent / "golden"
VERSIONS = {"python": sys.version.split()[0]} | {
    m.__name__: m.__version__ for m in (tokenizers, transformers, safetensors, numpy)}
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SPECIALS = ["<|endoftext|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>"]

SENTENCES = [
    "The ship leaves at nine, and nobody on board knows when it'll come back.",
    "La nave parte alle nove e nessuno a bordo sa quando tornerà; l'equipaggio è pronto.",
    "El vaixell surt a les nou; ningú no sap quan tornarà, però l'aigua és calma.",
    "Das Schiff läuft um neun Uhr aus, und größere Stürme sind für übermorgen angekündigt.",
    "Корабль отплывает в девять, и никто на борту не знает, когда он вернётся.",
    "船は九時に出る。いつ戻るかは、だれも知らない。",
    "船九点出发，船上没有人知道什么时候回来。",
    "배는 아홉 시에 떠나고, 언제 돌아올지 아무도 모른다.",
    "السفينة تغادر في التاسعة، ولا أحد يعرف متى ستعود.",
    "जहाज़ नौ बजे निकलता है, और कोई नहीं जानता कि वह कब लौटेगा।",
    "เรือออกตอนเก้าโมง และไม่มีใครรู้ว่าจะกลับเมื่อไร",
    "for (int i = 0; i < 1024; ++i) {\n\tsum += a[i] * b[i];  // dot product\n}\n\n\nreturn sum;",
    "In 2026 we measured 1234567 tokens, 3.14159 seconds and 1,000,000 bytes: 99.9 %.",
    "I'm sure they'RE right, we'Ve seen it; she'd say 'tis fine, y'all'll agree.",
    "tabs\tand  double   spaces    \n  and lines \r\n\r\n with trailing   ",
    "emoji \U0001f642 \U0001f468\u200d\U0001f469\u200d\U0001f467 flags \U0001f1ee\U0001f1f9 e\u0301 vs \u00e9",
]
PIECES = ["'s", "'S", "'\u017f", "'LL", "'re", " ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u3000", "\u180e", "\u0085",
          "1", "12", "1234", "\u0663", "\u2167", "\u00b2", "ab", "Hello", "\u4e2d\u6587", "...", "!?", "'", '"', "_",
          "\u200b", "\u2028", "<|endoftext|>", "<|end|>", "<|end", "|>", "\x00", "\x1c", "\x7f", "\x0b",
          "\U00010d4a", "\U0001e5f1", "\U000323af", "\u1c89"]


def random_texts(seed, count):
    r = random.Random(seed)

    def character():
        kind = r.randrange(4)
        if kind == 0:
            return r.choice(PIECES)
        if kind == 1:
            return chr(r.randrange(0x20, 0x7F))
        if kind == 2:
            return chr(r.randrange(0xA0, 0x3100))
        return chr(r.choice([r.randrange(0x3100, 0xD800), r.randrange(0xE000, 0x110000), r.randrange(0x10000, 0x1FB00)]))

    return ["".join(character() for _ in range(r.randrange(1, 24))) for _ in range(count)]


def training_texts():
    """Small, with ties and repeats, in several scripts."""
    r = random.Random(11)
    words = sorted({w for s in SENTENCES for w in s.split()})
    texts = [" ".join(r.choice(words) for _ in range(40)) for _ in range(60)]
    return SENTENCES + texts + ["aaaa aaaaaaa abababab abcabcabc banana bananas", "the then there these them theme"] * 3


def pre_tokenizer(pattern):
    if pattern == "gpt2":
        return pre_tokenizers.ByteLevel(add_prefix_space=False)
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex({"llama3": LLAMA3, "o200k": O200K}[pattern]), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def train(pattern, vocabulary, min_frequency):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer(pattern)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(training_texts(), trainers.BpeTrainer(
        vocab_size=vocabulary, min_frequency=min_frequency, special_tokens=SPECIALS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    return tokenizer


def save(name, value):
    (GOLDEN / name).write_text(json.dumps({"versions": VERSIONS} | value, ensure_ascii=True, separators=(",", ":")) + "\n")
    print(name, (GOLDEN / name).stat().st_size, "bytes")


def cases(tokenizer):
    rows = []
    for text in SENTENCES + random_texts(5, 120):
        tokenizer.encode_special_tokens = True
        plain = tokenizer.encode(text, add_special_tokens=False).ids
        tokenizer.encode_special_tokens = False
        special = tokenizer.encode(text, add_special_tokens=False).ids
        rows.append({"text": text, "ids": plain} | ({"ids_special": special} if special != plain else {}))
    return rows


def tokenizer_goldens():
    runs = []
    for pattern, vocabulary, min_frequency in [("gpt2", 600, 0), ("llama3", 700, 2), ("o200k", 500, 3)]:
        tokenizer = train(pattern, vocabulary, min_frequency)
        file = json.loads(tokenizer.to_str())
        runs.append({"pattern": pattern, "vocabulary": vocabulary, "min_frequency": min_frequency,
                     "merges": file["model"]["merges"], "vocab_size": tokenizer.get_vocab_size(), "cases": cases(tokenizer)})
        if pattern == "llama3":
            save("reference_tokenizer.json", {"tokenizer": file})
            # Tokens that no merge makes, taken whole when a word is exactly one: as files converted from tiktoken.
            file["model"]["ignore_merges"] = True
            file["model"]["merges"] = [m for i, m in enumerate(file["model"]["merges"]) if i % 3]
            save("ignore_merges.json", {"tokenizer": file, "cases": cases(Tokenizer.from_str(json.dumps(file)))[:80]})
    save("tokenizers.json", {"special_tokens": SPECIALS, "training_texts": training_texts(), "runs": runs})


def chat_goldens():
    template = ("{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}"
                "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}")
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    compiled = environment.from_string(template)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=train("llama3", 700, 2), chat_template=template)
    conversations = [
        [("user", "Hello"), ("assistant", "Hi there, what can I do for you?")],
        [("system", "You are brief."), ("user", "2 + 2?\n"), ("assistant", " 4")],
        [("user", "  spaces around  "), ("assistant", "\n\nnew lines\n"), ("user", "船は？"), ("assistant", "九時に出る。")],
        [("user", "{{ not a template }} {% raw %} \"quotes\" \\n")],
    ]
    rows = []
    for conversation in conversations:
        messages = [{"role": r, "content": c} for r, c in conversation]
        for add in (False, True):
            text = compiled.render(messages=messages, add_generation_prompt=add)
            assert text == fast.apply_chat_template(messages, add_generation_prompt=add, tokenize=False)
            ids = fast.encode(text, add_special_tokens=False)
            rows.append({"messages": messages, "open": add, "text": text, "ids": ids})
    save("chat.json", {"template": template, "conversations": rows})


def safetensors_golden():
    r = numpy.random.default_rng(3)
    tensors = {"a.weight": r.standard_normal((3, 5)).astype("float32"), "b": r.integers(-128, 127, (7,)).astype("int8"),
               "half": r.standard_normal((2, 2)).astype("float16"), "scalar": numpy.array(2.5, dtype="float64"),
               "empty": numpy.zeros((0, 4), dtype="float32"), "ids": numpy.arange(6, dtype="int64").reshape(2, 3)}
    data = safetensors.numpy.save(tensors, metadata={"format": "pt"})
    (GOLDEN / "small.safetensors").write_bytes(data)
    save("safetensors.json", {"tensors": {k: {"shape": list(v.shape), "values": v.astype("float64").flatten().tolist()}
                                          for k, v in tensors.items()}})


def config_goldens():
    rows = []
    for overrides in [
        {}, {"rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}, "tie_word_embeddings": True},
        {"rope_parameters": {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
                             "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}, "head_dim": 32},
        {"rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}},
    ]:
        config = transformers.LlamaConfig(vocab_size=512, hidden_size=64, intermediate_size=192, num_hidden_layers=2,
                                          num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
                                          **overrides)
        rows.append(json.loads(config.to_json_string(use_diff=False)))
    save("llama_configs.json", {"configs": rows})


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    tokenizer_goldens()
    chat_goldens()
    safetensors_golden()
    config_goldens()
