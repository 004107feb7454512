#include "engine/data/instruct_data.h"

#include <algorithm>
#include <functional>

#include "base/diagnostics.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "engine/data/permutation.h"

namespace longhaul {
namespace {

constexpr std::size_t problems_shown = 20;

// Calls `read` for the object on every line that is not blank; gathers what is wrong.
Status for_each_line(std::string_view text, const std::string& name,
                     const std::function<Status(const Value&, int line)>& read) {
  Diagnostics problems;
  std::size_t hidden = 0;
  int line = 0, objects = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view row = text.substr(at, end - at);
    at = end + 1;
    ++line;
    if (row.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    ++objects;
    const Result<Value> object = parse_json(row, name);
    Status status;
    if (!object.ok())
      status = make_error(ErrorCode::invalid_input, object.error().what);
    else if (!object->is_table())
      status = make_error(ErrorCode::invalid_input, "the line is not a JSON object");
    else
      status = read(*object, line);
    if (status.ok()) continue;
    if (problems.size() < problems_shown)
      problems.add(SourcePos{name, line, 0}, status.error().what, status.error().hint);
    else
      ++hidden;
  }
  if (problems.empty() && objects == 0)
    return make_error(ErrorCode::invalid_input, name + " has no examples", "one JSON object per line is expected");
  return problems.to_status(hidden > 0 ? format("and {} more lines with errors; nothing was read", hidden)
                                       : "nothing was read");
}

Result<std::string> text_field(const Value& object, std::string_view key) {
  const Value* value = object.find(key);
  if (!value) return make_error(ErrorCode::invalid_input, format("'{}' is missing", key));
  if (!value->is_string())
    return make_error(ErrorCode::invalid_input, format("'{}' is {}, expected a text", key, value->kind_name()));
  return value->as_string();
}

Result<std::vector<ChatMessage>> message_list(const Value& list, std::string_view key) {
  if (!list.is_array())
    return make_error(ErrorCode::invalid_input,
                      format("'{}' is {}, expected a list of messages", key, list.kind_name()));
  std::vector<ChatMessage> messages;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Value& entry = list.as_array()[i];
    if (!entry.is_table())
      return make_error(ErrorCode::invalid_input,
                        format("{}[{}] is {}, expected an object", key, i, entry.kind_name()));
    const auto place = format("{}[{}]", key, i);
    LH_TRY(std::string role, text_field(entry, "role").with_context(place));
    LH_TRY(std::string content, text_field(entry, "content").with_context(place));
    messages.push_back({std::move(role), std::move(content)});
  }
  return messages;
}

// The pairs of keys in use for one question and one answer.
constexpr std::pair<const char*, const char*> question_answer_keys[] = {
    {"input", "output"},    {"prompt", "completion"},  {"prompt", "response"},
    {"question", "answer"}, {"instruction", "output"}, {"instruction", "response"},
};

Result<std::vector<ChatMessage>> read_example(const Value& object) {
  if (const Value* messages = object.find("messages")) return message_list(*messages, "messages");
  if (object.find("instruction") && object.find("output")) {  // a question with an optional input below it
    LH_TRY(std::string question, text_field(object, "instruction"));
    LH_TRY(std::string answer, text_field(object, "output"));
    if (const std::string input = object.get_string("input"); !input.empty()) question += "\n\n" + input;
    return std::vector<ChatMessage>{{"user", std::move(question)}, {"assistant", std::move(answer)}};
  }
  for (const auto& [question_key, answer_key] : question_answer_keys) {
    if (!object.find(question_key) || !object.find(answer_key)) continue;
    LH_TRY(std::string question, text_field(object, question_key));
    LH_TRY(std::string answer, text_field(object, answer_key));
    return std::vector<ChatMessage>{{"user", std::move(question)}, {"assistant", std::move(answer)}};
  }
  std::vector<std::string> keys;
  for (const ValueMember& member : object.as_table()) keys.push_back(member.key);
  return make_error(ErrorCode::invalid_input, format("no known form; its keys are: {}", join(keys, ", ")),
                    "use {\"input\", \"output\"} or {\"messages\"}");
}

Status check_answered(std::span<const ChatMessage> messages) {
  LH_CHECK(check_conversation(messages));
  if (messages.back().role != "assistant")
    return make_error(ErrorCode::invalid_input, "the conversation does not end with the assistant's answer");
  for (std::size_t i = 0; i < messages.size(); ++i)
    if (messages[i].role == "assistant" && messages[i].content.empty())
      return make_error(ErrorCode::invalid_input, format("message {}: the answer is empty", i + 1));
  return {};
}

// A text, or a list of messages whose last one is the answer.
Result<std::string> read_answer(const Value& object, const char* key) {
  const Value* value = object.find(key);
  if (!value || !value->is_array()) return text_field(object, key);
  LH_TRY(const auto messages, message_list(*value, key));
  if (messages.empty() || messages.back().role != "assistant")
    return make_error(ErrorCode::invalid_input, format("'{}' does not end with a message of the assistant", key));
  return messages.back().content;
}

Result<PreferenceExample> read_preference(const Value& object) {
  PreferenceExample example;
  const Value* prompt = object.find("prompt");
  if (prompt && prompt->is_array()) {
    LH_TRY(example.prompt, message_list(*prompt, "prompt"));
  } else {
    LH_TRY(std::string text, text_field(object, "prompt"));
    example.prompt = {{"user", std::move(text)}};
  }
  LH_CHECK(check_conversation(example.prompt).with_context("prompt"));
  if (example.prompt.back().role != "user")
    return make_error(ErrorCode::invalid_input, "the prompt does not end with the user");
  LH_TRY(example.chosen, read_answer(object, "chosen"));
  LH_TRY(example.rejected, read_answer(object, "rejected"));
  for (const auto& [key, answer] : {std::pair{"chosen", &example.chosen}, {"rejected", &example.rejected}}) {
    if (answer->empty()) return make_error(ErrorCode::invalid_input, format("'{}' is empty", key));
    if (!is_valid_utf8(*answer)) return make_error(ErrorCode::invalid_input, format("'{}' is not valid UTF-8", key));
  }
  if (example.chosen == example.rejected)
    return make_error(ErrorCode::invalid_input, "'chosen' and 'rejected' are the same answer");
  return example;
}

Error nothing_fits(std::int64_t examples, std::int64_t sequence_length) {
  return make_error(ErrorCode::invalid_input,
                    format("none of {} examples fits into sequence_length = {}", examples, sequence_length),
                    "use a longer sequence_length");
}

}  // namespace

