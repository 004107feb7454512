// Rows with tools, calls and answers of tools: text, tokens, and which of them are trained on, are those of
// transformers by the templates in the forms of two families (tests/parity/make_tool_golden.py, make_pair_golden.py).
#include <doctest/doctest.h>

#include <map>

#include "base/digest/hash.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/data/samples/instruct_data.h"
#include "engine/data/samples/tuning_rows.h"
#include "engine/data/template/template_encoder.h"
#include "tests/support/scratch.h"

using namespace longhaul;

namespace {

const std::string parity_folder = std::string(LONGHAUL_SOURCE_DIR) + "/tests/parity/";

// For a fixed day.
std::string source_of_template(const std::string& name) {
  const std::string source = read_file(parity_folder + "templates/" + name).value();
  return replace_all(source, R"(strftime_now("%d %b %Y"))", R"("26 Jul 2024")");
}

ChatTemplate template_of(const std::string& name) {
  JinjaTable special;
  special.set("bos_token", JinjaValue::of(std::string("<|endoftext|>")));
  return ChatTemplate::parse(source_of_template(name), name, special).value();
}

Tokenizer reference_tokenizer() {
  const Value reference = parse_json(read_file(parity_folder + "golden/reference_tokenizer.json").value()).value();
  return Tokenizer::parse(to_json(*reference.find("tokenizer"))).value();
}

// As of a model whose folder has this template.
ChatEncoder encoder_of(const Tokenizer& tokenizer, const std::string& name) {
  const testing::Scratch folder;
  REQUIRE(write_file_atomic(join_path(folder.path(), "chat_template.jinja"), source_of_template(name)).ok());
  REQUIRE(
      write_file_atomic(join_path(folder.path(), "tokenizer_config.json"), R"({"bos_token":"<|endoftext|>"})").ok());
  return ChatEncoder::create(tokenizer, folder.path()).value();
}

std::string spans_of_tools(const ChatTokens& tokens) {
  std::string text;
  for (std::size_t i = 0; i < tokens.ids.size(); ++i) {
    const bool here = tokens.loss_mask[i] != 0, before = i > 0 && tokens.loss_mask[i - 1] != 0;
    if (here && !before) text += format("[{},", i);
    if (here && (i + 1 == tokens.ids.size() || tokens.loss_mask[i + 1] == 0)) text += format("{}]", i + 1);
  }
  return text;
}

std::string wanted_spans(const Value& row) {
  std::string spans;
  for (const Value& span : row.find("trained")->as_array())
    spans += format("[{},{}]", span.as_array()[0].as_integer(), span.as_array()[1].as_integer());
  return spans;
}

void check_tokens(const ChatTokens& tokens, const Value& wanted) {
  const std::string_view bytes(reinterpret_cast<const char*>(tokens.ids.data()), tokens.ids.size() * 4);
  CHECK(static_cast<std::int64_t>(tokens.ids.size()) == wanted.get_integer("tokens"));
  CHECK(format("{:016x}", xxh3_64(bytes)) == wanted.get_string("ids"));
  CHECK(spans_of_tools(tokens) == wanted_spans(wanted));
}

}  // namespace

TEST_CASE("rows with tools: text, tokens and what is trained on are those of transformers") {
  const Tokenizer tokenizer = reference_tokenizer();
  std::map<std::string, int> rows;
  for (const std::string& line : split(read_file(parity_folder + "golden/tool_rows.jsonl").value(), '\n')) {
    const Value one = line.empty() ? Value() : parse_json(line, "tool_rows.jsonl").value();
    const std::string name = one.get_string("template");
    if (name.empty()) continue;
    CAPTURE(line);
    const ChatTemplate chat = template_of(name);
    const auto example = instruction_of_row(*one.find("row"));
    REQUIRE_MESSAGE(example.ok(), example.error().message());
    CHECK(chat.render(example->messages, false, example->tools).value().text == one.get_string("text"));
    const auto tokens = TemplateEncoder(tokenizer, chat).encode_trained(example->messages, example->tools);
    REQUIRE_MESSAGE(tokens.ok(), tokens.error().message());
    check_tokens(*tokens, one);
    ++rows[name];
  }
  CHECK(rows["qwen25.jinja"] == 60);
  CHECK(rows["llama31.jinja"] == 60);
}

TEST_CASE("pairs with calls: tokens of both sides and what is compared are those of transformers") {
  const Tokenizer tokenizer = reference_tokenizer();
  std::map<std::string, ChatEncoder> encoders;
  std::map<std::string, int> pairs;
  for (const std::string& line : split(read_file(parity_folder + "golden/tool_pairs.jsonl").value(), '\n')) {
    const Value one = line.empty() ? Value() : parse_json(line, "tool_pairs.jsonl").value();
    const std::string name = one.get_string("template");
    if (name.empty()) continue;
    CAPTURE(line);
    if (!encoders.contains(name)) encoders.emplace(name, encoder_of(tokenizer, name));
    const auto examples = preferences_of_row(*one.find("row"));
    REQUIRE_MESSAGE(examples.ok(), examples.error().message());
    REQUIRE(examples->size() == 1);
    const auto made = tokenize_preferences(*examples, encoders.at(name), 4096);
    REQUIRE_MESSAGE(made.ok(), made.error().message());
    check_tokens(made->pairs.front().chosen, *one.find("chosen"));
    check_tokens(made->pairs.front().rejected, *one.find("rejected"));
    ++pairs[name];
  }
  CHECK(pairs["qwen25.jinja"] == 60);
  CHECK(pairs["llama31.jinja"] == 60);
}
