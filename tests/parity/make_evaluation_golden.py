#!/usr/bin/env python3
"""Writes golden/evaluation/: small tasks in lm-evaluation-harness's form with their rows, and golden.json: the requests,
targets and figures that lm_eval itself makes of them, with golden/model-untied by transformers in f32; and golden/tasks/:
a few rows for each task of workflows/tasks, and the requests that lm_eval's own definition of the task makes of them; and
judgements.json of both: figures of groups, MC2, and which instructions an answer follows.

Usage: make_evaluation_golden.py [tasks]     (needs lm_eval 0.4.9, torch and transformers; tests/parity/README.md)

With `tasks` only what needs no model is written anew: golden/tasks.

Rows of the first are pieces of golden/tokenizers.json's texts. Some answers are what the model itself says, so that right and wrong
ones are both there.
"""
import csv
import json
import os
import pathlib
import re
import sys
import tempfile
import types

os.environ.update(HF_HOME=tempfile.mkdtemp(prefix="evaluation-golden-"), HF_DATASETS_OFFLINE="1", HF_HUB_OFFLINE="1",
                  TOKENIZERS_PARALLELISM="false")

import torch  # noqa: E402
import transformers  # noqa: E402
import evaluate  # noqa: E402
import lm_eval  # noqa: E402
import nltk  # noqa: E402
from lm_eval.api.metrics import aggregate_subtask_metrics, pooled_sample_stderr  # noqa: E402
from lm_eval.api.task import ConfigurableTask  # noqa: E402
from lm_eval.models.huggingface import HFLM  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402

# Its HumanEval loads a metric from a hub when its file is read, its IFEval a splitter of sentences.
evaluate.load = lambda name: types.SimpleNamespace(compute=lambda **_: ({"pass@1": 0.0}, {}))
nltk.download = lambda *_, **__: True

GOLDEN = pathlib.Path(__file__).resolve().parent / "golden"
FOLDER = GOLDEN / "evaluation"

