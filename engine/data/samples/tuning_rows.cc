#include "engine/data/samples/tuning_rows.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/text/text.h"
#include "base/value/json.h"
#include "contracts/settings/stages/tuning_row_keys.h"

namespace longhaul {
namespace {

using Messages = std::vector<ChatMessage>;
constexpr std::size_t category_bytes_max = 64;
constexpr std::size_t ranked_answers_max = 64;  // of a row: they become up to 2,016 pairs

Error wrong(std::string what, std::string hint = {}) {
  return make_error(ErrorCode::invalid_input, std::move(what), std::move(hint));
}

using Keys = RowKeys;

Result<std::string> text_at(const Value& value, std::string_view place) {
  if (!value.is_string()) return wrong(format("'{}' is {}, expected a text", place, value.kind_name()));
  return value.as_string();
}

// ---- messages

// A text, or parts that are texts.
Result<std::string> content_at(const Value& value, std::string_view place) {
  if (!value.is_array()) return text_at(value, place);
  std::string text;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const Value& part = value.as_array()[i];
    const std::string type = part.is_table() ? part.get_string("type") : "text";
    if (type != "text") return wrong(format("{}[{}] is of the type '{}'; models here read text alone", place, i, type));
    const Value* inner = part.is_table() ? part.find("text") : &part;
    if (!inner) return wrong(format("{}[{}] has no 'text'", place, i));
    LH_TRY(const std::string piece, text_at(*inner, format("{}[{}].text", place, i)));
    text += piece;
  }
  return text;
}

Result<std::string> role_named(const std::string& name) {
  for (const SpeakerName& speaker : speaker_names())
    if (name == speaker.name) return std::string(speaker.role);
  return wrong(format("unknown role '{}'", name), "use " + join(chat_roles(), ", ") + ", tool");
}

// Whether its answer is trained on, by `weight` (0 or 1) and `train`; nothing: not said.
Result<std::optional<bool>> trained_of(const Keys& keys) {
  std::optional<bool> trained;
  if (const Value* train = keys.find("train")) {
    if (!train->is_bool()) return wrong(format("'train' is {}, expected true or false", train->kind_name()));
    trained = train->as_bool();
  }
  if (const Value* weight = keys.find("weight")) {
    const bool number = weight->is_number();
    const double w = number ? weight->as_number() : -1;
    if (w != 0 && w != 1)
      return wrong(number ? format("'weight' is {:g}: an answer is trained on (1) or not (0)", w)
                          : format("'weight' is {}, expected 0 or 1", weight->kind_name()));
    if (trained && *trained != (w == 1)) return wrong("'weight' and 'train' contradict each other");
    trained = w == 1;
  }
  return trained;
}

// Calls that stand in the text of a message, as LLaMA-Factory writes them: one of {"name", "arguments"}, or a list.
Status take_written_calls(ChatMessage& message, std::string_view place) {
  const Result<Value> written = parse_json(message.content, std::string(place));
  if (!written.ok()) return wrong(format("'{}' is no JSON of a call: {}", place, written.error().what));
  const Value list = written->is_array() ? *written : Value(ValueArray{*written});
  LH_TRY(message.tool_calls, read_tool_calls(list, place));
  message.content.clear();
  message.no_content = true;
  return {};
}

Status take_calls(const Keys& keys, ChatMessage& message) {
  const Value* calls = keys.find("tool_calls");
  if (!calls || (calls->is_array() && calls->size() == 0)) return {};
  LH_TRY(message.tool_calls, read_tool_calls(*calls, "tool_calls"));
  return {};
}

// What a message of the role may have beside who speaks and what.
std::vector<std::string> message_keys(const std::string& role, bool by_from) {
  std::vector<std::string> keys = {by_from ? "from" : "role", by_from ? "value" : "content", "weight", "train"};
  if (role == "assistant") keys.emplace_back("tool_calls");
  if (role == "tool") keys.insert(keys.end(), {"tool_call_id", "name"});
  return keys;
}

Result<ChatMessage> message_of(const Keys& keys) {
  const bool by_from = keys.find("from") && !keys.find("role");
  const char *who = by_from ? "from" : "role", *what = by_from ? "value" : "content";
  const Value *name = keys.find(who), *content = keys.find(what);
  ChatMessage message;
  std::string speaker;
  if (name) {
    LH_TRY(speaker, text_at(*name, who));
    LH_TRY(message.role, role_named(speaker));
  }
  LH_CHECK(keys.check_known(message_keys(message.role, by_from), "a message"));
  if (!name) return wrong(format("'{}' is missing", who));
  LH_CHECK(take_calls(keys, message));
  message.no_content = !content && !message.tool_calls.empty();
  if (!content && !message.no_content) return wrong(format("'{}' is missing", what));
  if (content) {
    LH_TRY(message.content, content_at(*content, what));
  }
  if (speaker == "function_call") LH_CHECK(take_written_calls(message, what));
  for (const auto& [key, into] : {std::pair{"tool_call_id", &message.tool_call_id}, {"name", &message.name}})
    if (const Value* value = keys.find(key)) {
      LH_TRY(*into, text_at(*value, key));
    }
  LH_TRY(const auto trained, trained_of(keys));
  if (trained.value_or(false) && message.role != "assistant")
    return wrong(format("is from {}: only answers of the assistant are trained on", message.role));
  message.trained = trained.value_or(true);
  return message;
}

Result<Messages> messages_at(const Value& list, std::string_view key, std::span<const std::string> ignore) {
  if (!list.is_array()) return wrong(format("'{}' is {}, expected a list of messages", key, list.kind_name()));
  Messages messages;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Value& entry = list.as_array()[i];
    const auto place = format("{}[{}]", key, i);
    if (!entry.is_table()) return wrong(format("{} is {}, expected an object", place, entry.kind_name()));
    LH_TRY(ChatMessage message, message_of(Keys(entry, ignore)).with_context(place));
    messages.push_back(std::move(message));
  }
  return messages;
}

