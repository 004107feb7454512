#include "engine/tasks/environment/environment.h"

#include "base/process/line_program.h"
#include "base/text/text.h"
#include "base/text/visible_text.h"
#include "base/value/json.h"
#include "engine/align/reward.h"
#include "engine/tasks/rewards/endpoint.h"

namespace longhaul {

namespace {

constexpr std::size_t content_bytes_max = 1 << 20;
constexpr std::size_t program_bytes_max = 64 << 20;
constexpr std::size_t shown_reply_bytes = 80;  // in messages

Value conversation_value(const OpenConversation& conversation) {
  Value row = Value::make_table();
  row.set("messages", messages_value(conversation.messages));
  row.set("turn", conversation.turn), row.set("answer", conversation.answer);
  return row;
}

EnvironmentReply no_reply(std::string problem) {
  return {"", true, "the environment " + std::move(problem)};
}

std::string shown_reply(const std::string& text) {
  return visible_line(std::string_view(text).substr(0, shown_reply_bytes));
}

EnvironmentReply reply_of_value(const Value& given) {
  if (!given.is_table())
    return no_reply(
        format("says {}, which is no reply {{\"content\": ..., \"done\": ...}}", shown_reply(to_json(given))));
  EnvironmentReply reply;
  bool says = false;
  for (const ValueMember& member : given.as_table()) {
    if (member.key == "content" && member.value.is_string())
      reply.content = member.value.as_string(), says = true;
    else if (member.key == "done" && member.value.is_bool())
      reply.done = member.value.as_bool();
    else if (member.key == "content" || member.key == "done")
      return no_reply(format("gives {} as '{}'", member.value.kind_name(), member.key));
    else
      return no_reply(format("gives the key '{}', which no reply has", shown_reply(member.key)));
  }
  if (!says && !reply.done) return no_reply("gives no content, and is not done");
  if (reply.content.size() > content_bytes_max)
    return no_reply(format("gives a content of {} bytes, more than {}", reply.content.size(), content_bytes_max));
  if (!is_valid_utf8(reply.content)) return no_reply("gives a content that is not UTF-8");
  return reply;
}

EnvironmentReply reply_of_line(const std::string& line) {
  const Result<Value> parsed = parse_json(line);
  if (!parsed.ok()) return no_reply(format("prints '{}', which is no JSON", shown_reply(line)));
  return reply_of_value(*parsed);
}

}  // namespace

std::vector<EnvironmentReply> Environment::ask_program(std::span<const OpenConversation> conversations) const {
  std::string lines;
  for (const OpenConversation& one : conversations) lines += to_json(conversation_value(one)) + "\n";
  const auto all = [&](const std::string& why) {
    return std::vector<EnvironmentReply>(conversations.size(), no_reply(why));
  };
  const auto printed =
      run_in_lines(settings_.environment, lines, settings_.environment_deadline_s * 1000, program_bytes_max);
  if (!printed.ok()) return all("fails: " + printed.error().message());
  if (printed->failed) return all("fails: " + printed->end);
  if (printed->lines.size() > conversations.size())
    return all(format("prints {} lines for {} conversations", printed->lines.size(), conversations.size()));
  std::vector<EnvironmentReply> replies;
  for (std::size_t i = 0; i < conversations.size(); ++i)
    replies.push_back(i < printed->lines.size() ? reply_of_line(printed->lines[i]) : no_reply("prints nothing for it"));
  return replies;
}

std::vector<EnvironmentReply> Environment::ask_url(std::span<const OpenConversation> conversations) const {
  Value items = Value::make_array();
  for (const OpenConversation& one : conversations) items.push_back(conversation_value(one));
  const auto given =
      ask_endpoint(settings_.environment_url, settings_.environment_deadline_s, std::move(items), "replies");
  if (!given.ok())
    return std::vector<EnvironmentReply>(conversations.size(), no_reply("fails: " + given.error().message()));
  std::vector<EnvironmentReply> replies;
  for (const Value& one : *given) replies.push_back(reply_of_value(one));
  return replies;
}

std::vector<EnvironmentReply> Environment::ask(std::span<const OpenConversation> conversations) const {
  if (conversations.empty()) return {};
  return settings_.environment.empty() ? ask_url(conversations) : ask_program(conversations);
}

}  // namespace longhaul