TASKS = {
    # A template, fields, characters that are several bytes.
    "choices_plain": """
task: choices_plain
dataset_path: json
dataset_kwargs:
  data_files: {test: choices.jsonl}
test_split: test
output_type: multiple_choice
doc_to_text: "Question: {{question}}\\nAnswer:"
doc_to_target: answer
doc_to_choice: choices
metric_list:
  - metric: acc
    aggregation: mean
    higher_is_better: true
  - metric: acc_norm
  - metric: exact_match
metadata: {version: 1.0}
""",
    # Examples drawn anew for each row; an answer that is a text; choices that a template prints; the metrics of a task
    # that names none.
    "choices_drawn": """
include: _common.yaml
task: choices_drawn
tag: [drawn, small]
num_fewshot: 3
training_split: train
description: "Questions about {{subject}}.\\n\\n"
target_delimiter: " -> "
fewshot_delimiter: "\\n##\\n"
doc_to_text: "{{question|trim}}{% if subject %}\\n({{subject}}){% endif %}\\n"
doc_to_target: "{{choices[answer]}}"
doc_to_choice: "{{choices}}"
""",
    # Many examples, so that Python draws from a set; a prefix of answers.
    "choices_many": """
include: _common.yaml
task: choices_many
tag: small
num_fewshot: 6
fewshot_split: train
gen_prefix: "It is"
doc_to_text: question
doc_to_target: answer
doc_to_choice: choices
""",
    # The first examples, of the split that is asked itself, by letters.
    "choices_letters": """
include: _common.yaml
task: choices_letters
tag: [small]
num_fewshot: 2
fewshot_split: test
fewshot_config:
  sampler: first_n
doc_to_text: |
  {{question}}
  A. {{choices[0]}}
  B. {{choices[1]}}
  Answer:
doc_to_target: "{{['A', 'B', 'C', 'D'][answer]}}"
doc_to_choice: {a: "A", b: "B", c: "C", d: "D"}
metric_list:
  - metric: acc
  - metric: acc_norm
""",
    # The choices stand before what is scored.
    "contexts": """
task: contexts
dataset_path: csv
dataset_kwargs:
  data_files:
    validation: contexts.csv
validation_split: validation
output_type: multiple_choice
doc_to_text: "{{ {'1': 0, '2': 1}[answer|string] }}"
doc_to_target: "{{sentence.split('_')[1].strip()}}"
doc_to_choice: "{% set at = sentence.index('_') %}{{[sentence[:at] + option1, sentence[:at] + option2]}}"
num_fewshot: 0
""",
    "last_words": """
task: last_words
dataset_path: json
dataset_kwargs: {data_files: {test: last_words.jsonl}}
test_split: test
output_type: loglikelihood
doc_to_text: text
doc_to_target: word
metric_list:
  - metric: perplexity
    aggregation: perplexity
    higher_is_better: false
  - {metric: acc, aggregation: mean, higher_is_better: true}
""",
    "documents": """
task: documents
dataset_path: json
dataset_kwargs: {data_files: documents.jsonl}
test_split: train
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: page
""",
    "sums": """
task: sums
dataset_path: json
dataset_kwargs:
  data_files:
    train: [sums-train.json]
    test: sums.jsonl
test_split: test
fewshot_split: train
num_fewshot: 1
fewshot_config:
  sampler: first_n
output_type: generate_until
doc_to_text: "{{question}}\\nAnswer:"
doc_to_target: answers
generation_kwargs:
  until: ["\\n\\n", "Question:"]
  max_gen_toks: 24
  do_sample: false
  temperature: 0.0
repeats: 1
filter_list:
  - name: strict-match
    filter:
      - function: regex
        regex_pattern: "([a-z]+)"
      - function: take_first
  - name: flexible-extract
    filter:
      - function: regex
        regex_pattern: '([A-Z]+)|([a-z]+)'
        group_select: -1
      - {function: take_first}
  - name: whole
    filter:
      - function: remove_whitespace
      - function: lowercase
      - function: take_first
metric_list:
  - metric: exact_match
    aggregation: mean
    higher_is_better: true
    ignore_case: true
    ignore_punctuation: true
    regexes_to_ignore: [",", "\\\\$"]
""",
}
# Several of them together, by the mean of tasks and by that of questions.
GROUPS = {
    "_pairs": """
group: pairs
task: [choices_plain, contexts, last_words]
aggregate_metric_list:
  - {metric: acc, aggregation: mean, weight_by_size: false}
""",
    "_all_pairs": """
group: all_pairs
task: [pairs, choices_drawn]
aggregate_metric_list:
  - {metric: acc, weight_by_size: true}
  - {metric: acc_norm}
metadata: {version: 1.0}
""",
}
COMMON = """
dataset_path: json
dataset_kwargs:
  data_files:
    test: choices.jsonl
    train: choices-train.jsonl
test_split: test
output_type: multiple_choice
"""


def write_rows(name, rows):
    (FOLDER / name).write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def choice_rows(texts, count, seed):
    subjects = ["words", "numbers", "", "places"]
    rows = []
    for i in range(count):
        at = (seed + i) % len(texts)
        choices = [texts[(at + 3 * j + 1) % len(texts)][j * 2:j * 2 + 4 + (i * 7 + j * 11) % 17].strip() or "x" for j in range(4)]
        rows.append({"question": texts[at][:14 + i].strip() + "?", "subject": subjects[i % 4], "choices": choices,
                     "answer": (i * 5 + seed) % 4})
    return rows


class Said:
    """What the model says by itself."""

    def __init__(self, lm):
        self.lm = lm

    def tokens(self, text, count):
        ids = torch.tensor([self.lm.tok_encode(text)])
        for _ in range(count):
            with torch.no_grad():
                ids = torch.cat([ids, self.lm.model(ids).logits[:, -1:].argmax(-1)], 1)
        return self.lm.tokenizer.decode(ids[0, -count:])