// A text of the user, or messages.
Result<Messages> prompt_at(const Keys& row, const char* key) {
  const Value& value = *row.find(key);
  if (value.is_array()) return messages_at(value, key, row.ignored());
  LH_TRY(std::string text, text_at(value, key));
  return Messages{{"user", std::move(text)}};
}

// ---- what stands before a question

Status put_system(const Keys& row, Messages& messages) {
  const Value* system = row.find("system");
  if (!system) return {};
  LH_TRY(std::string text, text_at(*system, "system"));
  if (text.empty()) return {};
  if (!messages.empty() && messages.front().role == "system")
    return messages.front().content == text ? Status()
                                            : wrong("'system' and the conversation's own system message differ");
  messages.insert(messages.begin(), {"system", std::move(text)});
  return {};
}

// What the answers may call.
Status put_tools(const Keys& row, Value& tools) {
  const Value* written = row.find("tools");
  if (!written) return {};
  LH_TRY(tools, read_tools(*written, "tools"));
  return {};
}

// [[question, answer], ...] before all else.
Status put_history(const Keys& row, Messages& messages) {
  const Value* history = row.find("history");
  if (!history) return {};
  if (!history->is_array()) return wrong(format("'history' is {}, expected a list", history->kind_name()));
  Messages earlier;
  for (std::size_t i = 0; i < history->size(); ++i) {
    const Value& turn = history->as_array()[i];
    const auto place = format("history[{}]", i);
    if (!turn.is_array() || turn.size() != 2) return wrong(place + " is no list of a question and its answer");
    LH_TRY(std::string question, text_at(turn.as_array()[0], place + "[0]"));
    LH_TRY(std::string answer, text_at(turn.as_array()[1], place + "[1]"));
    earlier.push_back({"user", std::move(question)});
    earlier.push_back({"assistant", std::move(answer)});
  }
  messages.insert(messages.begin(), earlier.begin(), earlier.end());
  return {};
}

Status check_answered(std::span<const ChatMessage> messages) {
  LH_CHECK(check_conversation(messages));
  if (messages.back().role != "assistant") return wrong("the conversation does not end with the assistant's answer");
  bool trained = false;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].role != "assistant") continue;
    if (messages[i].content.empty() && messages[i].tool_calls.empty())
      return wrong(format("message {}: the answer is empty", i + 1));
    trained = trained || messages[i].trained;
  }
  return trained ? Status() : wrong("none of its answers is trained on");
}

// ---- forms

