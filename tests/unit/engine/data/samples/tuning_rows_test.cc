// Rows of tuning data: every form, and what no form knows, by the cases of tests/cases/rows.
#include "engine/data/samples/tuning_rows.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "contracts/settings/stages/tuning_row_form.h"
#include "engine/data/samples/instruct_data.h"

using namespace longhaul;

namespace {

const std::string folder = std::string(LONGHAUL_SOURCE_DIR) + "/tests/cases/rows/";

// ["user", "a"], ["assistant", "b", false], ["assistant", null, true, [a call]], ["tool", "42", true, {"name": ...}]
ChatMessage expected_message(const ValueArray& one) {
  ChatMessage message{one[0].as_string(), one[1].is_null() ? "" : one[1].as_string(),
                      one.size() < 3 || one[2].as_bool()};
  message.no_content = one[1].is_null();
  if (one.size() > 3 && one[3].is_array())
    for (const Value& call : one[3].as_array())
      message.tool_calls.push_back({call.get_string("id"), call.get_string("name"), *call.find("arguments")});
  if (one.size() > 3 && one[3].is_table()) {
    message.tool_call_id = one[3].get_string("tool_call_id");
    message.name = one[3].get_string("name");
  }
  return message;
}
std::vector<ChatMessage> expected_messages(const Value& list) {
  std::vector<ChatMessage> messages;
  if (list.is_string()) return {{"assistant", list.as_string()}};
  for (const Value& one : list.as_array()) messages.push_back(expected_message(one.as_array()));
  return messages;
}
Value expected_tools(const Value& one) {
  const Value* tools = one.find("tools");
  return tools ? *tools : Value();
}

std::vector<std::string> ignored(const Value& one) {
  std::vector<std::string> keys;
  if (const Value* list = one.find("ignore"))
    for (const Value& key : list->as_array()) keys.push_back(key.as_string());
  return keys;
}

void check_instruction(const Value& one) {
  const auto example = instruction_of_row(*one.find("row"), ignored(one));
  if (const std::string error = one.get_string("error"); !error.empty()) {
    REQUIRE_FALSE(example.ok());
    const std::string message = example.error().message();
    CAPTURE(message);
    CHECK(message.find(error) != std::string::npos);
    return;
  }
  REQUIRE_MESSAGE(example.ok(), example.error().message());
  CHECK(example->text == one.get_string("text"));
  if (const Value* messages = one.find("messages")) CHECK(example->messages == expected_messages(*messages));
  CHECK(example->tools == expected_tools(one));
}

void check_preference(const Value& one) {
  const auto pairs = preferences_of_row(*one.find("row"), ignored(one));
  if (const std::string error = one.get_string("error"); !error.empty()) {
    REQUIRE_FALSE(pairs.ok());
    const std::string message = pairs.error().message();
    CAPTURE(message);
    CHECK(message.find(error) != std::string::npos);
    return;
  }
  REQUIRE_MESSAGE(pairs.ok(), pairs.error().message());
  const Value& expected = *one.find("pairs");
  REQUIRE(pairs->size() == expected.size());
  for (std::size_t i = 0; i < pairs->size(); ++i) {
    const auto& pair = expected.as_array()[i].as_array();
    CHECK((*pairs)[i].prompt == expected_messages(pair[0]));
    CHECK((*pairs)[i].tools == expected_tools(one));
    CHECK((*pairs)[i].chosen == expected_messages(pair[1]));
    CHECK((*pairs)[i].rejected == expected_messages(pair[2]));
  }
}

void check_labelled(const Value& one) {
  const auto example = labelled_of_row(*one.find("row"), ignored(one));
  if (const std::string error = one.get_string("error"); !error.empty()) {
    REQUIRE_FALSE(example.ok());
    const std::string message = example.error().message();
    CAPTURE(message);
    CHECK(message.find(error) != std::string::npos);
    return;
  }
  REQUIRE_MESSAGE(example.ok(), example.error().message());
  CHECK(example->prompt == expected_messages(*one.find("prompt")));
  CHECK(example->answer == expected_messages(*one.find("answer")));
  CHECK(example->desirable == one.get_bool("desirable"));
}

}  // namespace

TEST_CASE("rows of every form are used, or refused by name") {
  int cases = 0;
  const std::string text = read_file(folder + "cases.jsonl").value();
  for (const std::string& line : split(text, '\n')) {
    if (line.empty()) continue;
    const Value one = parse_json(line, "cases.jsonl").value();
    const std::string why = one.get_string("why");
    CAPTURE(why);
    ++cases;
    if (one.get_string("use") == "preference")
      check_preference(one);
    else if (one.get_string("use") == "labelled")
      check_labelled(one);
    else
      check_instruction(one);
  }
  CHECK(cases >= 50);
}