def write_data(texts, said):
    write_rows("choices.jsonl", choice_rows(texts, 12, 0))
    write_rows("choices-train.jsonl", choice_rows(texts, 40, 5))
    with open(FOLDER / "contexts.csv", "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["sentence", "option1", "option2", "answer"])
        plain = [text.replace("\n", " ").replace("_", " ") for text in texts if text.isascii() and len(text) > 40]
        for i in range(8):
            text = plain[i % len(plain)]
            out.writerow([text[:18] + "_" + text[20:38], "the \"old, red\" one", "my sister", 1 + i * 3 % 2])
    words = []
    for i in range(10):
        text = texts[i][:30].rstrip()
        words.append({"text": text, "word": said.tokens(text, 1 + i // 4)} if i % 2 else
                     {"text": text + " ", "word": texts[i + 1][:5].strip()})
    write_rows("last_words.jsonl", words)
    write_rows("documents.jsonl", [{"page": " ".join(texts[i:i + 1 + 3 * i]) + "\n" * (i % 2)} for i in range(6)])
    (FOLDER / "sums-train.json").write_text(json.dumps([{"question": "Question: 2 and 2?", "answers": ["four"]}]) + "\n")
    rows = []
    for i in range(8):
        question = f"Question: {texts[i][:9]} {i} and {i * 7 % 5}?"
        prompt = "Question: 2 and 2?\nAnswer: four\n\n" + question + "\nAnswer:"
        words = re.findall("[a-z]+", said.tokens(prompt, 20)) or ["none"]
        rows.append({"question": question, "answers": [f"{i}$", (words[0] + ",").upper() if i % 2 else words[-1] + "."]})
    write_rows("sums.jsonl", rows)


def main():
    torch.set_num_threads(1)
    shipped_golden()
    judgement_golden()
    if sys.argv[1:] == ["tasks"]:
        return
    FOLDER.mkdir(exist_ok=True)
    model = transformers.LlamaForCausalLM.from_pretrained(GOLDEN / "model-untied").eval()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(GOLDEN / "model-untied" / "tokenizer.json"),
                                                     bos_token="<|endoftext|>", eos_token="<|endoftext|>",
                                                     pad_token="<|endoftext|>")
    lm = HFLM(pretrained=model, tokenizer=tokenizer, batch_size=1, max_length=128)
    texts = [text for text in json.loads((GOLDEN / "tokenizers.json").read_text())["training_texts"] if len(text) > 30]
    for name, text in {**TASKS, **GROUPS, "_common": COMMON}.items():
        (FOLDER / f"{name}.yaml").write_text(text.lstrip())
    write_data(texts, Said(lm))
    os.chdir(FOLDER)  # where data_files are
    manager = TaskManager(include_path=str(FOLDER), include_defaults=False)
    results = lm_eval.simple_evaluate(model=lm, tasks=list(TASKS), task_manager=manager, log_samples=True, bootstrap_iters=100)
    golden = {"versions": {"lm_eval": "0.4.9", "torch": torch.__version__, "transformers": transformers.__version__},
              "lower": lower_cases(), "tasks": {}}
    for name in TASKS:
        samples = results["samples"][name]
        first = samples[0]["filter"]
        golden["tasks"][name] = {
            "figures": {key: value for key, value in results["results"][name].items() if isinstance(value, float) and not key.startswith("perplexity_stderr")},
            "rows": [{"requests": [list(args[:2]) if isinstance(args[-1], str) else [args[0], ""] for args in sample["arguments"]],
                      "responses": sample["resps"], "target": sample["target"]}
                     for sample in sorted(samples, key=lambda one: one["doc_id"]) if sample["filter"] == first],
            "filtered": {}}
        for sample in sorted(samples, key=lambda one: one["doc_id"]):
            golden["tasks"][name]["filtered"].setdefault(sample["filter"], []).append(sample["filtered_resps"])
    golden["chat"] = chat_cases(lm, manager)
    golden["groups"] = group_figures(lm, manager)
    together = [results["results"][name] for name in ("choices_drawn", "choices_letters", "choices_many")]
    golden["small"] = {metric: {"value": aggregate_subtask_metrics([one[f"{metric},none"] for one in together], [12] * 3),
                                "stderr": float(pooled_sample_stderr([one[f"{metric}_stderr,none"] for one in together], [12] * 3))}
                       for metric in ("acc", "acc_norm")}
    (FOLDER / "golden.json").write_text(json.dumps(golden, ensure_ascii=False, separators=(",", ":")) + "\n")


def group_figures(lm, manager):
    results = lm_eval.simple_evaluate(model=lm, tasks=["all_pairs"], task_manager=manager, bootstrap_iters=100)["results"]
    return {name: {key.split(",")[0]: value for key, value in results[name].items() if "," in key} for name in ("pairs", "all_pairs")}


CHAT_TEMPLATE = """{% for message in messages %}{{ '[' + message.role + ']' + message.content|trim + '[end]' }}{% endfor %}\
{% if add_generation_prompt %}{{ '[assistant]' }}{% endif %}"""
NO_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}" + CHAT_TEMPLATE


def chat_cases(lm, manager):
    """Contexts and continuations of the same tasks as turns of a conversation."""
    cases = []
    for template in (CHAT_TEMPLATE, NO_SYSTEM):
        for as_turns in (False, True):
            lm.tokenizer.chat_template = template
            case = {"template": template, "examples_as_turns": as_turns, "tasks": {}}
            for name in ["choices_plain", "choices_drawn", "choices_many", "choices_letters", "contexts", "last_words", "sums"]:
                task = manager.load_task_or_group(name)[name]
                task.set_fewshot_seed(1234)
                task.build_all_requests(apply_chat_template=True, fewshot_as_multiturn=as_turns, chat_template=lm.apply_chat_template)
                rows = {}
                for instance in task.instances:
                    args = instance.args
                    rows.setdefault(instance.doc_id, []).append([args[0], args[1] if isinstance(args[1], str) else ""])
                case["tasks"][name] = [rows[i] for i in sorted(rows)][:4]
            cases.append(case)
    return cases


def people(i):
    return ["Ann", "Béla", "Kofi", "Mei"][i % 4]


def shipped_rows():
    """Rows in the forms of the public data sets, of our own making: file -> rows."""
    rows = {}
    scenes = ["He picks up [step] the bow [title] Then", "TWO dogs run  over", "She [a [b] waits", "ÉVA's brother smiles"]
    hellaswag = [{"ind": i, "activity_label": ["Archery", "Making tea"][i % 2], "ctx_a": f"{people(i)} stands in a field [header].",
                  "ctx_b": ["", "he", "the Old man IN blue", "i"][i % 4],
                  "endings": [scenes[(i + j) % 4] + f" {j}." for j in range(4)], "label": str(i * 3 % 4)} for i in range(5)]
    piqa = [{"goal": f"Keep {thing} dry", "sol1": "Put it under a roof.", "sol2": "Put it into a pond.", "label": i % 2}
            for i, thing in enumerate(["wood", "a book", "salt"])]
    arc = [{"id": f"r{i}", "question": f"Which of these is number {i}?",
            "choices": {"text": [f"it is {j}" for j in range(3 + i % 3)], "label": list("ABCDE" if i % 2 else "12345")[:3 + i % 3]},
            "answerKey": ("ABC" if i % 2 else "123")[i % 3]} for i in range(5)]
    winogrande = [{"sentence": f"{people(i)} thanked {people(i + 1)} because _ had helped with the snake_case names.",
                   "option1": people(i), "option2": people(i + 1), "answer": str(1 + i % 2)} for i in range(4)]
    lambada = [{"text": text} for text in ["She looked for the cat, and behind the door she found the cat",
                                           "  two  blanks, and a last-word", "“No,” he said. “Only one” end"]]
    gsm8k = [{"question": f"{people(i)} has {i + 2} boxes of {i + 3} pens. How many pens?",
              "answer": f"{i + 2} times {i + 3} is {(i + 2) * (i + 3)}.\n#### {(i + 2) * (i + 3) * (1 if i % 2 else 1000):,}"}
             for i in range(9)]
    mmlu = [{"question": f" What is {i} plus {i}? ", "choices": [str(i), str(2 * i), str(i + 3), "none"], "answer": 1,
             "subject": "abstract_algebra"} for i in range(7)]
    race = [{"article": f"{people(i)} lives in a house.\nIt is  red.", "problems":
             [{"question": ["Who lives there?", "The house is  _  ."][(i + j) % 2], "answer": "ABCD"[(i * 2 + j) % 4],
               "options": [f"{people(k)} {j}" for k in range(4)]} for j in range(1 + i)]} for i in range(4)]
    truthfulqa = [{"question": f"What is {i} plus {i}?",
                   "mc1_targets": {"choices": [f"It is {2 * i}.", "It is one.", "Nobody knows."], "labels": [1, 0, 0]},
                   "mc2_targets": {"choices": [f"It is {2 * i}.", f"{2 * i}", "It is one.", "Two lives."][:4 - i],
                                   "labels": [1, 1 - i, 0, 0][:4 - i]}} for i in range(2)]
    truths = [{"question": f"Who is {people(i)}?", "answer": f"{people(i)} is nobody in number {i}."} for i in range(6)]
    bbh = [{"input": f"not ( {value} ) is", "target": "False" if value == "True" else "True", "description": "Say what comes out."}
           for value in ("True", "False", "not True")]
    thoughts = [{"input": f"{value} and True is", "target": f"Let's think step by step.\nIt is {value}. So the answer is {value}."}
                for value in ("True", "False", "True")]
    humaneval = [{"task_id": f"T/{i}", "prompt": f"def add{i}(a, b):\n    \"\"\"Adds {i} to both.\"\"\"\n", "entry_point": f"add{i}",
                  "test": f"def check(candidate):\n    assert candidate(1, 2) == {3 + i}\n"} for i in range(2)]
    ifeval = [{"key": i, "prompt": f"Write about {people(i)}.", "instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]}
              for i in range(2)]
    for name, all_rows in {"race-test": race, "truthfulqa-validation": truthfulqa, "truthfulqa-examples": truths,
                           "bbh/boolean_expressions-test": bbh, "bbh/boolean_expressions-examples": thoughts,
                           "humaneval-test": humaneval, "ifeval-train": ifeval, "hellaswag-train": hellaswag[3:], "hellaswag-validation": hellaswag, "piqa-train": piqa[2:],
                           "piqa-validation": piqa, "arc_easy-train": arc[:1], "arc_easy-validation": arc[:1],
                           "arc_easy-test": arc, "arc_challenge-train": arc[3:], "arc_challenge-validation": arc[3:],
                           "arc_challenge-test": arc[::-1], "winogrande-train": winogrande[:1],
                           "winogrande-validation": winogrande, "lambada-test": lambada, "gsm8k-train": gsm8k[2:],
                           "gsm8k-test": gsm8k[:2], "mmlu/abstract_algebra-dev": mmlu[:5],
                           "mmlu/abstract_algebra-test": mmlu[5:]}.items():
        folder, _, file = name.rpartition("/")
        rows[(folder + "/" if folder else "") + f"rows/{file}.jsonl"] = all_rows
    return rows


def their_race(row):
    return dict(row, problems=str(row["problems"]))


def their_truths(config):
    """The six questions of the paper stand in its file; ours are other ones, in the same form."""
    examples = "\n\n".join(f"Q: {one['question']}\nA: {one['answer']}" for one in read_rows("rows/truthfulqa-examples.jsonl"))
    return {"doc_to_text": "{{" + repr(examples + "\n\nQ: ") + " + question + '\\nA:'}}", "training_split": None}


def their_thoughts(config):
    samples = [{key: row[key] for key in ("input", "target")} for row in read_rows("bbh/rows/boolean_expressions-examples.jsonl")]
    return {"fewshot_config": dict(config["fewshot_config"], samples=samples), "description": "Say what comes out.\n\n"}


def read_rows(name):
    return [json.loads(line) for line in (GOLDEN / "tasks" / name).read_text().splitlines()]


# Ours -> theirs, where the rows of each split are, and keys that differ on purpose.
SHIPPED = {
    "hellaswag": ("hellaswag", "rows/hellaswag", ["train", "validation"], {}),
    "piqa": ("piqa", "rows/piqa", ["train", "validation"], {}),
    "arc_easy": ("arc_easy", "rows/arc_easy", ["train", "validation", "test"], {}),
    "arc_challenge": ("arc_challenge", "rows/arc_challenge", ["train", "validation", "test"], {}),
    "winogrande": ("winogrande", "rows/winogrande", ["train", "validation"], {}),
    "lambada": ("lambada_openai", "rows/lambada", ["test"], {}),
    "gsm8k": ("gsm8k", "rows/gsm8k", ["train", "test"], {}),
    "race": ("race", "rows/race", ["test"], {}),
    "truthfulqa_mc1": ("truthfulqa_mc1", "rows/truthfulqa", ["validation"], their_truths),
    "truthfulqa_mc2": ("truthfulqa_mc2", "rows/truthfulqa", ["validation"], their_truths),
    "bbh_boolean_expressions": ("bbh_cot_fewshot_boolean_expressions", "bbh/rows/boolean_expressions", ["test"], their_thoughts),
    "humaneval": ("humaneval", "rows/humaneval", ["test"], {"unsafe_code": False}),
    "ifeval": ("ifeval", "rows/ifeval", ["train"], {}),
    "mmlu_abstract_algebra": ("mmlu_abstract_algebra", "mmlu/rows/abstract_algebra", ["dev", "test"], {"num_fewshot": 5}),
}


def shipped_golden():
    folder = GOLDEN / "tasks"
    golden = {}
    for name, rows in shipped_rows().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    manager = TaskManager()
    for ours, (theirs, rows, splits, changed) in SHIPPED.items():
        config = dict(manager._get_config(theirs), dataset_path="json", dataset_name=None)
        config.update(changed(config) if callable(changed) else changed)
        files = {split: str(folder / f"{rows}-{split}.jsonl") for split in splits}
        if ours == "race":
            files = {"test": str(pathlib.Path(os.environ["HF_HOME"]) / "race.jsonl")}
            pathlib.Path(files["test"]).write_text("".join(json.dumps(their_race(row)) + "\n" for row in read_rows("rows/race-test.jsonl")))
        config["dataset_kwargs"] = {"data_files": files}
        task = ConfigurableTask(config=config)
        task.set_fewshot_seed(1234)
        task.build_all_requests()
        by_row = {}
        for instance in task.instances:
            args = instance.args
            by_row.setdefault(instance.doc_id, []).append([args[0], args[1] if isinstance(args[1], str) else ""])
        kwargs = config.get("generation_kwargs")
        golden[ours] = {"rows": [by_row[i] for i in sorted(by_row)],
                        "targets": [task.doc_to_target(doc) for doc in task.eval_docs],
                        "metrics": list(task._metric_fn_list), "until": kwargs["until"] if kwargs else []}
    (folder / "golden.json").write_text(json.dumps({"lm_eval": "0.4.9", "tasks": golden}, ensure_ascii=False,
                                                   separators=(",", ":")) + "\n")


ANSWERS = [
    "Dear Ann,\n\nI like TEA and COFFEE; don't you? [name] lives at [address].\n\nP.S. Bye, bye.",
    "* one\n* two\n- three\n\n**bold** and *light* and **  **\n***\nSECTION 1 a\nSection 2 b\nSection 3: c",
    "<<A title>>\nMy answer is yes.\n***\nSecond part\n***\nThird one. *a* *b* *c*",
    "```json\n{\"a\": [1, 2]}\n```",
    "First answer here\n******\nSecond answer here\n******",
    "\"Write about Ann. Ann is a well-known DOCTOR. IT'S TRUE. The END\"",
    "this is a small text in english about the weather and the sea. it has no capital letter at all",
    "THIS IS A LOUD TEXT IN ENGLISH ABOUT THE WEATHER AND THE SEA. IT HAS NO SMALL LETTER AT ALL",
    "Das ist ein ruhiger Text auf Deutsch über das Wetter und das Meer, und er hat keine Eile.",
    "Intro line\n*Title* text. The end phrase\nOutro line",
    "   ", "******", "<<  >> <<x>>", "P. P. S. later",
]
INSTRUCTIONS = [
    ("keywords:existence", {"keywords": ["tea", "c[oa]ffee"]}), ("keywords:frequency", {"keyword": "is", "frequency": 2, "relation": "at least"}),
    ("keywords:frequency", {"keyword": "is", "frequency": 2, "relation": "less than"}),
    ("keywords:forbidden_words", {"forbidden_words": ["end", "bye"]}),
    ("keywords:letter_frequency", {"letter": "E", "let_frequency": 5, "let_relation": "at least"}),
    ("keywords:letter_frequency", {"letter": "e", "let_frequency": 5, "let_relation": "less than"}),
    ("language:response_language", {"language": "de"}), ("language:response_language", {"language": "en"}),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}), ("length_constraints:number_paragraphs", {"num_paragraphs": 3}),
    ("length_constraints:number_words", {"num_words": 10, "relation": "at least"}),
    ("length_constraints:number_words", {"num_words": 10, "relation": "less than"}),
    ("length_constraints:nth_paragraph_first_word", {"num_paragraphs": 3, "nth_paragraph": 2, "first_word": "I"}),
    ("length_constraints:nth_paragraph_first_word", {"num_paragraphs": 1, "nth_paragraph": 1, "first_word": "this"}),
    ("detectable_content:number_placeholders", {"num_placeholders": 2}), ("detectable_content:postscript", {"postscript_marker": "P.S."}),
    ("detectable_content:postscript", {"postscript_marker": "P.P.S"}), ("detectable_format:number_bullet_lists", {"num_bullets": 3}),
    ("detectable_format:constrained_response", {}), ("detectable_format:number_highlighted_sections", {"num_highlights": 3}),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 5}),
    ("detectable_format:multiple_sections", {"section_spliter": "Section", "num_sections": 2}), ("detectable_format:json_format", {}),
    ("detectable_format:title", {}), ("combination:two_responses", {}), ("combination:repeat_prompt", {"prompt_to_repeat": "Write about ann."}),
    ("combination:repeat_prompt", {"prompt_to_repeat": "Intro line\n*title*"}), ("startend:end_checker", {"end_phrase": " the END"}),
    ("startend:end_checker", {"end_phrase": "the end phrase"}), ("startend:quotation", {}),
    ("change_case:capital_word_frequency", {"capital_frequency": 4, "capital_relation": "at least"}),
    ("change_case:capital_word_frequency", {"capital_frequency": 4, "capital_relation": "less than"}),
    ("change_case:english_capital", {}), ("change_case:english_lowercase", {}), ("punctuation:no_comma", {}),
]


