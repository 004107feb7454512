"""What tests of tune and search stages share, on this machine and on the cluster: a tiny pipeline, and what trials have left."""
import collections
import json

from json_lines import json_lines

# The beginning of a workflow: tokens to train on, of the folder `pages`.
TOKENS = """[workflow]
name = "tiny"
[stage.corpus]
kind = "curate"
inputs = { documents = "pages" }
heldout_bytes = 2000
threads = 1
[stage.tokens]
kind = "tokenize"
inputs = { corpus = "@corpus" }
vocabulary = 300
threads = 1
"""


def shape(hidden, layers, heads):
    """The model of a tiny training."""
    return (f"{{ hidden_size = {hidden}, num_hidden_layers = {layers}, num_attention_heads = {heads}, num_key_value_heads = 2, "
            "max_position_embeddings = 64 }")


def lines_of(path):
    """The JSON lines of a file, without one that is being written."""
    return json_lines(path)


def round_files(stage, pattern):
    """[(round, path)] of the files below the rounds of a stage, in the order of their rounds."""
    found = [(int(path.relative_to(stage).parts[1]), path) for path in stage.glob("rounds/[0-9]*/" + pattern)]
    return sorted(found, key=lambda one: one[0])


def facts_of_rounds(stage, kind):
    """What the logs of all rounds say of one kind: [(round, fact)]."""
    return [(number, fact) for number, path in round_files(stage, "log/*.jsonl") for fact in lines_of(path)
            if fact.get("fact") == kind]


def trials_reported(stage):
    """{trial: what trials.json says of it}"""
    return {one["name"]: one for one in json.loads((stage / "trials.json").read_text())["trials"]}


def claims(stage):
    """Leads that began a trial: one claim each."""
    return [path for _, path in round_files(stage, "stages/trial/*/attempts/*/claim*.json")]


def starts(stage, skip=None):
    """Of a search: [(round, start)] in order."""
    return [(number, start) for number, path in round_files(stage, "starts.json") if number != skip
            for start in json.loads(path.read_text())["starts"]]


def steps_trained(stage):
    """{trial: steps of all its jobs, in order}, one entry for each time that a step was done."""
    steps = collections.defaultdict(list)
    logs = round_files(stage, "stages/trial/*/attempts/*/events.jsonl")
    for _, log in sorted(logs, key=lambda one: (one[0], int(one[1].parts[-2]))):
        steps[log.parts[-4]] += [event["step"] for event in lines_of(log) if event["kind"] == "metric" and "loss" in event]
    return steps


def checkpoints(stage):
    """{(round, trial)} with a whole checkpoint."""
    return {(number, path.parts[-5]) for number, path in round_files(stage, "stages/trial/*/state/checkpoints/step-*/checkpoint.json")}


def each_step_once(steps):
    return all(done == list(range(1, len(done) + 1)) for done in steps.values())
