#!/usr/bin/env python3
"""Questions to the tuner's arithmetic: `longhaul serving`, `longhaul size`, and the page of `longhaul plan --html`.

usage: questions_test.py LONGHAUL SOURCE_DIR [parts of case names]
"""
import json
import re
import tomllib
from html.parser import HTMLParser

from scenario import case, expect, longhaul, main

MODEL = ("recipe=llama3-8b", "model.vocab_size=128256")
WORKFLOW = """[workflow]
name = "chat"
[stage.corpus]
kind = "curate"
inputs = { documents = "pages" }
[stage.tokens]
kind = "tokenize"
inputs = { corpus = "@corpus" }
vocabulary = 128256
[stage.pretrain]
kind = "pretrain"
inputs = { tokens = "@tokens" }
recipe = "llama3-8b"
steps = 1000
global_batch_size = 64
ranks = 8
nodes = 2
parallel = { tp = 2, pp = 4 }
[stage.deploy]
kind = "deploy"
inputs = { model = "@pretrain" }
slots = 4
"""
SITE = """name = "there"
scheduler = "slurm"
[node]
cores = 32
gpus = 4
gpu = "NVIDIA H100 80GB"
[network]
nics = 4
nic_gbit = 200
"""


class Page(HTMLParser):
    """Elements of a page, every one closed in order; what it would fetch."""
    OPEN_ENDED = {"meta", "br", "tr", "th", "td", "li", "p", "link", "!doctype"}

    def __init__(self, text):
        super().__init__()
        self.stack, self.wrong, self.fetched, self.svgs = [], [], [], 0
        self.feed(text)
        if self.stack:
            self.wrong.append(f"left open: {self.stack}")

    def handle_starttag(self, tag, attrs):
        self.svgs += tag == "svg"
        self.fetched += [v for k, v in attrs if k in ("src", "href")]
        if tag not in self.OPEN_ENDED:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        if tag in self.OPEN_ENDED:
            return
        if not self.stack or self.stack.pop() != tag:
            self.wrong.append(f"</{tag}> in {self.stack[-3:]}")


def number(text, pattern):
    found = re.search(pattern, text)
    expect(f"there is {pattern}", found, text)
    return float(found.group(1))


@case
def a_question_about_a_server_has_a_winner_and_why_the_others_lost(here):
    done = longhaul(here, "serving", *MODEL, "gpus=4", "gpu=H100", code=0,
                    says=["Serving on 4 x h100", "Why not", "tp = 2", "(not allowed) ", "[stage.deploy]", "what cannot be bettered"])
    stage = tomllib.loads(done.out[done.out.rindex("# most tokens/s"):])["stage"]["deploy"]
    expect("the stage has slots", stage["slots"] > 1, stage)
    answer = json.loads(longhaul(here, "serving", *MODEL, "gpus=4", "gpu=H100", "--json", code=0).out)
    expect("the same as JSON", answer["winner"]["slots"] == stage["slots"], answer["winner"])
    held = json.loads(longhaul(here, "serving", *MODEL, "gpus=4", "gpu=H100", "itl_max=12ms", "--json", code=0).out)
    expect("a target is met", held["winner"]["itl_seconds"] <= 0.012, held["winner"])
    expect("and costs tokens", held["winner"]["tokens_per_second"] < answer["winner"]["tokens_per_second"], held["winner"])
    (here / "q.toml").write_text('recipe = "llama3-8b"\ngpus = 4\ngpu = "H100"\nitl_max = "12ms"\n[model]\nvocab_size = 128256\n')
    again = json.loads(longhaul(here, "serving", "--question", "q.toml", "--json", code=0).out)
    expect("a file asks the same", again == held, again)


