// What follows an answer where somebody replies to it: the tokens of the reply and of the turn that is opened again,
// which are those that the whole conversation would have there.
#include <doctest/doctest.h>

#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/data/template/template_encoder.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

namespace reply_tokens_test {

const std::string reply_folder = std::string(LONGHAUL_SOURCE_DIR) + "/tests/parity/";

Tokenizer reply_tokenizer() {
  const Value reference = parse_json(read_file(reply_folder + "golden/reference_tokenizer.json").value()).value();
  return Tokenizer::parse(to_json(*reference.find("tokenizer"))).value();
}

ChatEncoder encoder_with(const Tokenizer& tokenizer, const std::string& source) {
  const testing::Scratch folder;
  REQUIRE(write_file_atomic(join_path(folder.path(), "chat_template.jinja"), source).ok());
  REQUIRE(write_file_atomic(join_path(folder.path(), "tokenizer_config.json"),
                            R"({"bos_token":"<|endoftext|>","eos_token":"<|endoftext|>"})")
              .ok());
  return ChatEncoder::create(tokenizer, folder.path()).value();
}

std::string family_source(const std::string& name) {
  const std::string source = read_file(reply_folder + "templates/" + name + ".jinja").value();
  return replace_all(source, R"(strftime_now("%d %b %Y"))", R"("26 Jul 2024")");
}

std::string text_of(const Tokenizer& tokenizer, std::span<const std::int32_t> ids) {
  std::string text;
  for (const std::int32_t id : ids) text += tokenizer.token_bytes(id);
  return text;
}

const std::vector<ChatMessage>& short_talk() {
  static const std::vector<ChatMessage> talk = {
      {"user", "2+2?"}, {"assistant", "call 4"}, {"user", "it says <|end|> 4"}};
  return talk;
}

TEST_CASE("a reply has the tokens that the whole conversation has behind the token that ended the answer") {
  const Tokenizer tokenizer = reply_tokenizer();
  const std::int32_t end = tokenizer.require_special(end_of_turn_token).value();
  const std::string spaced =
      "{{ bos_token }}{% for m in messages %}{{ '<|' + m.role + '|>' + (m.content | trim) + '<|end|>\n' }}{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}";
  for (const std::string& source : {chat_template_jinja(), spaced}) {
    CAPTURE(source);
    const ChatEncoder encoder = encoder_with(tokenizer, source);
    const std::span<const ChatMessage> all = short_talk();
    std::vector<std::int32_t> ids = encoder.encode_prompt(all.first(1)).value();
    const std::vector<std::int32_t> answer = tokenizer.encode("call 4").value();
    ids.insert(ids.end(), answer.begin(), answer.end());
    ids.push_back(end);
    const std::int32_t ends[] = {end};
    const std::vector<std::int32_t> reply = encoder.encode_reply(all.back(), ends).value();
    ids.insert(ids.end(), reply.begin(), reply.end());
    CHECK(ids == encoder.encode_prompt(all).value());
  }
}

TEST_CASE("templates of families write a reply as they write it in the whole conversation") {
  const Tokenizer tokenizer = reply_tokenizer();
  for (const char* name : {"chatml", "command", "deepseek", "gemma", "granite", "llama2", "llama3", "llama31",
                           "mistral1", "olmo2", "phi3", "qwen25", "qwen3"}) {
    CAPTURE(name);
    const ChatEncoder encoder = encoder_with(tokenizer, family_source(name));
    const auto reply = encoder.encode_reply(short_talk().back(), {});
    REQUIRE_MESSAGE(reply.ok(), reply.error().message());
    const std::string whole = text_of(tokenizer, encoder.encode_prompt(short_talk()).value());
    const std::string behind = "call 4" + text_of(tokenizer, *reply);
    CHECK(behind.find("it says <|end|> 4") != std::string::npos);
    CAPTURE(whole);
    CAPTURE(behind);
    CHECK(whole.ends_with(behind));
  }
}

TEST_CASE("a tool's reply needs a form of conversations that has tools, and a template has to keep the answer") {
  const Tokenizer tokenizer = reply_tokenizer();
  const ChatMessage tool{"tool", "12 degrees"};
  const auto qwen = encoder_with(tokenizer, family_source("qwen25")).encode_reply(tool, {});
  REQUIRE_MESSAGE(qwen.ok(), qwen.error().message());
  CHECK(text_of(tokenizer, *qwen).find("<tool_response>\n12 degrees") != std::string::npos);
  const auto own = ChatEncoder::create(tokenizer).value().encode_reply(tool, {});
  REQUIRE_FALSE(own.ok());
  CHECK(own.error().message().find("has no place for tools") != std::string::npos);
  const auto forgets = encoder_with(tokenizer, "{{ messages[-1].content }}").encode_reply(short_talk().back(), {});
  REQUIRE_FALSE(forgets.ok());
  CHECK(forgets.error().message().find("leaves out the answer before a reply") != std::string::npos);
}

}  // namespace reply_tokens_test

}  // namespace
}  // namespace longhaul
