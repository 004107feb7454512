#include "orchestrator/notify/message_format.h"

#include <doctest/doctest.h>

#include "base/value/json.h"

namespace longhaul {
namespace {

Message message_for_format() {
  Message message;
  message.id = "x", message.event = "stage_failed", message.text = "it <failed> & ended";
  return message;
}

std::string body_as(const char* format, const Message& message) {
  return message_format(format).body(message);
}

TEST_CASE("message formats: the body is JSON or what Slack takes") {
  CHECK(body_as("slack", message_for_format()) == R"({"text":"it &lt;failed&gt; &amp; ended"})");
  const auto json = parse_json(body_as("json", message_for_format()));
  REQUIRE(json.ok());
  CHECK(json->get_string("id") == "x");
  CHECK(json->get_string("text") == "it <failed> & ended");
}

TEST_CASE("message formats: Discord gets at most 2,000 bytes, and nobody is called by what stands in a log") {
  Message message = message_for_format();
  message.text = "@everyone it failed";
  CHECK(body_as("discord", message) == R"({"content":"@everyone it failed","allowed_mentions":{"parse":[]}})");
  message.text = std::string(3000, 'x');
  const auto json = parse_json(body_as("discord", message));
  REQUIRE(json.ok());
  CHECK(json->get_string("content") == std::string(1997, 'x') + "…");
}

TEST_CASE("message formats: the setting offers every row of the table, and its default is the first") {
  std::vector<std::string> offered;
  for (const FieldInfo& field : notify_fields().describe())
    if (field.name == "format") offered = field.options.choices;
  CHECK(offered == message_format_names());
  CHECK(NotifyConfig().format == message_formats().front().name);
  for (const MessageFormat& format : message_formats())
    CHECK_MESSAGE(parse_json(format.body(message_for_format())).ok(), format.name);
}

}  // namespace
}  // namespace longhaul