@case
def a_server_that_cannot_be_says_by_how_much_and_what_would_help(here):
    longhaul(here, "serving", *MODEL, "gpu=H100", "context_length=8192", "model.num_hidden_layers=320", code=6,
             says=["no server of this model fits", "GB more on each", "what would make it fit", "int"])
    longhaul(here, "serving", *MODEL, "gpu=H100", "itl_max=1us", code=3, says="itl_max=1us")
    longhaul(here, "serving", *MODEL, "gpu=H100", "itl_max=1ms", code=6, says=["meets the targets", "over the target"])
    longhaul(here, "serving", *MODEL, "gpu=Gaudi", code=4, says=["node.gpu_tflops", "network.gpu_link_gbyte"])
    reported = ["--set", "site.node.gpu_tflops=1835", "--set", 'site.node.gpu_memory="128GB"', "--set",
            "site.network.gpu_memory_gbyte=3700", "--set", "site.network.gpu_link_gbyte=525"]
    (here / "there.toml").write_text(SITE.replace("NVIDIA H100 80GB", "Gaudi 3"))
    longhaul(here, "serving", *MODEL, "--site", "there.toml", code=4, says="node.gpu_tflops")
    longhaul(here, "serving", *MODEL, "--site", "there.toml", *reported, code=0, says="borrowed")


CONFIG = {"model_type": "mixtral", "vocab_size": 32000, "hidden_size": 1024, "intermediate_size": 3584,
          "num_hidden_layers": 16, "num_attention_heads": 16, "num_key_value_heads": 8, "num_local_experts": 8}


@case
def a_model_that_is_there_as_a_folder_is_asked_about_by_its_path(here):
    for name, config in (("mixture", CONFIG), ("stranger", {**CONFIG, "model_type": "qwen2"})):
        (here / name).mkdir()
        (here / name / "config.json").write_text(json.dumps(config))
    longhaul(here, "serving", "folder=mixture", "gpu=H100", code=0, says="tokens/s")
    longhaul(here, "size", "folder=mixture", "tokens=10B", "gpus=8", "gpu=H100", code=0, says=["on a token's way", "days"])
    longhaul(here, "serving", "folder=stranger", "gpu=H100", code=3,
             says=["config.json", "model_type 'qwen2' is not supported", "llama, mistral, mixtral and gpt2 are"])
    longhaul(here, "serving", "folder=mixture", *MODEL, "gpu=H100", code=3, says="a folder and a shape both say the model")
    longhaul(here, "size", "folder=mixture", "parameters=8B", "tokens=1T", "gpus=8", "gpu=H100", code=3, says="both say the model")


@case
def questions_that_are_wrong_are_refused_with_everything_at_once(here):
    longhaul(here, "serving", "gpus=0", "goal=speed", "weigths=fp8", "--site", "local", code=3,
             says=["gpus", "speed", "did you mean 'weights'", "nothing says the model", "has no GPUs", "5 errors; nothing was computed"])
    longhaul(here, "serving", "recipe=nobody", "gpu=H100", code=3, says="recipe 'nobody' is not found")
    longhaul(here, "serving", "recipe=llama3-8b", "gpu=H100", code=3, says="vocabulary is not known")
    longhaul(here, "serving", *MODEL, "gpu=H100", "context_length=100", "tp=3", "percentile=0", code=3,
             says=["context_length = 100", "tp = 3", "percentile = 0"])
    longhaul(here, "serving", *MODEL, "--workflow", "absent.toml", "gpu=H100", code=3, says="both say the model")
    longhaul(here, "serving", "--workflow", "absent.toml", "gpu=H100", code=4, says="absent.toml does not exist")
    longhaul(here, "size", "parameters=8B", "tflops=400", "mfu=0.4", code=3, says=["tokens and days and gpus are open", "mfu and tflops"])
    longhaul(here, "size", "parameters=8B", "tokens=1T", "gpus=8", code=3, says="no rate is given")
    longhaul(here, "size", "parametres=8B", "--set", "params.x=1", code=3, says=["did you mean 'parameters'", "--set params.x=1", "2 errors"])