Result<std::vector<InstructExample>> parse_instructions(std::string_view text, const std::string& name) {
  std::vector<InstructExample> examples;
  const Status read = for_each_line(text, name, [&](const Value& object, int line) -> Status {
    LH_TRY(auto messages, read_example(object));
    LH_CHECK(check_answered(messages));
    examples.push_back({std::move(messages), line});
    return {};
  });
  LH_CHECK(read);
  return examples;
}

Result<std::vector<PreferenceExample>> parse_preferences(std::string_view text, const std::string& name) {
  std::vector<PreferenceExample> examples;
  const Status read = for_each_line(text, name, [&](const Value& object, int line) -> Status {
    LH_TRY(auto example, read_preference(object));
    example.line = line;
    examples.push_back(std::move(example));
    return {};
  });
  LH_CHECK(read);
  return examples;
}

Result<std::vector<InstructExample>> read_instructions(const std::string& path) {
  LH_TRY(const MappedFile file, MappedFile::open(path));
  return parse_instructions(file.view(), path);
}
Result<std::vector<PreferenceExample>> read_preferences(const std::string& path) {
  LH_TRY(const MappedFile file, MappedFile::open(path));
  return parse_preferences(file.view(), path);
}

Result<TokenizedExamples> tokenize_instructions(std::span<const InstructExample> examples, const ChatEncoder& encoder,
                                                std::int64_t sequence_length) {
  TokenizedExamples made;
  for (const InstructExample& example : examples) {
    LH_TRY(ChatTokens tokens, encoder.encode(example.messages));
    if (static_cast<std::int64_t>(tokens.ids.size()) > sequence_length + 1)
      ++made.too_long;
    else
      made.examples.push_back(std::move(tokens));
  }
  if (made.examples.empty()) return nothing_fits(static_cast<std::int64_t>(examples.size()), sequence_length);
  return made;
}

Result<TokenizedPreferences> tokenize_preferences(std::span<const PreferenceExample> examples,
                                                  const ChatEncoder& encoder, std::int64_t sequence_length) {
  TokenizedPreferences made;
  const auto answered = [&](const PreferenceExample& example, const std::string& answer) -> Result<ChatTokens> {
    LH_TRY(ChatTokens tokens, encoder.encode(example.prompt));
    std::fill(tokens.loss_mask.begin(), tokens.loss_mask.end(), std::uint8_t{0});  // earlier turns are given
    const ChatMessage last[] = {{"assistant", answer}};
    LH_TRY(const ChatTokens tail, encoder.encode(last));
    tokens.ids.insert(tokens.ids.end(), tail.ids.begin(), tail.ids.end());
    tokens.loss_mask.insert(tokens.loss_mask.end(), tail.loss_mask.begin(), tail.loss_mask.end());
    return tokens;
  };
  for (const PreferenceExample& example : examples) {
    LH_TRY(ChatTokens chosen, answered(example, example.chosen));
    LH_TRY(ChatTokens rejected, answered(example, example.rejected));
    PreferencePair pair{std::move(chosen), std::move(rejected)};
    const std::size_t longest = std::max(pair.chosen.ids.size(), pair.rejected.ids.size());
    if (static_cast<std::int64_t>(longest) > sequence_length + 1)
      ++made.too_long;
    else
      made.pairs.push_back(std::move(pair));
  }
  if (made.pairs.empty()) return nothing_fits(static_cast<std::int64_t>(examples.size()), sequence_length);
  return made;
}

Batch pad_examples(std::span<const ChatTokens* const> examples, std::int64_t sequence_length, std::int32_t pad_id) {
  const auto s = static_cast<std::size_t>(sequence_length);
  Batch batch{static_cast<std::int64_t>(examples.size()), sequence_length, {}, {}, {}, {}};
  batch.inputs.assign(examples.size() * s, pad_id);
  batch.targets.assign(examples.size() * s, pad_id);
  batch.loss_mask.assign(examples.size() * s, 0);
  for (std::size_t row = 0; row < examples.size(); ++row) {
    const ChatTokens& tokens = *examples[row];
    LH_ASSERT(!tokens.ids.empty() && tokens.ids.size() <= s + 1,
              format("{} tokens in a row of {}", tokens.ids.size(), s));
    for (std::size_t i = 0; i + 1 < tokens.ids.size(); ++i) {
      batch.inputs[row * s + i] = tokens.ids[i];
      batch.targets[row * s + i] = tokens.ids[i + 1];
      batch.loss_mask[row * s + i] = tokens.loss_mask[i + 1];
    }
  }
  return batch;
}

std::int64_t example_of_sample(std::int64_t k, std::int64_t examples, std::uint64_t seed) {
  LH_ASSERT(k >= 0 && examples > 0, format("sample {} of {} examples", k, examples));
  const Permutation order(static_cast<std::uint64_t>(examples), seed, data_order_stream(k / examples));
  return static_cast<std::int64_t>(order(static_cast<std::uint64_t>(k % examples)));
}

}  // namespace longhaul