// A question, as a text or as messages, and its answer.
Result<Messages> question_and_answer(const Keys& row, const char* question, const char* answer) {
  LH_TRY(Messages messages, prompt_at(row, question));
  for (ChatMessage& message : messages)
    if (message.role == "assistant") message.trained = false;  // what a prompt holds is given
  const Value& given = *row.find(answer);
  if (given.is_array()) {
    LH_TRY(const Messages more, messages_at(given, answer, row.ignored()));
    messages.insert(messages.end(), more.begin(), more.end());
    return messages;
  }
  LH_TRY(std::string text, text_at(given, answer));
  messages.push_back({"assistant", std::move(text)});
  return messages;
}

Result<Messages> conversation_of(const Keys& row, const TuningRowForm& form) {
  for (const char* key : {"messages", "conversations"})
    if (row.find(key) && std::string_view(form.keys) == key) return messages_at(*row.find(key), key, row.ignored());
  const auto keys = split(form.keys, ' ');
  LH_TRY(Messages messages, question_and_answer(row, keys[0].c_str(), keys[1].c_str()));
  if (keys[0] == "instruction" && row.find("input")) {
    LH_TRY(const std::string input, text_at(*row.find("input"), "input"));
    if (!input.empty()) messages.front().content += "\n\n" + input;
  }
  return messages;
}

// ---- preferences

bool says_the_same(const ChatMessage& a, const ChatMessage& b) {
  return a.role == b.role && a.content == b.content && a.tool_calls == b.tool_calls &&
         a.tool_call_id == b.tool_call_id && a.name == b.name;
}

bool begins_with(std::span<const ChatMessage> all, const Messages& first) {
  return all.size() >= first.size() && std::equal(first.begin(), first.end(), all.begin(), says_the_same);
}

// The prompt and what one side says to it; a side that is a list may repeat the prompt.
Result<Messages> side_at(const Keys& row, const char* key, const Messages& prompt) {
  const Value& value = *row.find(key);
  Messages whole = prompt;
  if (!value.is_array()) {
    LH_TRY(std::string text, text_at(value, key));
    whole.push_back({"assistant", std::move(text)});
    return whole;
  }
  LH_TRY(Messages messages, messages_at(value, key, row.ignored()));
  if (messages.empty() || messages.back().role != "assistant")
    return wrong(format("'{}' does not end with a message of the assistant", key));
  const std::span<const ChatMessage> before(messages.data(), messages.size() - 1);
  const bool has_system = !before.empty() && before.front().role == "system";
  if (begins_with(before, prompt) || (has_system && begins_with(before.subspan(1), prompt))) return messages;
  if (messages.front().role != "assistant")
    return wrong(format("'{}' neither repeats the prompt nor goes on from it", key));
  whole.insert(whole.end(), messages.begin(), messages.end());
  return whole;
}

// What both conversations begin with becomes the prompt; at least one message of each is its answer.
Result<PreferenceExample> divided(Messages chosen, Messages rejected) {
  const std::size_t most = std::min(chosen.size(), rejected.size()) - 1;
  std::size_t same = 0;
  while (same < most && says_the_same(chosen[same], rejected[same])) ++same;
  for (const Messages* side : {&chosen, &rejected}) {
    const ChatMessage& first = (*side)[same];
    if (first.role != "assistant")
      return wrong(
          format("'chosen' and 'rejected' differ first in a message from {}: what is compared begins with "
                 "an answer of the assistant",
                 first.role));
  }
  const auto at = static_cast<std::ptrdiff_t>(same);
  PreferenceExample pair;
  pair.prompt.assign(chosen.begin(), chosen.begin() + at);
  pair.chosen.assign(chosen.begin() + at, chosen.end());
  pair.rejected.assign(rejected.begin() + at, rejected.end());
  return pair;
}

Status check_side(const char* key, const Messages& prompt, const Messages& answers) {
  bool trained = false;
  for (const ChatMessage& message : answers) {
    if (message.role != "assistant") continue;
    if (message.content.empty() && message.tool_calls.empty()) return wrong(format("'{}' is empty", key));
    trained = trained || message.trained;
  }
  if (!trained) return wrong(format("none of the answers of '{}' is trained on", key));
  Messages whole = prompt;
  whole.insert(whole.end(), answers.begin(), answers.end());
  return check_conversation(whole).with_context(format("'{}', with the prompt", key));
}

Status check_prompt(const Messages& prompt) {
  LH_CHECK(check_conversation(prompt).with_context("prompt"));
  if (prompt.back().role == "user" || prompt.back().role == "tool") return {};
  return wrong("the prompt does not end with the user");
}

