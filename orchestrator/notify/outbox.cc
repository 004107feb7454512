#include "orchestrator/notify/outbox.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "base/files/file_query.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "orchestrator/notify/message_format.h"

namespace longhaul {
namespace {

constexpr double first_pause_s = 2, longest_pause_s = 600;
constexpr std::int64_t longest_sleep_ms = 500;

std::string folder_of(const std::string& run_dir, const char* name) {
  return join_path(run_dir, std::string("notify/") + name);
}
std::string path_of(const std::string& run_dir, const char* folder, const std::string& id) {
  return join_path(folder_of(run_dir, folder), id + ".json");
}

// A message with what became of it so far.
struct Waiting {
  Message message;
  Value file;
  int tries = 0;
  std::int64_t next_ms = 0;  // not before
  bool given_up = false;
  std::string problem;
};

Result<Waiting> read_waiting(const std::string& path) {
  LH_TRY(const std::string text, read_file(path, 1 << 20));
  LH_TRY(Value file, parse_json(text, path));
  if (file.get_string("file") != "longhaul message" || file.get_string("id").empty())
    return make_error(ErrorCode::corrupt, path + " is not a message");
  Waiting waiting;
  waiting.message = message_from_value(file);
  if (const Value* delivery = file.find("delivery")) {
    waiting.tries = static_cast<int>(delivery->get_integer("tries"));
    waiting.next_ms = delivery->get_integer("next_ms");
    waiting.given_up = delivery->get_bool("given_up");
    waiting.problem = delivery->get_string("problem");
  }
  waiting.file = std::move(file);
  return waiting;
}

Status write_waiting(const std::string& path, Waiting waiting) {
  Value delivery = Value::make_table();
  delivery.set("tries", waiting.tries);
  delivery.set("next_ms", static_cast<long long>(waiting.next_ms));
  delivery.set("given_up", waiting.given_up);
  delivery.set("problem", waiting.problem);
  waiting.file.set("delivery", std::move(delivery));
  return write_file_atomic(path, to_json_pretty(waiting.file));
}

std::int64_t changed_ns(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return -1;
  return static_cast<std::int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec;
}

// What the file system's own clock says: ages of files are measured with it, never with the clock of one host.
Result<std::int64_t> file_system_now_ns(const std::string& folder) {
  const std::string path = join_path(folder, format(".now.{}", ::getpid()));
  LH_CHECK(write_file_atomic(path, "."));
  const std::int64_t now = changed_ns(path);
  (void)::unlink(path.c_str());
  return now;
}

// A sender that was killed leaves its message in sending/: back with it.
Status take_back_abandoned(const std::string& run_dir, double after_s) {
  const auto names = list_directory(folder_of(run_dir, "sending"));
  if (!names.ok() || names->empty()) return {};
  LH_TRY(const std::int64_t now, file_system_now_ns(folder_of(run_dir, "outbox")));
  for (const std::string& name : *names) {
    const std::string path = join_path(folder_of(run_dir, "sending"), name);
    const std::int64_t changed = changed_ns(path);
    if (changed < 0 || static_cast<double>(now - changed) * 1e-9 < after_s) continue;
    const auto sent = is_there(join_path(folder_of(run_dir, "sent"), name));
    if (!sent.ok()) continue;  // another time: it must not go twice
    if (*sent)
      (void)::unlink(path.c_str());
    else
      (void)::rename(path.c_str(), join_path(folder_of(run_dir, "outbox"), name).c_str());
  }
  return {};
}

// Ours now, or somebody else's. While it is not known whether it was sent it stays where it is.
bool take(const std::string& run_dir, const std::string& id) {
  const std::string from = path_of(run_dir, "outbox", id), to = path_of(run_dir, "sending", id);
  const auto sent = is_there(path_of(run_dir, "sent", id));
  if (sent.ok() && *sent) (void)::unlink(from.c_str());  // left again by a controller that came late
  if (!sent.ok() || *sent) return false;
  if (::link(from.c_str(), to.c_str()) != 0) return false;
  // link(2) looks `from` up before it makes `to`: in between, another sender may have taken, sent and put away the same
  // file. Then it is in sent/ by now, because `to` was free again.
  if (!is_surely_absent(path_of(run_dir, "sent", id))) {
    (void)::unlink(to.c_str());
    return false;
  }
  (void)::utimensat(AT_FDCWD, to.c_str(), nullptr, 0);  // its age counts from now
  (void)::unlink(from.c_str());
  return true;
}

class Delivery {
 public:
  Delivery(const std::string& run_dir, const NotifyConfig& config, const DeliveryOptions& options, Clock& clock,
           std::string url, std::string token)
      : run_dir_(run_dir),
        config_(config),
        options_(options),
        clock_(clock),
        deadline_(clock, options.deadline_ms),
        url_(std::move(url)),
        token_(std::move(token)),
        poster_(options.poster ? options.poster : http_post) {}

  Result<DeliveryReport> run() {
    for (;;) {
      std::int64_t next_ms = 0;
      LH_CHECK(send_due(next_ms));
      if (!options_.wait || next_ms == 0 || deadline_.passed()) break;
      clock_.sleep_ms(
          std::clamp<std::int64_t>(std::min(next_ms - clock_.wall_ms(), deadline_.left_ms()), 1, longest_sleep_ms));
    }
    DeliveryReport report = outbox_backlog(run_dir_);
    report.sent = sent_;
    if (!problem_.empty()) report.problem = problem_;
    return report;
  }

