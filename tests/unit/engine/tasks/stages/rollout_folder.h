// A small model and prompts, for stages that learn from the model's own answers.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/files/file_retry.h"
#include "contracts/events/event.h"
#include "tests/unit/engine/tasks/stages/stage_folder.h"

namespace longhaul {

inline constexpr const char* rollout_settings = R"json(
    {"method": "grpo", "sequence_length": 64, "micro_batch_size": 8, "global_batch_size": 32, "steps": 4,
     "precision": "f32", "beta": 0.05, "optimizer": {"lr": 0.001, "warmup_steps": 0},
     "rollout": {"group_size": 8, "max_new_tokens": 12, "slots": 16},
     "reward": {"kind": "regex", "pattern": "(red|blue|green)"}})json";

// A model that answers with a colour, prompts whose answer is one, and what is held out.
class RolloutFolder : public StageFolder {
 public:
  RolloutFolder() {
    prepare(task("tokenize", {{"corpus", "corpus"}}, R"({"vocabulary": 320})"), "tokens");
    prepare(task("pretrain", {{"tokens", "tokens"}}, kStagesPretrain), "base");
    prepare(task("sft", {{"model", "base"}, {"data", "questions"}},
                 R"({"sequence_length": 64, "micro_batch_size": 4, "global_batch_size": 8, "epochs": 3,
                      "precision": "f32", "optimizer": {"lr": 0.003}})"),
            "tuned");
    std::string prompts;
    for (int i = 0; i < 24; ++i)
      prompts += json_line({{"prompt", format("which colour is number {}?", i)}, {"answer", "red"}});
    REQUIRE(write_file_atomic(at("prompts.jsonl"), prompts).ok());
  }
  Task grpo(const std::string& settings = rollout_settings) const {
    return task("align", {{"model", "tuned"}, {"data", "prompts.jsonl"}, {"heldout", "prompts.jsonl"}}, settings);
  }
  Task distill(const std::string& teacher, const std::string& student = "base") const {
    return task("align",
                {{"model", student}, {"teacher", teacher}, {"data", "prompts.jsonl"}, {"heldout", "prompts.jsonl"}},
                R"({"method": "distill", "sequence_length": 64, "micro_batch_size": 8, "global_batch_size": 32,
                    "steps": 12, "precision": "f32", "optimizer": {"lr": 0.003, "warmup_steps": 0},
                    "rollout": {"group_size": 1, "max_new_tokens": 12, "slots": 16}})");
  }
  // A copy of a model's folder with another of its files.
  void copy_with(const std::string& from, const std::string& to, const std::string& file,
                 const std::string& text) const {
    std::filesystem::copy(at(from), at(to), std::filesystem::copy_options::recursive);
    REQUIRE(write_file_atomic(at(to + "/" + file), text).ok());
  }
  std::string weights(const std::string& out) const { return *read_file(at(out + "/model.safetensors")); }
  std::vector<Value> metrics(const std::string& out) const {
    std::uint64_t offset = 0;
    std::vector<Value> found;
    for (const std::vector<Event> all = *read_events(at(out + ".events.jsonl"), offset); const Event& event : all)
      if (event.kind == "metric" && event.fields.find("clip_fraction")) found.push_back(event.fields);
    return found;
  }
  std::vector<std::string> checkpoints(const std::string& out, const char* of) const {
    std::vector<std::string> names = *names_if_there(at(out + ".state/" + of));
    std::erase_if(names, [](const std::string& name) { return name.rfind("step-", 0) != 0; });
    std::ranges::sort(names);
    return names;
  }
  // A training that was stopped as soon as it could be, and goes on.
  void run_in_parts(const Task& task, const std::string& out, std::int64_t stops_after) const {
    const std::atomic<bool> stop{true};
    const Status stopped = run(task, out, stop);
    REQUIRE_FALSE(stopped.ok());
    CHECK(stopped.error().code == ErrorCode::aborted);
    CHECK(stopped.error().message().find(format("stopped after step {} of", stops_after)) != std::string::npos);
    run_well(task, out);
  }
  std::string refusal(const Task& task) const {
    const std::atomic<bool> stop{false};
    const Status status = run(task, "refused", stop);
    CHECK_FALSE(status.ok());
    return status.ok() ? std::string() : status.error().message();
  }
};

}  // namespace longhaul
