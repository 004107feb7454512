#include "contracts/schema/key_advice.h"

#include <doctest/doctest.h>

#include <set>

#include "base/text/text.h"
#include "base/toml.h"
#include "contracts/layout/parallel_dims.h"
#include "contracts/schema/duration_text.h"
#include "contracts/schema/key_synonyms.h"
#include "contracts/tasks/stage_kinds.h"

using namespace longhaul;

namespace {

// The remedies that are printed for one line of the table of a stage of this kind.
std::string said_of(const std::string& kind, const std::string& line) {
  Diagnostics problems;
  const Value table = parse_toml("kind = \"" + kind + "\"\n" + line, "w.toml").value();
  (void)find_stage_kind(kind)->resolve(table, "stage.x", workflow_stage_keys(), problems);
  return problems.render("");
}

bool says(const std::string& kind, const std::string& line, const std::string& text) {
  const std::string said = said_of(kind, line);
  CAPTURE(said);
  CAPTURE(text);
  const bool found = said.find(text) != std::string::npos;
  CHECK(found);
  return found;
}

void add_paths(const std::vector<FieldInfo>& fields, const std::string& prefix, std::set<std::string>& paths) {
  for (const FieldInfo& field : fields) {
    paths.insert(prefix + field.name);
    add_paths(field.members, prefix + field.name + ".", paths);
  }
}

}  // namespace

TEST_CASE("a key as other programs call it is answered with ours") {
  says("pretrain", "max_steps = 5", "did you mean 'steps'?");
  says("pretrain", "learning_rate = 0.1", "did you mean 'optimizer.lr'?");
  says("pretrain", "lr = 0.1", "did you mean 'optimizer.lr'?");
  says("pretrain", "weight_decay = 0.1", "did you mean 'optimizer.weight_decay'?");
  says("pretrain", "per-device-train-batch-size = 4", "did you mean 'micro_batch_size'?");
  says("pretrain", "seq_length = 4", "did you mean 'sequence_length'?");
  says("pretrain", "tensor_model_parallel_size = 4", "did you mean 'parallel.tp'?");
  says("pretrain", "Num_Epochs = 4", "did you mean 'epochs'?");
  says("sft", "num_train_epochs = 4", "did you mean 'epochs'?");
  says("tokenize", "vocab_size = 4", "did you mean 'vocabulary'?");
  says("pretrain", "vocab_size = 4", "did you mean 'model.vocab_size'?");
  says("pretrain", "walltime = 4", "did you mean 'time_limit'?");
  says("command", "env = 4", "did you mean 'environment' or 'job.environment'?");
  // In the table where it belongs, the name alone.
  says("pretrain", "optimizer = { learning_rate = 1 }", "in [stage.x.optimizer]; did you mean 'lr'?");
  // What this kind has not is not offered.
  CHECK(said_of("tokenize", "learning_rate = 1").find("optimizer") == std::string::npos);
}

TEST_CASE("spelling decides after that, and a key that nothing is like gets ten keys and the page") {
  says("pretrain", "stepps = 1", "did you mean 'steps'?");
  says("pretrain", "Steps = 1", "did you mean 'steps'?");
  says("pretrain", "eval_every = 1", "did you mean 'eval_every_steps'?");
  says("pretrain", "checkpoint = { every = 1 }", "did you mean 'every_steps'?");
  says("pretrain", "optimizer = { schedule = 1 }", "did you mean 'lr_schedule'?");
  says("sft", "adapter = { r = 1 }", "did you mean 'rank'? (with adapter.kind = \"lora\")");
  says("pretrain", "save_every_n_steps = 1", "did you mean 'checkpoint.every_steps'?");
  says("pretrain", "warmup_step = 1", "did you mean 'optimizer.warmup_steps'?");
  const std::string said = said_of("pretrain", "zzzzzz = 1");
  CAPTURE(said);
  CHECK(said.find("see docs/reference/stage-kinds.md#pretrain") != std::string::npos);
  const std::string list = said.substr(said.find("known keys: "));
  CHECK(split(list.substr(0, list.find(" and ")), ',').size() == 10);
  // Keys that share a part of the name come first.
  says("pretrain", "batch_whatever_that_is = 1", "known keys: micro_batch_size, global_batch_size, batch_rampup, ");
}

