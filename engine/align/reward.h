// What an answer is worth, by a rule that a program checks (RewardSettings::kind):
//   exact    1 where the answer, without white space around it, is the row's
//   number   1 where the last number in the answer is the row's; commas between thousands do not count
//   regex    1 where the pattern matches somewhere and its first group, where it has one, is the row's answer
//   json     1 where the answer is JSON, and the same value as the row's answer where the row has one; with a schema
//            where it satisfies that, whatever the row has
//   command  what a program of the user prints: a line for each answer, in their order
//   tests    1 where the answer is a program that passes the row's tests  } RewardBackend, made
//   http     what an endpoint of the user answers                         } in engine/tasks/rewards
// What a reward model says (model) is not asked here: engine/tasks/rewards.
// A reward that is missing says why; it ends nothing.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error/result.h"
#include "base/value/json_schema.h"
#include "base/value/value.h"
#include "contracts/settings/training/training.h"
#include "engine/data/patterns/answer_pattern.h"
#include "engine/data/template/chat.h"

namespace longhaul {

struct RewardQuestion {
  std::string prompt, completion;       // of a conversation of several turns: the model's last one
  Value answer;                         // of the row: null where it has none
  std::vector<ChatMessage> turns = {};  // of such a conversation: all behind the prompt; else empty
};
struct Reward {
  std::optional<double> value;  // finite
  std::string problem;          // where there is none
};

// [{"role": ..., "content": ...}, ...]
Value messages_value(std::span<const ChatMessage> messages);
// The form in which programs and endpoints are asked: {"prompt": ..., "completion": ..., "answer": ...}, and of a
// conversation of several turns "turns", a list of messages.
Value question_value(const RewardQuestion& question);

// Judges answers where no rule of this file does: what takes parts of the engine that this room does not know.
class RewardBackend {
 public:
  virtual ~RewardBackend() = default;
  // One for each question, in their order.
  virtual std::vector<Reward> judge(std::span<const RewardQuestion> questions) const = 0;
};

class RewardFunction {
 public:
  // Of settings that check_alignment passes. A pattern or a schema that cannot be used is refused (invalid_input;
  // schemas in a build without them: unsupported). `backend`: of the kinds that have one; null for the others.
  static Result<RewardFunction> create(const RewardSettings& settings,
                                       std::shared_ptr<const RewardBackend> backend = nullptr);

  // Needs the answer of its row: exact, number and tests always, regex where the pattern has a group.
  bool needs_answer() const;
  // One for each question, in their order. The command runs once for all of them and is ended, with what it has
  // started in its process group, at its deadline. Where it ends with another exit code than 0 nothing that it printed
  // is believed.
  std::vector<Reward> judge(std::span<const RewardQuestion> questions) const;

 private:
  explicit RewardFunction(const RewardSettings& settings) : settings_(settings) {}
  Reward judge_one(const RewardQuestion& question) const;
  std::vector<Reward> ask_command(std::span<const RewardQuestion> questions) const;

  RewardSettings settings_;
  std::shared_ptr<const AnswerPattern> pattern_;
  std::shared_ptr<const JsonSchema> schema_;  // null: there is none
  std::shared_ptr<const RewardBackend> backend_;
};

// The last number in a text, as written in decimal; nothing where there is none.
std::optional<double> last_number(std::string_view text);

}  // namespace longhaul
