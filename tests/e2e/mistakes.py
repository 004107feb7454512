"""Mistakes of a newcomer: what was written, which words the answer has to hold, and what is written after it was followed.

Every row is one edit of a workflow that works. `mended` is what stands in place of `wrong` once somebody has done what the
message says; each text of `says` has to stand in the message, and the first of them is the remedy: the part of the message
that says what to write. No row repeats one of the 72 of the walk at 057de77b.
"""
from typing import NamedTuple

TEXTS = '''[workflow]
name = "mine"

[stage.corpus]
kind = "curate"
inputs = { documents = "texts" }

[stage.tokens]
kind = "tokenize"
inputs = { corpus = "@corpus" }

[stage.pretrain]
kind = "pretrain"
inputs = { tokens = "@tokens" }
recipe = "quickstart-tiny"
steps = 2

[stage.evaluate]
kind = "evaluate"
inputs = { model = "@pretrain", tokens = "@tokens" }

[stage.quantize]
kind = "quantize"
inputs = { model = "@pretrain" }

[stage.deploy]
kind = "deploy"
inputs = { model = "@quantize" }
'''

CHATS = '''[workflow]
name = "tuned"

[stage.chat]
kind = "sft"
inputs = { model = "model", data = "chats.jsonl" }
steps = 2
global_batch_size = 4
'''

SCRIPT = '''[workflow]
name = "script"

[stage.train]
kind = "command"
argv = ["python3", "train.py"]
'''


class Mistake(NamedTuple):
    workflow: str
    right: str    # stands in the workflow
    wrong: str    # was written in its place
    mended: str   # is written after the message was followed
    line: int     # that the message names; 0: it is of the whole file or of the command line
    says: tuple   # the remedy, and what else has to be there


def after(workflow, right, wrong, mended, line, *says):
    """A line more, behind `right`."""
    return Mistake(workflow, right, f"{right}\n{wrong}", f"{right}\n{mended}" if mended else right, line, says)


def instead(workflow, right, wrong, mended, line, *says):
    return Mistake(workflow, right, wrong, mended, line, says)


STEPS, CORPUS, TOKENS = "steps = 2", 'documents = "texts" }', 'corpus = "@corpus" }'
DEPLOY, EVALUATE = 'inputs = { model = "@quantize" }', 'inputs = { model = "@pretrain", tokens = "@tokens" }'
QUANTIZE, ARGV = 'inputs = { model = "@pretrain" }', 'argv = ["python3", "train.py"]'