TEST_CASE("files of rows: turns in pairs say the same as the prompt, and forms may be mixed") {
  const auto turns = read_preferences(folder + "pairs-with-turns.jsonl").value();
  const auto prompt = read_preferences(folder + "pairs-with-prompt.jsonl").value();
  REQUIRE(turns.size() == prompt.size());
  REQUIRE(turns.size() == 8);
  for (std::size_t i = 0; i < turns.size(); ++i) {
    CHECK(turns[i].prompt == prompt[i].prompt);
    CHECK(turns[i].chosen == prompt[i].chosen);
    CHECK(turns[i].rejected == prompt[i].rejected);
  }
  std::string mixed;
  for (const char* name : {"message-weights", "alpaca-system-history", "sharegpt", "two-users"})
    mixed += read_file(folder + name + ".jsonl").value();
  const auto examples = parse_instructions(mixed, "mixed.jsonl").value();
  CHECK(examples.size() == 32);
  CHECK(examples[0].messages[1] == ChatMessage{"assistant", "WRONG 0", false});
  CHECK(examples[8].messages.size() == 5);
  CHECK(examples[8].messages[0].content == "Answer in French");
  const auto tools = read_instructions(folder + "tools.jsonl").value();
  REQUIRE(tools.size() == 8);
  CHECK(tools[0].tools.size() == 1);
  CHECK(tools[0].messages[1].tool_calls.size() == 1);
  // Ignored, the list of tools counts as not there; the calls in the conversation are still in it.
  const auto fewer = read_instructions(folder + "tools.jsonl", std::vector<std::string>{"tools"}).value();
  CHECK(fewer[0].tools.is_null());
  CHECK(fewer[0].messages[1].tool_calls.size() == 1);
}

TEST_CASE("what a row says reaches the tokens that are trained on") {
  const std::string path = std::string(LONGHAUL_SOURCE_DIR) + "/tests/parity/golden/reference_tokenizer.json";
  const Tokenizer tokenizer =
      Tokenizer::parse(to_json(*parse_json(read_file(path).value()).value().find("tokenizer"))).value();
  const ChatEncoder encoder = ChatEncoder::create(tokenizer).value();
  const auto trained_text = [&](const std::string& row) {
    const auto examples = parse_instructions(row, "x").value();
    const auto tokens = tokenize_instructions(examples, encoder, 128).value();
    std::vector<std::int32_t> trained;
    for (std::size_t i = 0; i < tokens.examples[0].ids.size(); ++i)
      if (tokens.examples[0].loss_mask[i] != 0) trained.push_back(tokens.examples[0].ids[i]);
    return tokenizer.decode(trained);
  };
  CHECK(trained_text(R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "no", )"
                     R"("weight": 0}, {"role": "user", "content": "b"}, {"role": "assistant", "content": "yes"}]})") ==
        "yes<|end|>");
  CHECK(trained_text(R"({"history": [["h", "g"]], "instruction": "i", "output": "o"})") == "g<|end|>o<|end|>");
  CHECK(trained_text(R"({"text": "as it stands"})") == "as it stands<|endoftext|>");
  // What stands before an example counts in its length and has no loss; the first token has none behind it either.
  const auto text = parse_instructions(R"({"text": "as it stands"})", "x").value();
  const std::vector<std::int32_t> before = {900, 901};
  const ChatTokens bare = tokenize_instructions(text, encoder, 128).value().examples[0];
  const ChatTokens behind = tokenize_instructions(text, encoder, 128, before).value().examples[0];
  CHECK(std::vector<std::int32_t>(behind.ids.begin(), behind.ids.begin() + 2) == before);
  CHECK(std::vector<std::int32_t>(behind.ids.begin() + 2, behind.ids.end()) == bare.ids);
  CHECK(std::vector<std::uint8_t>(behind.loss_mask.begin(), behind.loss_mask.begin() + 3) ==
        std::vector<std::uint8_t>{0, 0, 0});
  const auto fits = static_cast<std::int64_t>(bare.ids.size()) - 1;
  CHECK(tokenize_instructions(text, encoder, fits).ok());
  const auto too_long = tokenize_instructions(text, encoder, fits, before);
  REQUIRE_FALSE(too_long.ok());
  CHECK(too_long.error().message().find(
            format("sequence_length = {}, of which 2 stand before every text; use a longer sequence_length, or fewer "
                   "adapter.virtual_tokens",
                   fits)) != std::string::npos);
  CHECK(tokenize_instructions(text, encoder, 1).error().message().find("before every text") == std::string::npos);
  CHECK(tokenize_instructions(text, encoder, fits + 2, before).ok());
  // Longhaul's own form has no place for tools: the line is named.
  const auto called = parse_instructions("\n" + read_file(folder + "tools.jsonl").value(), "x").value();
  const auto refused = tokenize_instructions(called, encoder, 128);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message().find("line 2: 'tools' is not used: Longhaul's own form") != std::string::npos);
}

TEST_CASE(
    "the table of forms: the first that fits is the one with the most to say, and roles are those of the template") {
  for (const TuningRowForm& form : tuning_row_forms()) {
    CAPTURE(form.name);
    CHECK(std::string(form.becomes).size() > 3);
    for (const TuningRowForm& earlier : tuning_row_forms()) {
      if (&earlier == &form) break;
      if (earlier.use != form.use) continue;
      bool hidden = true;  // all keys of the earlier one are keys of this one: this one would never be found
      for (const std::string& key : split(earlier.keys, ' ')) {
        const auto keys = split(form.keys, ' ');
        hidden = hidden && std::find(keys.begin(), keys.end(), key) != keys.end();
      }
      CHECK_FALSE(hidden);
    }
  }
  for (const SpeakerName& speaker : speaker_names())
    CHECK((speaker.role == std::string("tool") ||
           std::find(chat_roles().begin(), chat_roles().end(), speaker.role) != chat_roles().end()));
}
