// Files and folders that a workflow brings are looked at before anything runs.
#include "orchestrator/workflow/raw_inputs.h"

#include <doctest/doctest.h>

#include "base/files/files.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

namespace raw_inputs_test {

using testing::Scratch;

struct Case {
  Scratch scratch;
  RunPlan plan;

  void file(const std::string& name, const std::string& text) {
    const std::string path = join_path(scratch.path(), name);
    REQUIRE(make_directories(parent_path(path)).ok());
    REQUIRE(write_file_atomic(path, text).ok());
  }
  void folder(const std::string& name) { REQUIRE(make_directories(join_path(scratch.path(), name)).ok()); }
  void stage(const std::string& name, const std::string& kind, const std::string& input, const std::string& path,
             const std::vector<std::string>& needs = {}) {
    PlannedStage stage;
    stage.stage = name, stage.kind = kind, stage.where = {"my.toml", 7, 1}, stage.needs = needs;
    stage.settings = Value::make_table();
    PlannedInput one;
    one.name = input;
    if (!path.empty()) one.paths = {join_path(scratch.path(), path)};
    stage.inputs.push_back(one);
    plan.stages.push_back(std::move(stage));
  }
  std::string said(const RawInputLimits& limits = {}) const {
    Diagnostics problems;
    check_raw_inputs(plan, WrittenStages(), limits, problems);
    return problems.render("");
  }
};

// What is said of one input of one stage.
void check_says(const Case& seen, const std::string& words) {
  const std::string said = seen.said();
  CAPTURE(said);
  CHECK(said.find(words) != std::string::npos);
}

TEST_CASE("inputs: a folder without a document is refused, however deep documents may lie") {
  Case empty;
  empty.folder("texts");
  empty.stage("a", "curate", "documents", "texts");
  check_says(empty, "my.toml:7:1: error: stage.a.inputs.documents: ");
  check_says(empty, "texts is empty: it holds no documents; documents are .html");
  Case images;
  images.file("texts/a/b.png", "x");
  images.stage("a", "curate", "documents", "texts");
  check_says(images, "holds no documents: 1 files of other kinds, such as b.png");
  Case deep;
  deep.file("texts/a/b/c.TXT.gz", "x");
  deep.stage("a", "curate", "documents", "texts");
  CHECK(deep.said() == "0 errors");
  Case single;
  single.file("book.pdf", "x");
  single.stage("a", "curate", "documents", "book.pdf");
  check_says(single, "book.pdf is of no known type");
}

TEST_CASE("inputs: no more entries are looked at than the limit, and nothing is said of what was not seen") {
  Case many;
  for (int i = 0; i < 12; ++i) many.file("texts/" + std::to_string(i) + ".png", "x");
  many.stage("a", "curate", "documents", "texts");
  CHECK(many.said({.entries = 10}) == "0 errors");
  CHECK(many.said({.entries = 12}) != "0 errors");
}

TEST_CASE("inputs: what a command may fill before is left alone") {
  Case filled;
  filled.folder("texts");
  filled.stage("get", "command", "x", "");
  filled.stage("a", "curate", "documents", "texts", {"get"});
  CHECK(filled.said() == "0 errors");
}

TEST_CASE("inputs: a model has weights, all of them, and the tokenizer that the stage needs") {
  Case model;
  model.file("m/config.json", "{}");
  model.stage("a", "deploy", "model", "m");
  check_says(model, "m/model.safetensors; a model is a folder with config.json");
  model.file("m/pytorch_model.bin", "x");
  check_says(model, "weights of pickle (.bin, .pt) are not read");
  model.file("m/model-00001-of-00002.safetensors", "x");
  model.file("m/model.safetensors.index.json",
             R"({"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}})");
  check_says(model, "m/model-00002-of-00002.safetensors is missing; model.safetensors.index.json names it");
  model.file("m/model-00002-of-00002.safetensors", "x");
  check_says(model, "m/tokenizer.json; a model is a folder with");
  model.file("m/tokenizer.model", "x");
  check_says(model, "its tokenizer is there in another form");
  model.file("m/tokenizer.json", "{}");
  CHECK(model.said() == "0 errors");
  Case converted;
  converted.file("m/config.json", "{}");
  converted.file("m/model.safetensors", "x");
  converted.stage("a", "convert", "model", "m");
  CHECK(converted.said() == "0 errors");  // needs no tokenizer
}

