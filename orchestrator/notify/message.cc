#include "orchestrator/notify/message.h"

#include "base/digest/hash.h"
#include "base/system/clock.h"
#include "base/text/redact.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr std::size_t cause_bytes_max = 1500;

// Causes hold the end of a program's log, whatever it printed.
std::string safe_excerpt(const std::string& text) {
  std::string out = repair_utf8(redact_secrets(text).substr(0, cause_bytes_max));
  if (text.size() > cause_bytes_max) out += " …";
  return out;
}

std::string with_reason(const std::string& cause, const std::string& reason) {
  return safe_excerpt(cause) + (reason.empty() ? "" : "\n" + safe_excerpt(reason));
}

}  // namespace

Message MessageMaker::make(const std::string& event, const std::string& stage, int attempt, std::int64_t wall_ms,
                           const std::string& which) const {
  Message message;
  message.id = event + "-" + xxh3_128_hex(run_ + "\n" + event + "\n" + stage + "\n" + which).substr(0, 16);
  message.event = event;
  message.run = run_;
  message.workflow = workflow_;
  message.run_dir = run_dir_;
  message.stage = stage;
  message.attempt = attempt;
  message.wall_ms = wall_ms;
  return message;
}

std::optional<Message> MessageMaker::take(const RunNews& news) {
  const int before = seen_[{news.kind, news.stage, news.attempt}]++;
  const std::string which = format("{}.{}", news.attempt, before);
  if (news.kind == "epoch") {
    if (before > 0) return std::nullopt;  // later epochs are other controllers of the same run
    Message message = make("run_started", {}, 0, news.wall_ms, which);
    message.text = format("run {} of {} has started", run_, workflow_);
    return message;
  }
  if (news.kind == "failed") {
    Message message = make("stage_failed", news.stage, news.attempt, news.wall_ms, which);
    message.text = format("run {}: stage {} failed: {}", run_, news.stage, with_reason(news.cause, news.reason));
    return message;
  }
  if (news.kind == "retry" || news.kind == "requeued") {
    Message message = make("stage_retried", news.stage, news.attempt, news.wall_ms, which);
    message.text = format("run {}: stage {} is tried again after attempt {}: {}", run_, news.stage, news.attempt,
                          with_reason(news.cause, news.reason));
    return message;
  }
  if (news.kind == "run_ended") {
    Message message = make("run_completed", {}, 0, news.wall_ms, which);
    message.text = format("run {} of {} has ended: {}", run_, workflow_, news.state);
    return message;
  }
  return std::nullopt;
}

Message MessageMaker::no_progress(const std::string& stage, int attempt, double silent_s, double done,
                                  std::int64_t wall_ms) const {
  Message message = make("no_progress", stage, attempt, wall_ms, format("{}.{}", attempt, done));
  message.text = format("run {}: stage {} has shown no progress for {}", run_, stage, human_duration(silent_s));
  return message;
}

Message MessageMaker::held_up(const std::string& stage, int attempt, const std::string& cause,
                              const std::string& advice, std::int64_t since_ms, std::int64_t wall_ms) const {
  Message message = make("stage_held_up", stage, attempt, wall_ms, format("{}.{}.{}", attempt, since_ms, cause));
  message.text = format("run {}: stage {} gets no further for {}: {}", run_, stage,
                        human_duration(static_cast<double>(wall_ms - since_ms) * 1e-3), with_reason(cause, advice));
  return message;
}

Value message_to_value(const Message& message) {
  Value value = Value::make_table();
  value.set("file", "longhaul message");
  value.set("format", 1);
  value.set("id", message.id);
  value.set("event", message.event);
  value.set("run", message.run);
  value.set("workflow", message.workflow);
  value.set("run_dir", message.run_dir);
  value.set("stage", message.stage);
  value.set("attempt", message.attempt);
  value.set("text", message.text);
  value.set("time", utc_text(message.wall_ms));
  value.set("ms", static_cast<long long>(message.wall_ms));
  return value;
}

Message message_from_value(const Value& value) {
  Message message;
  message.id = value.get_string("id");
  message.event = value.get_string("event");
  message.run = value.get_string("run");
  message.workflow = value.get_string("workflow");
  message.run_dir = value.get_string("run_dir");
  message.stage = value.get_string("stage");
  message.attempt = static_cast<int>(value.get_integer("attempt"));
  message.text = value.get_string("text");
  message.wall_ms = value.get_integer("ms");
  return message;
}

}  // namespace longhaul
