#include "engine/align/reward.h"

#include <cctype>
#include <charconv>
#include <cmath>

#include "base/process/line_program.h"
#include "base/text/text.h"
#include "base/value/json.h"

namespace longhaul {

namespace {

constexpr std::size_t shown_bytes = 80;  // of what a command printed, in messages
constexpr std::size_t command_output_max = 16 << 20;

std::string_view without_space(std::string_view text) {
  const char* space = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(space);
  return begin == text.npos ? std::string_view() : text.substr(begin, text.find_last_not_of(space) - begin + 1);
}

// The row's answer as a text: a number or other JSON as it is written.
std::string expected_text(const Value& answer) {
  return answer.is_string() ? answer.as_string() : to_json(answer);
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// A whole text as a finite number.
std::optional<double> number_of(std::string_view text) {
  double value = 0;
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

Reward right_if(bool right) {
  return {right ? 1.0 : 0.0, ""};
}

}  // namespace

std::optional<double> last_number(std::string_view text) {
  for (std::size_t end = text.size(); end > 0; --end) {
    if (!is_digit(text[end - 1])) continue;
    std::size_t begin = end - 1;
    const auto goes_on = [&](std::size_t at) {  // a digit, or a point or comma between two
      if (is_digit(text[at])) return true;
      return (text[at] == '.' || text[at] == ',') && at > 0 && is_digit(text[at - 1]);
    };
    while (begin > 0 && goes_on(begin - 1)) --begin;
    if (begin > 0 && text[begin - 1] == '-') --begin;
    std::string digits;
    for (const char c : text.substr(begin, end - begin))
      if (c != ',') digits += c;
    if (const auto value = number_of(digits)) return value;
    const std::size_t point = digits.rfind('.');  // "3.10.2": what is behind the last but one is a number
    return number_of(std::string_view(digits).substr(point + 1));
  }
  return std::nullopt;
}

Value messages_value(std::span<const ChatMessage> messages) {
  Value list = Value::make_array();
  for (const ChatMessage& message : messages) {
    Value one = Value::make_table();
    one.set("role", message.role), one.set("content", message.content);
    list.push_back(std::move(one));
  }
  return list;
}

Value question_value(const RewardQuestion& question) {
  Value row = Value::make_table();
  row.set("prompt", question.prompt), row.set("completion", question.completion), row.set("answer", question.answer);
  if (!question.turns.empty()) row.set("turns", messages_value(question.turns));
  return row;
}

Result<RewardFunction> RewardFunction::create(const RewardSettings& settings,
                                              std::shared_ptr<const RewardBackend> backend) {
  RewardFunction made(settings);
  made.backend_ = std::move(backend);
  if (settings.kind == "regex") {
    LH_TRY(AnswerPattern pattern, AnswerPattern::compile(settings.pattern).with_context("reward.pattern"));
    made.pattern_ = std::make_shared<const AnswerPattern>(std::move(pattern));
  }
  if (!settings.schema.empty()) {
    LH_TRY(JsonSchema schema, JsonSchema::compile(settings.schema).with_context("reward.schema"));
    made.schema_ = std::make_shared<const JsonSchema>(std::move(schema));
  }
  return made;
}

bool RewardFunction::needs_answer() const {
  const bool always = settings_.kind == "exact" || settings_.kind == "number" || settings_.kind == "tests";
  return always || (pattern_ && pattern_->has_group());
}

Reward RewardFunction::judge_one(const RewardQuestion& q) const {
  const std::string expected = expected_text(q.answer);
  if (settings_.kind == "exact") return right_if(without_space(q.completion) == without_space(expected));
  if (settings_.kind == "number") {
    const auto given = last_number(q.completion), wanted = last_number(expected);
    if (!wanted) return {std::nullopt, format("the row's answer '{}' has no number", expected)};
    return right_if(given && *given == *wanted);
  }
  if (settings_.kind == "json") {
    const Result<Value> given = parse_json(without_space(q.completion));
    if (schema_) return right_if(given.ok() && schema_->holds(*given));
    if (!given.ok() || q.answer.is_null()) return right_if(given.ok());
    const Result<Value> written = q.answer.is_string() ? parse_json(q.answer.as_string()) : Result<Value>(q.answer);
    return right_if(to_json(*given) == to_json(written.ok() ? *written : q.answer));
  }
  const Result<std::optional<std::string>> found = pattern_->find(q.completion);
  if (!found.ok()) return {std::nullopt, found.error().with_context("reward.pattern").message()};
  if (!*found) return right_if(false);
  return right_if(!pattern_->has_group() || without_space(**found) == without_space(expected));
}

std::vector<Reward> RewardFunction::ask_command(std::span<const RewardQuestion> questions) const {
  std::string lines;
  for (const RewardQuestion& question : questions) lines += to_json(question_value(question)) + "\n";
  const auto all = [&](const std::string& why) { return std::vector<Reward>(questions.size(), {std::nullopt, why}); };
  const auto printed = run_in_lines(settings_.command, lines, settings_.deadline_s * 1000, command_output_max);
  if (!printed.ok()) return all(printed.error().message());
  if (printed->failed) return all("the command failed: " + printed->end);
  if (printed->lines.size() > questions.size())
    return all(format("the command printed {} lines for {} answers", printed->lines.size(), questions.size()));
  std::vector<Reward> rewards;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    if (i >= printed->lines.size()) {
      rewards.push_back({std::nullopt, "the command printed nothing for it"});
      continue;
    }
    const std::string_view line = without_space(printed->lines[i]);
    const std::optional<double> value = number_of(line);
    rewards.push_back(
        {value, value ? "" : format("the command printed '{}', which is no number", line.substr(0, shown_bytes))});
  }
  return rewards;
}

std::vector<Reward> RewardFunction::judge(std::span<const RewardQuestion> questions) const {
  if (questions.empty()) return {};
  if (backend_) return backend_->judge(questions);
  if (settings_.kind == "command") return ask_command(questions);
  std::vector<Reward> rewards;
  for (const RewardQuestion& question : questions) rewards.push_back(judge_one(question));
  return rewards;
}

}  // namespace longhaul