def judgement_golden():
    """What lm_eval says of answers: MC2, and all instructions of IFEval but the number of sentences, whose splitter is no
    part of a package. Words are separated by NLTK's tokenizer without that splitter."""
    import langdetect
    from lm_eval.tasks.ifeval import instructions_util, utils
    from lm_eval.tasks.truthfulqa.utils import process_results_mc2
    langdetect.DetectorFactory.seed = 0
    instructions_util.nltk.word_tokenize = nltk.tokenize.NLTKWordTokenizer().tokenize
    golden = {"mc2": [], "ifeval": []}
    for sums, labels in (([-1.5, -2.0, -0.5], [1, 0, 0]), ([-30.0, -31.0, -29.5, -80.0], [1, 1, 0, 0]), ([-3.0], [1])):
        value = process_results_mc2({"mc2_targets": {"labels": labels}}, [(one, False) for one in sums])["acc"]
        golden["mc2"].append({"log_probabilities": sums, "labels": labels, "value": float(value)})
    for name, kwargs in INSTRUCTIONS:
        row = {"key": 0, "prompt": "p", "instruction_id_list": [name], "kwargs": [kwargs]}
        judged = [utils.process_results(row, [answer]) for answer in ANSWERS]
        golden["ifeval"].append({"name": name, "kwargs": kwargs, "strict": [bool(one["inst_level_strict_acc"][0]) for one in judged],
                                 "loose": [bool(one["inst_level_loose_acc"][0]) for one in judged]})
    golden["answers"] = ANSWERS
    (GOLDEN / "tasks" / "judgements.json").write_text(json.dumps(golden, ensure_ascii=False, separators=(",", ":")) + "\n")


def lower_cases():
    """Every letter of the scripts that are changed, with its lower case, and words with a final sigma."""
    letters = [chr(c) for first, last in ((0x41, 0x180), (0x370, 0x400), (0x400, 0x530)) for c in range(first, last)]
    keep = [c for c in letters if c.lower() != c and not (0x370 <= ord(c) < 0x386 or ord(c) > 0x3CE and ord(c) < 0x400)]
    return [[c, c.lower()] for c in keep + ["ΟΔΟΣ ΣΟΦΙΑΣ, Σ", "ÀÉÎ ŁÓDŹ МОСКВА"]]


if __name__ == "__main__":
    main()