Status check_pair(const PreferenceExample& pair) {
  LH_CHECK(check_prompt(pair.prompt));
  LH_CHECK(check_side("chosen", pair.prompt, pair.chosen));
  LH_CHECK(check_side("rejected", pair.prompt, pair.rejected));
  if (std::equal(pair.chosen.begin(), pair.chosen.end(), pair.rejected.begin(), pair.rejected.end(), says_the_same))
    return wrong("'chosen' and 'rejected' are the same answer");
  return {};
}

Result<PreferenceExample> pair_of(const Keys& row) {
  Messages prompt;
  if (row.find("prompt")) {
    LH_TRY(prompt, prompt_at(row, "prompt"));
  } else if (!row.find("chosen")->is_array() || !row.find("rejected")->is_array()) {
    return wrong("'prompt' is missing",
                 "without it 'chosen' and 'rejected' are whole conversations: lists of messages");
  }
  LH_TRY(Messages chosen, side_at(row, "chosen", prompt));
  LH_TRY(Messages rejected, side_at(row, "rejected", prompt));
  LH_TRY(PreferenceExample pair, divided(std::move(chosen), std::move(rejected)));
  LH_CHECK(put_tools(row, pair.tools));
  LH_CHECK(put_system(row, pair.prompt));
  LH_CHECK(check_pair(pair));
  return pair;
}

Result<std::vector<PreferenceExample>> ranked_pairs(const Keys& row, const char* by) {
  const Value &answers = *row.find("responses"), &values = *row.find(by);
  if (!answers.is_array() || !values.is_array() || answers.size() != values.size() || answers.size() < 2)
    return wrong(format("'responses' and '{}' are not two lists of the same length, of two at least", by));
  if (answers.size() > ranked_answers_max) return wrong(format("more than {} answers in one row", ranked_answers_max));
  std::vector<std::string> texts;
  std::vector<double> worth;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    LH_TRY(std::string text, text_at(answers.as_array()[i], format("responses[{}]", i)));
    const Value& value = values.as_array()[i];
    if (!value.is_number() || !std::isfinite(value.as_number())) return wrong(format("'{}[{}]' is no number", by, i));
    texts.push_back(std::move(text));
    worth.push_back(std::string_view(by) == "ranks" ? -value.as_number() : value.as_number());
  }
  LH_TRY(Messages prompt, prompt_at(row, "prompt"));
  LH_CHECK(put_system(row, prompt));
  std::size_t prompt_bytes = 0;
  for (const ChatMessage& message : prompt) prompt_bytes += message.content.size();
  if (prompt_bytes * texts.size() * (texts.size() - 1) / 2 > ranked_bytes_max)
    return wrong(format("its {} answers would become pairs with more than {} MiB of prompts", texts.size(),
                        ranked_bytes_max >> 20),
                 "choose fewer answers of this row");
  std::vector<PreferenceExample> pairs;
  for (std::size_t i = 0; i < texts.size(); ++i)
    for (std::size_t j = 0; j < texts.size(); ++j)
      if (worth[i] > worth[j]) pairs.push_back({prompt, {{"assistant", texts[i]}}, {{"assistant", texts[j]}}});
  if (pairs.empty()) return wrong(format("all '{}' are equal: no answer is better than another", by));
  for (const PreferenceExample& pair : pairs) LH_CHECK(check_pair(pair));
  return pairs;
}

Result<double> margin_at(const Keys& row) {
  const Value* margin = row.find("margin");
  if (!margin) return 0.0;
  if (margin->is_number() && std::isfinite(margin->as_number()) && margin->as_number() >= 0) return margin->as_number();
  return wrong(margin->is_number() ? format("'margin' is {:g}, expected a number of at least 0", margin->as_number())
                                   : format("'margin' is {}, expected a number of at least 0", margin->kind_name()),
               "it is by how much the chosen answer is better");
}

// It becomes part of a figure's name.
Result<std::string> category_at(const Keys& row) {
  const Value *category = row.find("category"), *subset = row.find("subset");
  if (category && subset) return wrong("'category' and 'subset' are two names of the same", "leave one of them out");
  if (!category && !subset) return std::string();
  LH_TRY(std::string text, text_at(category ? *category : *subset, category ? "category" : "subset"));
  std::ranges::replace(text, ' ', '_');
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
  if (!text.empty() && text.size() <= category_bytes_max && text.find_first_not_of(letters) == std::string::npos)
    return text;
  return wrong(format("'{}' is '{}'", category ? "category" : "subset", text),
               format("use up to {} letters, digits, blanks, '-', '_' and '.'", category_bytes_max));
}

