// Answers drawn as a stage: what it writes and reports, that ranks change no byte, how a judge is asked, and what is
// said of bad input.
#include <doctest/doctest.h>

#include <cmath>

#include "contracts/figures/figure_table.h"
#include "engine/tasks/rewards/pairwise_judge.h"
#include "tests/unit/engine/tasks/stages/stage_ranks.h"

namespace longhaul {
namespace {

constexpr const char* sample_settings = R"json(
    {"samples": 4, "max_new_tokens": 32, "slots": 16, "precision": "f32", "seed": 3,
     "reward": {"kind": "regex", "pattern": "(red|blue|green|white|black)"}})json";

// A model that answers with a colour, and prompts whose answer is one. More than a block of them.
class SampleFolder : public StageFolder {
 public:
  SampleFolder() {
    prepare(task("tokenize", {{"corpus", "corpus"}}, R"({"vocabulary": 320})"), "tokens");
    Task pretrain = task("pretrain", {{"tokens", "tokens"}}, kStagesPretrain);
    pretrain.settings.find("model")->set("max_position_embeddings", 128);
    prepare(pretrain, "base");
    prepare(task("sft", {{"model", "base"}, {"data", "questions"}},
                 R"({"sequence_length": 64, "micro_batch_size": 4, "global_batch_size": 8, "epochs": 3,
                      "precision": "f32", "optimizer": {"lr": 0.003}})"),
            "tuned");
    std::string prompts;
    for (int i = 0; i < 100; ++i)
      prompts += json_line({{"prompt", format("which colour is number {}?", i)}, {"answer", i % 2 ? "red" : "blue"}});
    REQUIRE(write_file_atomic(at("prompts.jsonl"), prompts).ok());
    REQUIRE(write_file_atomic(at("principles.txt"), "Red is better.\n").ok());
  }
  Task sample(const std::string& keep, const std::string& settings = sample_settings) const {
    Task made = task("sample", {{"model", "tuned"}, {"data", "prompts.jsonl"}}, settings);
    made.settings.set("keep", keep);
    return made;
  }
  Task judged(const std::string& question) const {
    Task made =
        task("sample",
             {{"model", "tuned"}, {"data", "prompts.jsonl"}, {"judge", "base"}, {"constitution", "principles.txt"}},
             R"({"samples": 3, "max_new_tokens": 8, "slots": 16, "precision": "f32", "keep": "all",
                         "reward": {"kind": "judge"}})");
    Value judge = Value::make_table();
    judge.set("question", question);
    made.settings.set("judge", std::move(judge));
    return made;
  }
  std::string refusal(const Task& task) const {
    const std::atomic<bool> stop{false};
    const Status status = run(task, "refused", stop);
    REQUIRE_FALSE(status.ok());
    return status.error().message();
  }
  std::string text(const std::string& file) const { return *read_file(at(file)); }
  std::vector<Value> rows(const std::string& file) const {
    std::vector<Value> made;
    for (const std::string& line : split(text(file), '\n'))
      if (!line.empty()) made.push_back(*parse_json(line));
    return made;
  }
};

bool sample_says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE(
    "sample: what is kept follows from seed and prompts, whatever the number of ranks, and other stages read it") {
  const SampleFolder folder;
  folder.run_well(folder.sample("all"), "all");
  const std::vector<Value> all = folder.rows("all/samples.jsonl");
  REQUIRE(all.size() == 400);
  CHECK(folder.figure("all", "prompts") == 100);
  CHECK(folder.figure("all", "answers") == 400);
  double right = 0;
  for (const Value& row : all) right += row.get_number("reward");
  REQUIRE(right > 20);
  REQUIRE(right < 380);
  CHECK(folder.figure("all", "accuracy") == doctest::Approx(right / 400));
  CHECK(all[7].get_integer("line") == 2);
  CHECK(all[7].get_integer("sample") == 3);
  const Value artifact = *parse_json(folder.text("all/artifact.json"));
  for (const ValueMember& figure : artifact.find("figures")->as_table()) {
    CAPTURE(figure.key);
    CHECK(reports_at_end("sample", figure.key));
  }

  run_on_ranks(folder, folder.sample("all"), "all-3", 3);
  CHECK(folder.text("all/samples.jsonl") == folder.text("all-3/samples.jsonl"));
  CHECK(folder.text("all/artifact.json") == folder.text("all-3/artifact.json"));
  Task other = folder.sample("all");
  other.settings.set("seed", 4);
  folder.run_well(other, "other");
  CHECK(folder.text("all/samples.jsonl") != folder.text("other/samples.jsonl"));

  // The best of each prompt is one of its right answers, and sft learns from the folder as it is.
  folder.run_well(folder.sample("best"), "best");
  const std::vector<Value> best = folder.rows("best/train.jsonl");
  CHECK(folder.figure("best", "kept_rows") == static_cast<double>(best.size()));
  REQUIRE(best.size() > 5);
  CHECK(folder.figure("best", "best_accuracy") >= static_cast<double>(best.size()) / 100);  // a cut one is not kept
  for (const Value& row : best) {
    bool found = false;
    for (const Value& drawn : all)
      found = found || (drawn.get_string("prompt") == row.get_string("prompt") && drawn.get_number("reward") == 1 &&
                        drawn.get_string("completion") == row.get_string("completion"));
    CHECK(found);
  }
  folder.run_well(folder.task("sft", {{"model", "tuned"}, {"data", "best"}},
                              R"({"sequence_length": 64, "micro_batch_size": 4, "global_batch_size": 8, "steps": 2,
                                  "precision": "f32", "heldout_fraction": 0})"),
                  "learnt");
  folder.run_well(folder.sample("pairs"), "pairs");
  folder.run_well(folder.task("align", {{"model", "tuned"}, {"data", "pairs"}},
                              R"({"sequence_length": 64, "micro_batch_size": 4, "global_batch_size": 8, "steps": 2,
                                  "precision": "f32"})"),
                  "aligned");
}

