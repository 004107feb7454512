// A folder with a small corpus and questions, in which stages run as the engine's main program runs them.
#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "base/digest/philox.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/tasks/stages/stages.h"
#include "tests/support/scratch.h"

namespace longhaul {

// A language that a small model learns in seconds: sentences of a few fixed forms.
inline std::string stages_text(std::uint64_t seed, int sentences) {
  static const char* who[] = {"the cat", "a dog", "the old man", "my sister", "the king"};
  static const char* does[] = {"eats", "sees", "likes", "buys"};
  static const char* what[] = {"an apple", "the red house", "some bread", "a small fish", "the blue sea"};
  PhiloxSequence random(seed);
  std::string text;
  for (int i = 0; i < sentences; ++i)
    text += format("{} {} {}. ", who[random.next_below(5)], does[random.next_below(4)], what[random.next_below(5)]);
  return text;
}

inline std::string json_line(std::initializer_list<std::pair<const char*, std::string>> members) {
  Value value = Value::make_table();
  for (const auto& [key, text] : members) value.set(key, text);
  return to_json(value) + "\n";
}

class StageFolder {
 public:
  StageFolder() {
    char name[] = "/tmp/longhaul-stages-XXXXXX";
    path_ = ::mkdtemp(name);
    std::string documents, heldout, train, held, pairs;
    for (int i = 0; i < 60; ++i)
      documents += json_line(
          {{"id", std::to_string(i)}, {"language", "en"}, {"text", stages_text(static_cast<std::uint64_t>(i), 30)}});
    for (int i = 0; i < 4; ++i)
      heldout += json_line({{"id", std::to_string(i)},
                            {"language", "en"},
                            {"text", stages_text(1000 + static_cast<std::uint64_t>(i), 30)}});
    static const char* colour[] = {"red", "blue", "green", "white", "black"};
    for (int i = 0; i < 100; ++i) {
      const std::string question = format("which colour is number {}?", i), right = format("it is {}.", colour[i % 5]),
                        shy = format("maybe {}!", colour[i % 5]);
      (i % 4 == 0 ? held : train) += json_line({{"input", question}, {"output", right}});
      pairs += json_line({{"prompt", question}, {"chosen", shy}, {"rejected", right}});
    }
    REQUIRE(make_directories(path_ + "/corpus").ok());
    REQUIRE(make_directories(path_ + "/questions").ok());
    for (const auto& [name_, text] : {std::pair<std::string, std::string>{"corpus/documents.jsonl", documents},
                                      {"corpus/heldout.jsonl", heldout},
                                      {"questions/train.jsonl", train},
                                      {"questions/heldout.jsonl", held},
                                      {"questions/pairs.jsonl", pairs},
                                      {"questions/choices.jsonl",
                                       "{\"question\": \"which colour is number 3?\", \"choices\": [\"it is white.\", "
                                       "\"zzzz qqqq\"], \"answer\": 0}\n"}})
      REQUIRE(write_file_atomic(path_ + "/" + name_, text).ok());
  }
  ~StageFolder() { [[maybe_unused]] const Status removed = remove_tree(path_); }
  std::string at(const std::string& name) const { return path_ + "/" + name; }

  Task task(const std::string& kind, std::initializer_list<std::pair<std::string, std::string>> inputs,
            const std::string& settings) const {
    Task task;
    task.stage = task.kind = kind;
    for (const auto& [name, path] : inputs) task.inputs.push_back({name, {at(path)}, "", ""});
    task.settings = *parse_json(settings);
    return task;
  }
  Status run(const Task& task, const std::string& out, const std::atomic<bool>& stop,
             const SchedulerMemory& scheduler = {}) const {
    Launch launch;
    launch.output_dir = at(out), launch.state_dir = at(out + ".state"), launch.events_path = at(out + ".events.jsonl");
    launch.milestones_dir = at(out + ".milestones"), launch.attempt_key = "key";
    const SystemClock clock;
    const ComputeContext compute(1);
    Mesh mesh;
    EventWriter events(clock, launch.events_path, 0);
    TaskRun run{task, launch, clock, compute, mesh, mesh.world(), events, nullptr, stop, nullptr, nullptr, scheduler};
    return run_stage(run);
  }
  void run_well(const Task& task, const std::string& out) const {
    const std::atomic<bool> stop{false};
    const Status status = run(task, out, stop);
    REQUIRE_MESSAGE(status.ok(), status.error().message());
  }
  // As run_well(), for what many cases begin with: it is run once, other folders of this program get a copy of what it
  // made. Of inputs that constructors wrote or this function made.
  void prepare(const Task& task, const std::string& out) {
    static std::map<std::string, testing::Scratch> prepared;
    std::string what = task.kind + to_json(task.settings);
    for (const TaskInput& input : task.inputs) {
      const std::string name = input.paths.at(0).substr(path_.size() + 1);
      const Result<std::string> text = read_file(input.paths.at(0));  // a folder has none
      what += " of " + (made_of_.contains(name) ? made_of_.at(name) : name + (text.ok() ? *text : ""));
    }
    made_of_[out] = what;
    const auto whole = std::filesystem::copy_options::recursive;
    if (const auto found = prepared.find(what); found != prepared.end())
      return std::filesystem::copy(found->second.file("out"), at(out), whole);
    run_well(task, out);
    std::filesystem::copy(at(out), prepared[what].file("out"), whole);
  }
  double figure(const std::string& out, const std::string& name) const {
    const Value artifact = *parse_json(*read_file(at(out) + "/artifact.json"));
    return artifact.find("figures")->get_number(name, -1e9);
  }

 private:
  std::string path_;
  std::map<std::string, std::string> made_of_;  // what prepare() made: of what
};

inline constexpr const char* kStagesPretrain =
    R"({"sequence_length": 64, "micro_batch_size": 8, "global_batch_size": 8, "steps": 60, "precision": "f32", "checkpoint": {"every_steps": 20},
        "optimizer": {"lr": 0.004, "warmup_steps": 10},
        "model": {"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}})";

}  // namespace longhaul