TEST_CASE("inputs: the first rows of tuning data are objects of a known form") {
  const auto said_of = [](const std::string& rows, const std::string& kind = "sft", const RawInputLimits& limits = {}) {
    Case data;
    data.file("rows.jsonl", rows);
    data.stage("a", kind, "data", "rows.jsonl");
    return data.said(limits);
  };
  const auto says = [&](const std::string& rows, const std::string& words, const std::string& kind = "sft") {
    const std::string said = said_of(rows, kind);
    CAPTURE(said);
    CHECK(said.find(words) != std::string::npos);
  };
  const std::string good = R"({"input": "a", "output": "b"})";
  CHECK(said_of(good + "\n\n" + good) == "0 errors");
  says("", "rows.jsonl has no examples");
  says(good + "\nnot json\n", "rows.jsonl:2: error: not valid JSON");
  says("[" + good + "]\n", "rows.jsonl:1: error: the line is not a JSON object");
  says(R"({"what": 1})", "rows.jsonl:1: error: no known form; its keys are: what");
  says(R"({"input": "a"})", "'output' is missing");
  says(good, "which no answers are compared", "align");
  const std::string pair = R"({"prompt": "a", "chosen": "b", "rejected": "c", "margin": 2, "category": "d"})";
  CHECK(said_of(pair, "reward") == "0 errors");
  says(pair, "'margin' is not used: by how much the chosen answer is better", "align");
  // A row that goes on beyond what may be read, and rows beyond the limit, are the stage's to judge.
  CHECK(said_of(good + "\n{\"input\": \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "sft", {.row_bytes = 40}) ==
        "0 errors");
  CHECK(said_of(good + "\nnot json", "sft", {.rows = 1}) == "0 errors");
}

TEST_CASE("inputs: questions of an evaluate stage are rows of the form that its task reads") {
  const auto said_of = [](const std::string& name, const std::string& path, const std::string& row, const char* task) {
    Case questions;
    questions.file(name, row);
    questions.stage("a", "evaluate", "data", path);
    questions.plan.stages.back().settings.set("tasks", ValueArray{Value(task)});
    return questions.said();
  };
  const std::string answer = R"({"prompt": "a", "completion": "b"})";
  const std::string pair = R"({"prompt": "a", "chosen": "b", "rejected": "c"})";
  CHECK(said_of("mine.jsonl", "mine.jsonl", answer, "answer_loss") == "0 errors");
  CHECK(said_of("q/answers.jsonl", "q", answer, "answer_loss") == "0 errors");
  CHECK(said_of("q/pairs.jsonl", "q", pair, "preference") == "0 errors");
  CHECK(said_of("mine.jsonl", "mine.jsonl", R"({"prompt": "a", "answer": "b"})", "answer_loss")
            .find("mine.jsonl:1: error: 'completion' is missing") != std::string::npos);
  CHECK(said_of("mine.jsonl", "mine.jsonl", answer, "preference") != "0 errors");
  CHECK(
      said_of("q/mine.jsonl", "q", answer, "answer_loss")
          .find("q holds none of answers.jsonl, heldout.jsonl, which the task \"answer_loss\" reads; name the file") !=
      std::string::npos);
  CHECK(said_of("mine.jsonl", "mine.jsonl", "x", "bits_per_byte") == "0 errors");  // which reads none
}

TEST_CASE("inputs: rows of align are those of its method") {
  const auto said_of = [](const std::string& method, const std::string& rows) {
    Case data;
    data.file("rows.jsonl", rows);
    data.stage("a", "align", "data", "rows.jsonl");
    data.plan.stages.back().settings.set("method", method);
    return data.said();
  };
  const std::string pair = R"({"prompt": "a", "chosen": "b", "rejected": "c"})";
  const std::string labelled = R"({"prompt": "a", "completion": "b", "label": true})";
  const std::string prompt = R"({"prompt": "a", "answer": 3})";
  for (const auto& [method, rows] : {std::pair{"dpo", pair},
                                     {"kto", labelled},
                                     {"grpo", prompt},
                                     {"rloo", prompt},
                                     {"distill", R"({"prompt": "a"})"}})
    CHECK(said_of(method, rows) == "0 errors");
  CHECK(said_of("kto", pair).find("which compares answers") != std::string::npos);
  CHECK(said_of("dpo", labelled).find("whose answer is good or bad by itself") != std::string::npos);
  CHECK(said_of("dpo", prompt).find("rows.jsonl:1: error:") != std::string::npos);
  CHECK(said_of("grpo", R"({"question": "a"})").find("neither 'prompt' nor 'messages'") != std::string::npos);
}

TEST_CASE("inputs: tasks that evaluate names are read whole, and only those") {
  Case tasks;
  tasks.file("tasks/good.yaml",
             "task: good\ndataset_path: text\ndataset_kwargs: {data_files: {test: good.txt}}\ntest_split: test\n"
             "output_type: loglikelihood_rolling\ndoc_to_target: text\n");
  tasks.file("tasks/good.txt", "x\n");
  tasks.file("tasks/bad.yaml", "task: bad\nprocess_docs: !function utils.f\n");
  tasks.stage("a", "evaluate", "harness", "tasks");
  const auto ask = [&](std::vector<std::string> names) {
    Value list = Value::make_array();
    for (std::string& name : names) list.push_back(std::move(name));
    tasks.plan.stages.back().settings.set("tasks", std::move(list));
  };
  ask({"good", "bits_per_byte"});
  CHECK(tasks.said() == "0 errors");
  ask({"good", "goot"});
  check_says(tasks, "my.toml:7:1: error: stage.a: no file of ");
  check_says(tasks, "did you mean 'good'?");
  ask({"bad"});
  check_says(tasks, "bad.yaml:2:15: error: the tag !function (utils.f) is not read");
  check_says(tasks, "bad.yaml:1:7: error: dataset_path is missing");
  tasks.file("tasks/code.yaml",
             "task: code\ndataset_path: text\ndataset_kwargs: {data_files: {test: good.txt}}\ntest_split: test\n"
             "unsafe_code: true\ndoc_to_text: text\ndoc_to_target: text\nmetric_list: [{metric: pass_at_k}]\n");
  ask({"code"});
  check_says(tasks, "code.yaml:1:7: error: the task code runs programs that the model wrote");
  tasks.plan.stages.back().settings.set("run_code", true);
  CHECK(tasks.said() == "0 errors");
}

TEST_CASE("inputs: tokens and a corpus of one's own have the files that make them so") {
  Case tokens;
  tokens.file("t/train.bin", "x");
  tokens.stage("a", "pretrain", "tokens", "t");
  check_says(tokens, "t/tokenizer.json is missing; tokens are a folder as the stage kind tokenize makes it");
  Case corpus;
  corpus.folder("c");
  corpus.stage("a", "tokenize", "corpus", "c");
  check_says(corpus, "c/documents.jsonl is missing; the corpus is a folder as the stage kind curate makes it");
}

}  // namespace raw_inputs_test
}  // namespace
}  // namespace longhaul