@case
def a_budget_finds_each_of_its_five(here):
    for left_out, given in {"parameters": "tokens=1T days=30 gpus=256 tflops=400", "tokens": "parameters=8B days=30 gpus=256 tflops=400",
                            "days": "parameters=8B tokens=1T gpus=256 tflops=400", "gpus": "parameters=8B tokens=1T days=30 tflops=400",
                            "tflops": "parameters=8B tokens=1T days=30 gpus=256"}.items():
        a = json.loads(longhaul(here, "size", *given.split(), "--json", code=0).out)
        expect(f"{left_out} is found", a["found"] == left_out, a)
        share = 6 * a["parameters"] * a["tokens"] / (a["days"] * 86400 * a["gpus"] * a["tflops"] * 1e12)
        expect("the five fit each other", abs(share - 1) < 1e-6, share)


@case
def a_budget_without_a_rate_takes_that_of_the_forecast(here):
    done = longhaul(here, "size", "days=20", "gpus=64", "gpu=H100", "sequence_length=4096", code=0,
                    says=["found: parameters and tokens", ", forecast", "Besiroglu", "least loss", "layout", "[stage.pretrain]"])
    stage = tomllib.loads(done.out[done.out.index("[stage.pretrain]"):])["stage"]["pretrain"]
    expect("it says where it computes", stage["device"] == "gpu" and stage["inputs"] == {"tokens": "@tokens"}, stage)
    expect("a layout of all GPUs", stage["ranks"] == 64 and stage["nodes"] == 8, stage)
    # The stage that was printed is planned as it was computed: step time from plan, steps from the answer.
    (here / "there.toml").write_text(SITE.replace("gpus = 4", "gpus = 8").replace("[network]\nnics = 4\nnic_gbit = 200\n", ""))
    (here / "pages").mkdir()
    (here / "pages/a.html").write_text("<p>a</p>")
    (here / "w.toml").write_text(WORKFLOW[:WORKFLOW.index("[stage.pretrain]")].replace("vocabulary = 128256\n", "vocabulary = 128256\n") +
                                 done.out[done.out.index("[stage.pretrain]"):])
    plan = json.loads(longhaul(here, "plan", "w.toml", "--site", "there.toml", "--no-queue", "--allow", "device", "--json", code=0).out)
    seconds = plan["predicted"][0]["seconds"]
    expect("20 days, as plan says", abs(seconds / 86400 / 20 - 1) < 0.03, plan["predicted"])
    longhaul(here, "size", "parameters=70B", "tokens=1T", "gpus=2", "gpu=H100", code=6, says=["on 2 GPUs", "too much"])


@case
def a_plan_shows_its_server_and_draws_its_trainings(here):
    (here / "pages").mkdir()
    (here / "pages/a.html").write_text("<p>a</p>")
    (here / "w.toml").write_text(WORKFLOW)
    (here / "there.toml").write_text(SITE)
    done = longhaul(here, "plan", "w.toml", "--site", "there.toml", "--no-queue", "--allow", "device", "--html", "plan.html", code=0,
                    says=["servers", "4 slots, bf16 weights", "slots of 8192 tokens", "predicted"])
    expect("memory beside what there is", " of 72" in done.out, done)
    page = Page((here / "plan.html").read_text())
    expect("a page that is whole", not page.wrong, page.wrong)
    expect("it fetches nothing", not page.fetched, page.fetched)
    expect("bars, front and a timeline", page.svgs >= 3, page.svgs)
    document = json.loads(longhaul(here, "plan", "w.toml", "--site", "there.toml", "--no-queue", "--allow", "device", "--json", code=0).out)
    expect("and as JSON", document["servers"][0]["server"]["slots"] == 4, document["servers"])
    longhaul(here, "serving", "--workflow", "w.toml", "--site", "there.toml", code=0, says=["Serving on 1 x h100", "[stage.deploy]"])
    longhaul(here, "serving", "--workflow", "w.toml", "--stage", "nothing", "--site", "there.toml", code=4, says="takes one of corpus")
    longhaul(here, "plan", "w.toml", "--site", "there.toml", "--no-queue", "--allow", "device", "--html", "no/such/folder/plan.html", code=4, says="no/such/folder")


if __name__ == "__main__":
    main()