TEST_CASE("a command in one text is shown as the list of its words") {
  says("command", "argv = \"python3 train.py --lr 1e-3\"",
       "write argv = [\"python3\", \"train.py\", \"--lr\", \"1e-3\"]");
}

TEST_CASE("every key that a synonym leads to is there, and no name is there twice") {
  std::set<std::string> known, theirs;
  for (const StageKind& kind : stage_kinds()) add_paths(kind.fields, "", known);
  add_paths(stage_common_fields().describe(), "", known);
  add_paths(parallel_dims_fields().describe(), "parallel.", known);
  for (const std::string& key : workflow_stage_keys()) known.insert(key);
  for (const KeySynonym& row : key_synonyms()) {
    CHECK_MESSAGE(theirs.insert(row.theirs).second, row.theirs);
    for (const std::string& ours : row.ours) CHECK_MESSAGE(known.contains(ours), (row.theirs + " -> " + ours));
  }
}

TEST_CASE("a value of the wrong type is answered with the line as it should stand") {
  says("pretrain", "steps = \"20\"", "x.steps is text, expected integer; write steps = 20, without quotes");
  says("pretrain", "steps = 1e5", "is number, expected integer; write steps = 100000");
  says("pretrain", "steps = \"1_000\"", "write steps = 1000, without quotes");
  says("pretrain", "steps = 20.5", "write steps = 20: it is a whole number");
  says("pretrain", "optimizer = { lr = \"1e-3\" }", "expected number; write lr = 1e-3, without quotes");
  says("pretrain", "deterministic = \"Yes\"", "is text, expected yes/no; write deterministic = true");
  says("pretrain", "deterministic = 0", "write deterministic = false");
  says("tokenize", "special_tokens = \"<x>\"", "expected list of text; write special_tokens = [\"<x>\"]");
  says("tokenize", "special_tokens = [1]", "special_tokens[0] is integer, expected text; write \"1\", in quotes");
  says("tokenize", "end_of_text = 3", "expected text; write end_of_text = \"3\", in quotes");
  says("curate", "page_bytes_max = 20", "it lacks its unit: write \"20MB\", \"20GB\" or \"20GiB\"");
  CHECK(said_of("pretrain", "steps = \"many\"").find("default: ") == std::string::npos);
}

TEST_CASE("durations are a number with a unit, or a time with hours as Slurm writes it") {
  CHECK(duration_setting("30min") == 1800.0);
  CHECK(duration_setting("02:00:00") == 7200.0);
  CHECK(duration_setting("1-00:00:00") == 86400.0);
  CHECK(duration_setting("1-12") == 129600.0);
  CHECK(duration_setting("2-03:30") == 185400.0);
  CHECK(duration_setting("100:00:30") == 360030.0);
  for (const char* bad : {"120", "02:30", "1:60:00", "1:00:60", "1-24:00:00", "-1:00:00", "1-", "-", ":", "1::2",
                          "1-2-3", "1:2:3:4", "a-1", "9999999999-0", ""})
    CHECK_MESSAGE(!duration_setting(bad), bad);
  CHECK(duration_remedy("120") ==
        "it lacks its unit: write \"120min\" (which Slurm takes it for), \"120s\" or \"120h\"");
  CHECK(duration_remedy("02:30") == "write \"2min\" (which Slurm takes it for, with 30 s), or \"02:30:00\" for hours");
  CHECK(duration_remedy("2 hours") == "write \"2h\"");
  CHECK(duration_remedy("90 minutes") == "write \"90min\"");
  CHECK(duration_remedy("soon").find("for example \"45s\"") == 0);
}