TEST_CASE("sample: a judge is asked in both orders, so that what likes a place prefers nothing") {
  const SampleFolder folder;
  folder.run_well(folder.judged("{constitution} {prompt} A: {answer_a} B: {answer_b}?"), "judged");
  const std::vector<Value> rows = folder.rows("judged/samples.jsonl");
  REQUIRE(rows.size() == 300);
  // Rewards of one prompt are shares of victories: their sum is half the number of its answers.
  for (std::size_t i = 0; i < rows.size(); i += 3) {
    double sum = 0;
    for (std::size_t k = i; k < i + 3; ++k) sum += rows[k].get_number("reward", -1);
    CHECK(sum == doctest::Approx(1.5));
  }
  CHECK(folder.figure("judged", "comparisons") > 0);
  CHECK(folder.figure("judged", "letter_probability") > 0);
  CHECK(folder.figure("judged", "letter_probability") < 1);
  const Value artifact = *parse_json(folder.text("judged/artifact.json"));
  for (const ValueMember& figure : artifact.find("figures")->as_table()) CHECK(reports_at_end("sample", figure.key));
  run_on_ranks(folder, folder.judged("{constitution} {prompt} A: {answer_a} B: {answer_b}?"), "judged-2", 2);
  CHECK(folder.text("judged/samples.jsonl") == folder.text("judged-2/samples.jsonl"));

  // The same two answers, the other way round: what was first is second, to the last digit.
  const SystemClock clock;
  const ComputeContext compute(1);
  Mesh mesh;
  const std::atomic<bool> stop{false};
  const Task task = folder.judged("{constitution} {prompt} A: {answer_a} B: {answer_b}?");
  const Launch launch;
  EventWriter events(clock, "", 1);
  TaskRun run{task, launch, clock, compute, mesh, mesh.world(), events, nullptr, stop};
  const JudgeSettings settings = {.question = "{constitution} {prompt} A: {answer_a} B: {answer_b}?"};
  auto judge = PairwiseJudge::load(run, folder.at("base"), settings, "Red is better.", "f32");
  REQUIRE_MESSAGE(judge.ok(), judge.error().message());
  const std::vector<ComparedAnswers> asked = {{"which?", "it is red.", "it is blue."},
                                              {"which?", "it is blue.", "it is red."},
                                              {"which?", std::string(400, 'x'), "short"}};
  const auto preferences = (*judge)->compare(asked);
  REQUIRE(preferences.ok());
  const std::vector<Preference>& of = *preferences;
  REQUIRE(of[0].first.has_value());
  CHECK(std::abs(*of[0].first + *of[1].first - 1) < 1e-6);
  CHECK(of[0].flips == of[1].flips);
  CHECK_FALSE(of[2].first.has_value());
  CHECK(sample_says(of[2].problem, "its context 128"));
}

TEST_CASE("a judge's question: places are filled in once, and what an answer says is no place") {
  const ComparedAnswers asked = {"why?", "{answer_b} {constitution}", "because"};
  const std::string question = "{constitution}|{prompt}|{answer_a}|{answer_b}|{other}";
  CHECK(judge_question(question, "Be kind.", asked, false) ==
        "Be kind.|why?|{answer_b} {constitution}|because|{other}");
  CHECK(judge_question(question, "Be kind.", asked, true) == "Be kind.|why?|because|{answer_b} {constitution}|{other}");
  const std::vector<ChatMessage> turns = {{"user", "one"}, {"assistant", "two"}, {"user", "three"}};
  CHECK(prompt_text(turns) == "user: one\nassistant: two\nuser: three");
  CHECK(prompt_text(std::span(turns).first(1)) == "one");
}

TEST_CASE("sample: bad input is named, with its line") {
  const SampleFolder folder;
  Task task = folder.sample("best");
  REQUIRE(
      write_file_atomic(folder.at("prompts.jsonl"), "{\"prompt\": \"a?\", \"answer\": \"b\"}\n{\"prompt\": \"c?\"}\n")
          .ok());
  CHECK(sample_says(folder.refusal(task), "prompts.jsonl:2"));
  REQUIRE(write_file_atomic(folder.at("prompts.jsonl"), "{\"prompt\": \"a?\", \"answer\": \"zzz\"}\n").ok());
  const std::string nothing = folder.refusal(task);
  CHECK(sample_says(nothing, "nothing is kept of 4 answers to 1 prompts"));
  task.settings.set("max_new_tokens", 128);
  CHECK(sample_says(folder.refusal(task), "max_new_tokens = 128 leaves no room for a prompt"));
  task = folder.sample("all");
  task.settings.find("reward")->set("kind", "command");
  task.settings.find("reward")->erase("pattern");
  task.settings.find("reward")->set("command", ValueArray{"/bin/true"});
  CHECK(sample_says(folder.refusal(task),
                    "no answer has a reward; the first: line 1: the command printed nothing for it"));
  task.settings.find("reward")->set("kind", "judge");
  CHECK(sample_says(folder.refusal(task), "reward.kind = \"judge\" without the input 'judge'"));
}

}  // namespace longhaul