 private:
  // `next_ms`: when the next of those that stay is due, 0 if none is.
  Status send_due(std::int64_t& next_ms) {
    LH_CHECK(take_back_abandoned(run_dir_, 3 * config_.timeout.value + 60));
    LH_TRY(const auto names, list_directory(folder_of(run_dir_, "outbox")));
    std::vector<Waiting> due;
    for (const std::string& name : names) {
      if (!ends_with(name, ".json") || starts_with(name, ".")) continue;
      auto waiting = read_waiting(join_path(folder_of(run_dir_, "outbox"), name));
      if (!waiting.ok() || waiting->message.id + ".json" != name) continue;  // taken meanwhile, or not ours
      if (waiting->given_up && !(options_.again && waiting->tries > 0)) continue;
      if (waiting->given_up) waiting->given_up = false, waiting->tries = 0, waiting->next_ms = 0;
      due.push_back(std::move(waiting).value());
    }
    std::sort(due.begin(), due.end(), [](const Waiting& a, const Waiting& b) {
      return std::tie(a.message.wall_ms, a.message.id) < std::tie(b.message.wall_ms, b.message.id);
    });
    for (Waiting& waiting : due) {
      if (deadline_.passed() && tried_ > 0) break;
      if (waiting.next_ms <= clock_.wall_ms() && take(run_dir_, waiting.message.id)) LH_CHECK(send(waiting));
      if (waiting.next_ms > 0 && !waiting.given_up && (next_ms == 0 || waiting.next_ms < next_ms))
        next_ms = waiting.next_ms;
    }
    return {};
  }

  Status send(Waiting& waiting) {
    ++tried_;
    HttpPost post;
    post.url = url_;
    post.body = message_format(config_.format).body(waiting.message);
    post.headers = {{"Content-Type", "application/json"}, {"Idempotency-Key", waiting.message.id}};
    if (!token_.empty()) post.headers.emplace_back("Authorization", "Bearer " + token_);
    post.ca_file = config_.ca_file;
    post.timeout_s = std::min(config_.timeout.value, std::max(0.5, static_cast<double>(deadline_.left_ms()) * 1e-3));
    const auto answer = poster_(post);
    const std::string& id = waiting.message.id;
    const std::string held = path_of(run_dir_, "sending", id);
    if (answer.ok() && answer->status >= 200 && answer->status < 300) {
      LH_CHECK(make_directories(folder_of(run_dir_, "sent")));
      if (::rename(held.c_str(), path_of(run_dir_, "sent", id).c_str()) != 0)
        return errno_error(ErrorCode::io, "cannot move a sent message", errno);
      ++sent_;
      waiting.next_ms = 0;
      return {};
    }
    ++waiting.tries;
    const bool passing = answer.ok() ? answer->status >= 500 || answer->status == 408 || answer->status == 429
                                     : answer.error().code == ErrorCode::unavailable;
    waiting.problem =
        answer.ok() ? format("the webhook answered with status {}", answer->status) : answer.error().message();
    waiting.given_up = !passing || waiting.tries >= config_.tries;
    const double asked_s = answer.ok() ? answer->retry_after_s : 0;
    const double pause_s = std::min(longest_pause_s, first_pause_s * std::pow(2.0, waiting.tries - 1));
    waiting.next_ms = clock_.wall_ms() + static_cast<std::int64_t>(1000 * std::max(pause_s, std::min(asked_s, 3600.0)));
    problem_ = waiting.problem;
    LH_CHECK(write_waiting(held, waiting));
    if (::rename(held.c_str(), path_of(run_dir_, "outbox", id).c_str()) != 0)
      return errno_error(ErrorCode::io, "cannot put a message back", errno);
    return {};
  }

  const std::string& run_dir_;
  const NotifyConfig& config_;
  const DeliveryOptions& options_;
  Clock& clock_;
  Deadline deadline_;
  std::string url_, token_;
  Poster poster_;
  int sent_ = 0, tried_ = 0;
  std::string problem_;
};

}  // namespace

Status post_message(const std::string& run_dir, const Message& message) {
  for (const char* folder : {"sent", "sending", "outbox"}) {
    LH_TRY(const bool left, is_there(path_of(run_dir, folder, message.id)));
    if (left) return {};
  }
  for (const char* folder : {"outbox", "sending", "sent"}) LH_CHECK(make_directories(folder_of(run_dir, folder)));
  const Status created =
      create_file_exclusive(path_of(run_dir, "outbox", message.id), to_json_pretty(message_to_value(message)));
  if (!created.ok() && created.error().code != ErrorCode::conflict) return created;
  return {};
}

Result<DeliveryReport> deliver_outbox(const std::string& run_dir, const NotifyConfig& config,
                                      const Environment& environment, Clock& clock, const DeliveryOptions& options) {
  const DeliveryReport backlog = outbox_backlog(run_dir);
  if (backlog.waiting == 0 && (backlog.given_up == 0 || !options.again)) return backlog;
  if (!config.enabled())
    return make_error(ErrorCode::invalid_input, "the site names no webhook", "set notify.url_file or notify.url_env");
  LH_TRY(const std::string url, read_secret("the webhook's address", config.url_file, config.url_env, environment));
  LH_TRY(const std::string token, read_secret("the webhook's token", config.token_file, config.token_env, environment));
  return Delivery(run_dir, config, options, clock, url, token).run();
}

DeliveryReport outbox_backlog(const std::string& run_dir) {
  DeliveryReport report;
  for (const char* folder : {"outbox", "sending"}) {
    const auto names = list_directory(folder_of(run_dir, folder));
    if (!names.ok()) continue;
    for (const std::string& name : *names) {
      if (!ends_with(name, ".json")) continue;
      const auto waiting = read_waiting(join_path(folder_of(run_dir, folder), name));
      if (!waiting.ok()) continue;
      ++(waiting->given_up ? report.given_up : report.waiting);
      if (!waiting->problem.empty()) report.problem = waiting->problem;
    }
  }
  return report;
}

}  // namespace longhaul
