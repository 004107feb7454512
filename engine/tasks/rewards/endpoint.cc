#include "engine/tasks/rewards/endpoint.h"

#include <algorithm>

#include "base/http/http_post.h"
#include "base/system/clock.h"
#include "base/text/text.h"
#include "base/text/visible_text.h"
#include "base/value/json.h"

namespace longhaul {

namespace {

constexpr std::size_t answer_bytes_max = 16 << 20;
constexpr std::size_t shown_answer_bytes = 80;  // in messages
constexpr std::int64_t retry_wait_ms = 500;     // where the endpoint names no time
constexpr int status_busy = 503;

Result<HttpAnswer> post_twice(const std::string& url, std::int64_t deadline_s, const std::string& body) {
  SystemClock clock;
  const Deadline deadline(clock, deadline_s * 1000);
  HttpPost post;
  post.url = url, post.body = body;
  post.headers = {{"Content-Type", "application/json"}};
  post.plain = true, post.answer_max = answer_bytes_max;
  post.receiver = "endpoint", post.trust_hint = "its certificate has to be one that this machine trusts";
  for (bool again = false;; again = true) {
    post.timeout_s = static_cast<double>(deadline.left_ms()) * 1e-3;
    auto answer = http_post(post);
    const bool busy = answer.ok() ? answer->status == status_busy : answer.error().code == ErrorCode::unavailable;
    const double asked_ms = answer.ok() ? std::min(answer->retry_after_s, 1e6) * 1000 : 0;
    const std::int64_t wait_ms = std::max(retry_wait_ms, static_cast<std::int64_t>(asked_ms));
    if (again || !busy || wait_ms >= deadline.left_ms()) return answer;
    clock.sleep_ms(wait_ms);
  }
}

}  // namespace

Result<ValueArray> ask_endpoint(const std::string& url, std::int64_t deadline_s, Value items, const char* name) {
  const std::size_t count = items.size();
  Value body = Value::make_table();
  body.set("items", std::move(items));
  LH_TRY(const HttpAnswer answer, post_twice(url, deadline_s, to_json(body)));
  const auto shown = visible_line(std::string_view(answer.body).substr(0, shown_answer_bytes));
  const auto refuse = [](std::string what) { return make_error(ErrorCode::unavailable, std::move(what)); };
  if (answer.status / 100 != 2)
    return refuse(format("the endpoint answers with the status {}: {}", answer.status, shown));
  const Result<Value> parsed = parse_json(answer.body, "the endpoint's answer");
  if (!parsed.ok()) return refuse(format("the endpoint's answer is {} (what is missing is null)", parsed.error().what));
  const Value* list = parsed->find(name);
  if (list == nullptr || !list->is_array())
    return refuse(format("the endpoint's answer has no list \"{}\": {}", name, shown));
  if (list->size() != count) return refuse(format("the endpoint gives {} {} for {} items", list->size(), name, count));
  return list->as_array();
}

}  // namespace longhaul