MISTAKES = [
    # The shape of the file.
    instead(TEXTS, "[stage.corpus]", "[stages.corpus]", "[stage.corpus]", 4, "did you mean 'stage'?"),
    instead(TEXTS, "[stage.corpus]", "[corpus]", "[stage.corpus]", 4, "write [stage.corpus]"),
    instead(TEXTS, "[stage.corpus]", "[[stage.corpus]]", "[stage.corpus]", 4, "write [stage.corpus]"),
    instead(TEXTS, '[workflow]\nname = "mine"\n', "", '[workflow]\nname = "mine"\n', 0, "add [workflow] with name"),
    instead(TEXTS, 'name = "mine"', 'name = "my texts"', 'name = "my-texts"', 2, "letters, digits, '-' and '_'"),
    instead(TEXTS, 'kind = "curate"\n', "", 'kind = "curate"\n', 4, "one of: curate"),
    instead(TEXTS, 'kind = "pretrain"', 'kind = "train"', 'kind = "pretrain"', 13, "did you mean 'pretrain'?"),
    instead(CHATS, 'kind = "sft"', 'kind = "finetune"', 'kind = "sft"', 5, "did you mean 'sft'?"),
    instead(TEXTS, 'kind = "curate"', "kind = \u201ccurate\u201d", 'kind = "curate"', 5, "write straight quotes"),
    instead(TEXTS, 'kind = "curate"', 'kind "curate"', 'kind = "curate"', 5, 'write kind = "curate"'),
    instead(TEXTS, 'kind = "curate"', 'kind = "curate"  // cleaned', 'kind = "curate"  # cleaned', 5, "a comment begins with #"),
    instead(TEXTS, CORPUS, 'documents: "texts" }', CORPUS, 6, "write = between a key and its value"),
    instead(TEXTS, "{ " + CORPUS, "{\n  " + CORPUS, "{ " + CORPUS, 6, "such a table stands in one line"),
    instead(TEXTS, STEPS, "steps = 2\nsteps = 3", STEPS, 17, "it stands first in line 16; keep one of the two"),
    # Inputs.
    instead(TEXTS, "inputs = { " + CORPUS, 'inputs = "texts"', "inputs = { " + CORPUS, 6, 'write inputs = { documents = "texts" }'),
    instead(TEXTS, "inputs = { " + CORPUS, "input = { " + CORPUS, "inputs = { " + CORPUS, 6, "did you mean 'inputs'?"),
    instead(TEXTS, CORPUS, 'docs = "texts" }', CORPUS, 6, "its inputs: documents"),
    instead(TEXTS, '"texts"', '"@texts"', '"texts"', 6, 'of the file or folder here write "texts"'),
    instead(TEXTS, EVALUATE, EVALUATE.replace("@pretrain", "@pretrain.out"), EVALUATE, 20, "did you mean 'pretrain'?"),
    instead(TEXTS, EVALUATE, EVALUATE.replace("@pretrain", "@pretrain/out"), EVALUATE, 20, 'the artifact itself is "@pretrain"'),
    instead(TEXTS, EVALUATE, 'inputs = { model = "@pretrain" }', EVALUATE, 18, "give inputs.tokens, the artifact of a tokenize stage"),
    after(TEXTS, STEPS, 'needs = ["corpuss"]', 'needs = ["corpus"]', 17, "did you mean 'corpus'?"),
    after(TEXTS, STEPS, 'run_after = ["corpus"]', 'needs = ["corpus"]', 17, "did you mean 'needs'?"),
    # Settings of a training.
    instead(TEXTS, "quickstart-tiny", "quickstart-tinny", "quickstart-tiny", 15, "did you mean 'quickstart-tiny'?"),
    instead(TEXTS, "quickstart-tiny", "workflows/recipes/quickstart-tiny.toml", "quickstart-tiny", 15, "without folder and .toml"),
    instead(TEXTS, STEPS, "Steps = 2", STEPS, 16, "did you mean 'steps'?"),
    instead(TEXTS, STEPS, "steps = -5", STEPS, 16, "expected between 0 and"),
    instead(TEXTS, STEPS, 'steps = "${steps}"', STEPS, 16, "references are ${params.NAME}"),
    instead(TEXTS, STEPS, "steps = 1k", "steps = 1000", 16, "write steps = 1000"),
    after(TEXTS, STEPS, 'optimizer = "adamw"', "optimizer = { lr = 1e-3 }", 17, "for example optimizer = { lr ="),
    after(TEXTS, STEPS, 'optimizer = { lr = "3e-4" }', "optimizer = { lr = 3e-4 }", 17, "write lr = 3e-4, without quotes"),
    after(TEXTS, STEPS, "optimizer = { betas = [0.9, 0.95] }", "optimizer = { beta1 = 0.9, beta2 = 0.95 }", 17,
          "did you mean 'beta1' or 'beta2'?"),
    after(TEXTS, STEPS, 'precision = "fp16"', 'precision = "bf16"', 17, "one of: bf16, f32"),
    after(TEXTS, STEPS, 'device = "cuda"', 'device = "auto"', 17, "one of: auto, cpu, gpu"),
    after(TEXTS, STEPS, "checkpoint = 100", "checkpoint = { every_steps = 100 }", 17, "write checkpoint = { every_steps = 100 }"),
    after(TEXTS, STEPS, "checkpoint = { every = 100 }", "checkpoint = { every_steps = 100 }", 17, "did you mean 'every_steps'?"),
    after(TEXTS, STEPS, "save_every_n_steps = 1", "checkpoint = { every_steps = 1 }", 17, "did you mean 'checkpoint.every_steps'?"),
    after(TEXTS, STEPS, "deterministic = True", "deterministic = true", 17, "write deterministic = true"),
    after(TEXTS, STEPS, "micro_batch_size = 3", "micro_batch_size = 3\nglobal_batch_size = 6", 17, "use 6 or 9"),
    after(TEXTS, STEPS, "sequence_length = 1024", "sequence_length = 128", 17, "use at most 128"),
    after(TEXTS, STEPS, 'schedule = "cosine"', 'optimizer = { lr_schedule = "cosine" }', 17, "optimizer.lr_schedule"),
    after(TEXTS, STEPS, 'time_limit = "1h30"', 'time_limit = "90min"', 17, '"30min"'),
    after(TEXTS, STEPS, "retry = 2", "retries = 2", 17, "did you mean 'retries'?"),
    after(TEXTS, STEPS, "wandb = true", "tensorboard = true", 17, "did you mean 'tensorboard'?"),
    after(TEXTS, STEPS, 'matrix = { "optimizer.lr" = [1e-3, 2e-3] }',
          'matrix = { "optimizer.lr" = [1e-3, 2e-3] }\nbest = { metric = "heldout_loss", mode = "min" }', 21,
          'add best = { metric = "heldout_loss", mode = "min" } to [stage.pretrain]'),
    # The other stages.
    after(TEXTS, CORPUS, "heldout_fraction = 10", "heldout_fraction = 0.1", 7, "expected between 0 and 0.9"),
    after(TEXTS, CORPUS, 'languages = "en"', 'languages = ["en"]', 7, 'write languages = ["en"]'),
    after(TEXTS, TOKENS, "vocabulary = 100", "vocabulary = 300", 11, "expected between 272 and"),
    after(TEXTS, EVALUATE, 'tasks = ["perplexity"]', 'tasks = ["bits_per_byte"]', 21, "one of: bits_per_byte"),
    after(TEXTS, EVALUATE, "context_length = 4096", "context_length = 128", 21, "use at most 128"),
    after(TEXTS, QUANTIZE, "bits = 8", 'method = "int8"', 25, "did you mean 'method'?", '"int8"'),
    after(TEXTS, DEPLOY, 'prompts = "Hello"', 'prompts = ["Hello"]', 29, 'write prompts = ["Hello"]'),
    # A model and rows.
    after(CHATS, STEPS, 'adapter = "lora"', 'adapter = { kind = "lora" }', 8, 'write adapter = { kind = "lora" }'),
    after(CHATS, STEPS, "adapter = { rank = 8 }", 'adapter = { kind = "lora", rank = 8 }', 8, 'add kind = "lora"'),
    after(CHATS, STEPS, 'adapter = { kind = "lora", r = 8 }', 'adapter = { kind = "lora", rank = 8 }', 8, "did you mean 'rank'?"),
    after(CHATS, STEPS, "sequence_length = 4096", "sequence_length = 128", 8, "use at most 128"),
    instead(CHATS, 'model = "model"', 'model = "model/config.json"', 'model = "model"', 6, "a model is a folder with config.json"),
    instead(CHATS, "chats.jsonl", "list.json", "rows.jsonl", 6, "this is one JSON list", "jq -c '.[]' list.json > rows.jsonl"),
    instead(CHATS, "chats.jsonl", "table.csv", "chats.jsonl", 6, "write each row as a JSON object in a line of its own"),
    # A script.
    instead(SCRIPT, ARGV, 'argv = "python3 train.py"', ARGV, 6, f"write {ARGV}"),
    instead(SCRIPT, ARGV, 'script = "train.py"', ARGV, 6, f"write {ARGV}"),
    after(SCRIPT, ARGV, 'cwd = "."', 'workdir = "."', 7, "did you mean 'workdir'?"),
    after(SCRIPT, ARGV, 'script = "true"', "", 4, "give one of them"),
]