// ---- labels

Result<bool> label_at(const Keys& row) {
  const Value& label = *row.find("label");
  if (label.is_bool()) return label.as_bool();
  if (label.is_number() && (label.as_number() == 0 || label.as_number() == 1)) return label.as_number() == 1;
  return wrong(label.is_number() ? format("'label' is {:g}, expected true or false", label.as_number())
                                 : format("'label' is {}, expected true or false", label.kind_name()),
               "true (or 1): the answer is good; false (or 0): it is bad");
}

}  // namespace

Result<std::string> category_of_row(const Value& row, std::span<const std::string> ignore) {
  return category_at(Keys(row, ignore));
}

Result<LabelledExample> labelled_of_row(const Value& value, std::span<const std::string> ignore) {
  const Keys row(value, ignore);
  LH_CHECK(form_of_row(row, TuningRowUse::labelled));
  LabelledExample example;
  LH_TRY(example.prompt, prompt_at(row, "prompt"));
  LH_TRY(Messages whole, side_at(row, "completion", example.prompt));
  // A side that repeats the prompt may have put the system before it.
  const std::size_t before =
      whole.size() > example.prompt.size() && whole.front().role == "system" && example.prompt.front().role != "system"
          ? example.prompt.size() + 1
          : example.prompt.size();
  const auto at = whole.begin() + static_cast<std::ptrdiff_t>(before);
  example.prompt.assign(whole.begin(), at);
  example.answer.assign(at, whole.end());
  LH_TRY(example.desirable, label_at(row));
  LH_CHECK(put_tools(row, example.tools));
  LH_CHECK(put_system(row, example.prompt));
  LH_CHECK(check_prompt(example.prompt));
  LH_CHECK(check_side("completion", example.prompt, example.answer));
  return example;
}

const TuningRowForm* form_of_row(const Value& value, std::optional<TuningRowUse> use,
                                 std::span<const std::string> ignore) {
  const Keys row(value, ignore);
  if (use == TuningRowUse::reward) use = TuningRowUse::preference;
  for (const TuningRowForm& form : tuning_row_forms())
    if ((!use || form.use == *use) && row.has_all(form.keys)) return &form;
  return nullptr;
}

Result<InstructExample> instruction_of_row(const Value& value, std::span<const std::string> ignore) {
  const Keys row(value, ignore);
  LH_TRY(const TuningRowForm* const form, form_of_row(row, TuningRowUse::instruction));
  InstructExample example;
  if (std::string_view(form->keys) == "text") {
    LH_TRY(example.text, text_at(*row.find("text"), "text"));
    if (example.text.empty()) return wrong("'text' is empty");
    if (!is_valid_utf8(example.text)) return wrong("'text' is not valid UTF-8");
    return example;
  }
  LH_TRY(example.messages, conversation_of(row, *form));
  LH_CHECK(put_history(row, example.messages));
  LH_CHECK(put_system(row, example.messages));
  LH_CHECK(put_tools(row, example.tools));
  LH_CHECK(check_answered(example.messages));
  return example;
}

Result<std::vector<PreferenceExample>> preferences_of_row(const Value& value, std::span<const std::string> ignore,
                                                          TuningRowUse use) {
  const Keys row(value, ignore);
  LH_TRY(const TuningRowForm* const form, form_of_row(row, use));
  const auto keys = split(form->keys, ' ');
  std::vector<PreferenceExample> pairs;
  if (keys.back() == "ranks" || keys.back() == "scores") {
    LH_TRY(pairs, ranked_pairs(row, keys.back().c_str()));
  } else {
    LH_TRY(PreferenceExample pair, pair_of(row));
    pairs.push_back(std::move(pair));
  }
  if (use != TuningRowUse::reward) return pairs;
  LH_TRY(const double margin, margin_at(row));
  LH_TRY(const std::string category, category_at(row));
  for (PreferenceExample& pair : pairs) pair.margin = margin, pair.category = category;
  return pairs;
}

}  // namespace longhaul
