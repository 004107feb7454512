#include "orchestrator/notify/outbox.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <set>
#include <thread>

#include "base/files/files.h"
#include "base/value/json.h"

using namespace longhaul;

namespace {

struct NotifyFolder {
  std::string path;
  NotifyFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "longhaul-notify-XXXXXX").string();
    path = ::mkdtemp(name.data());
  }
  ~NotifyFolder() { std::filesystem::remove_all(path); }
};

NotifyConfig notify_config_by_env() {
  NotifyConfig config;
  config.url_env = "HOOK";
  config.tries = 3;
  return config;
}

Environment hook_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    if (name == "HOOK") return "https://hooks.example.org/services/very-secret";
    return std::nullopt;
  };
}

Message some_message(const std::string& id, std::int64_t ms = 1) {
  Message message;
  message.id = id;
  message.event = "stage_failed";
  message.run = "r";
  message.text = "it <failed> & ended";
  message.wall_ms = ms;
  return message;
}

RunNews news_of(const std::string& kind, const std::string& stage = {}, int attempt = 0) {
  RunNews news;
  news.kind = kind;
  news.stage = stage;
  news.attempt = attempt;
  news.cause = "exit code 3: HF_TOKEN=abc123xyz";
  news.state = "succeeded";
  return news;
}

}  // namespace

TEST_CASE("messages: facts become news once, with ids that another controller finds again") {
  const std::vector<RunNews> facts = {news_of("epoch"),          news_of("ready", "a"),     news_of("retry", "a", 1),
                                      news_of("epoch"),          news_of("failed", "a", 2), news_of("run_ended"),
                                      news_of("failed", "a", 2), news_of("run_ended")};
  std::vector<std::string> events;
  std::set<std::string> ids;
  MessageMaker one("run-1", "wf", "/runs/run-1"), two("run-1", "wf", "/runs/run-1"),
      other("run-2", "wf", "/runs/run-2");
  for (const RunNews& fact : facts) {
    const auto message = one.take(fact), same = two.take(fact), foreign = other.take(fact);
    REQUIRE(message.has_value() == same.has_value());
    if (!message) continue;
    CHECK(message->id == same->id);
    CHECK(message->id != foreign->id);
    CHECK(message->text.find("abc123xyz") == std::string::npos);
    events.push_back(message->event);
    ids.insert(message->id);
  }
  CHECK(events == std::vector<std::string>{"run_started", "stage_retried", "stage_failed", "run_completed",
                                           "stage_failed", "run_completed"});
  CHECK(ids.size() == events.size());
  CHECK(one.no_progress("a", 1, 60, 5, 0).id == two.no_progress("a", 1, 90, 5, 9).id);
  CHECK(one.no_progress("a", 1, 60, 5, 0).id != one.no_progress("a", 1, 60, 6, 0).id);
  // What holds a stage up is reported once for each time and cause, however often it is looked at.
  const Message held_up = one.held_up("a", 1, "QOSMaxSubmitJobPerUserLimit", "it passes", 1'000, 661'000);
  CHECK(held_up.event == "stage_held_up");
  CHECK(held_up.id == two.held_up("a", 1, "QOSMaxSubmitJobPerUserLimit", "it passes", 1'000, 999'000).id);
  CHECK(held_up.id != one.held_up("a", 1, "QOSMaxSubmitJobPerUserLimit", "it passes", 2'000, 661'000).id);
  CHECK(held_up.text.find("for 11m 00s: QOSMaxSubmitJobPerUserLimit\nit passes") != std::string::npos);
}

TEST_CASE("notify config: what contradicts itself is refused") {
  Diagnostics diagnostics;
  NotifyConfig config = notify_config_by_env();
  check_notify(config, {}, diagnostics);
  CHECK(diagnostics.empty());
  config.url_file = "/f";
  config.events = {"run_startd"};
  check_notify(config, {}, diagnostics);
  CHECK(diagnostics.size() == 2);
}

TEST_CASE("secret: only from a file that nobody else may read, or from the variable that is named") {
  const NotifyFolder folder;
  const std::string path = join_path(folder.path, "url");
  REQUIRE(write_file_atomic(path, "https://h/very-secret\n", 0644).ok());
  auto secret = read_secret("the address", path, "", hook_environment());
  REQUIRE(!secret.ok());
  CHECK(secret.error().message().find("chmod 600") != std::string::npos);
  CHECK(secret.error().message().find("very-secret") == std::string::npos);
  for (const unsigned mode : {0640U, 0604U, 0610U}) {
    ::chmod(path.c_str(), mode);
    CHECK(!read_secret("the address", path, "", hook_environment()).ok());
  }
  ::chmod(path.c_str(), 0600);
  secret = read_secret("the address", path, "", hook_environment());
  REQUIRE(secret.ok());
  CHECK(*secret == "https://h/very-secret");
  CHECK(read_secret("the address", "", "HOOK", hook_environment()).ok());
  CHECK(read_secret("the address", "", "ABSENT", hook_environment()).error().code == ErrorCode::not_found);
  CHECK(!read_secret("the address", folder.path, "", hook_environment()).ok());
  REQUIRE(write_file_atomic(path, "two words", 0600).ok());
  CHECK(!read_secret("the address", path, "", hook_environment()).ok());
}

TEST_CASE("outbox: what fails is tried again with pauses, what is refused is kept and said") {
  const NotifyFolder folder;
  ManualClock clock;
  std::vector<std::string> posted;
  std::vector<HttpAnswer> answers = {{500, 0}, {200, 0}};
  DeliveryOptions options;
  options.wait = true;
  options.deadline_ms = 60'000;
  options.poster = [&](const HttpPost& post) -> Result<HttpAnswer> {
    CHECK(post.url == "https://hooks.example.org/services/very-secret");
    posted.push_back(post.body);
    if (answers.empty()) return make_error(ErrorCode::unavailable, "no answer");
    const HttpAnswer answer = answers.front();
    answers.erase(answers.begin());
    return answer;
  };
  REQUIRE(post_message(folder.path, some_message("m1")).ok());
  REQUIRE(post_message(folder.path, some_message("m1")).ok());
  auto report = deliver_outbox(folder.path, notify_config_by_env(), hook_environment(), clock, options);
  REQUIRE(report.ok());
  CHECK(report->sent == 1);
  CHECK(report->waiting == 0);
  CHECK(posted.size() == 2);
  REQUIRE(post_message(folder.path, some_message("m1")).ok());  // a second controller
  CHECK(deliver_outbox(folder.path, notify_config_by_env(), hook_environment(), clock, options)->sent == 0);
  CHECK(posted.size() == 2);

  posted.clear();
  answers = {{404, 0}};
  REQUIRE(post_message(folder.path, some_message("m2")).ok());
  report = deliver_outbox(folder.path, notify_config_by_env(), hook_environment(), clock, options);
  CHECK(posted.size() == 1);  // a refusal is not repeated
  CHECK(report->given_up == 1);
  CHECK(report->problem.find("404") != std::string::npos);
  CHECK(outbox_backlog(folder.path).given_up == 1);
  answers = {{200, 0}};
  options.again = true;
  CHECK(deliver_outbox(folder.path, notify_config_by_env(), hook_environment(), clock, options)->sent == 1);
  CHECK(outbox_backlog(folder.path).given_up == 0);

  posted.clear();
  options.again = false;
  REQUIRE(post_message(folder.path, some_message("m3")).ok());
  report = deliver_outbox(folder.path, notify_config_by_env(), hook_environment(), clock, options);
  CHECK(posted.size() == 3);  // tries = 3
  CHECK(report->given_up == 1);
  std::string everything;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path))
    if (entry.is_regular_file()) everything += read_file(entry.path().string()).value();
  CHECK(everything.find("very-secret") == std::string::npos);
}

TEST_CASE("outbox: a message left again after it was sent goes no second time") {
  const NotifyFolder folder;
  ManualClock clock;
  int posts = 0;
  DeliveryOptions options;
  options.poster = [&](const HttpPost&) -> Result<HttpAnswer> { return ++posts, HttpAnswer{200, 0}; };
  REQUIRE(post_message(folder.path, some_message("m")).ok());
  REQUIRE(deliver_outbox(folder.path, notify_config_by_env(), hook_environment(), clock, options).ok());
  // A controller that looked before the delivery and writes after it.
  REQUIRE(write_file_atomic(join_path(folder.path, "notify/outbox/m.json"),
                            to_json_pretty(message_to_value(some_message("m"))))
              .ok());
  REQUIRE(deliver_outbox(folder.path, notify_config_by_env(), hook_environment(), clock, options).ok());
  CHECK(posts == 1);
  CHECK(outbox_backlog(folder.path).waiting == 0);
}

TEST_CASE("outbox: while it is not known whether a message was sent, none goes, and none is left twice") {
  const NotifyFolder folder;
  REQUIRE(post_message(folder.path, some_message("m1")).ok());
  REQUIRE(post_message(folder.path, some_message("held")).ok());
  const std::string held = join_path(folder.path, "notify/sending/held.json");
  REQUIRE(::rename(join_path(folder.path, "notify/outbox/held.json").c_str(), held.c_str()) == 0);
  const timespec old[2] = {{1'000'000'000, 0}, {1'000'000'000, 0}};
  REQUIRE(::utimensat(AT_FDCWD, held.c_str(), old, 0) == 0);
  // A link to itself: every question below it is answered by an error.
  const std::string sent = join_path(folder.path, "notify/sent");
  REQUIRE(::rmdir(sent.c_str()) == 0);
  REQUIRE(::symlink(sent.c_str(), sent.c_str()) == 0);
  int posts = 0;
  DeliveryOptions options;
  options.poster = [&](const HttpPost&) -> Result<HttpAnswer> { return ++posts, HttpAnswer{204, 0}; };
  SystemClock clock;
  (void)deliver_outbox(folder.path, notify_config_by_env(), hook_environment(), clock, options).ok();
  CHECK(posts == 0);
  CHECK(file_exists(join_path(folder.path, "notify/outbox/m1.json")));
  CHECK(file_exists(held));
  CHECK(!post_message(folder.path, some_message("m2")).ok());
  CHECK(!file_exists(join_path(folder.path, "notify/outbox/m2.json")));
  REQUIRE(::unlink(sent.c_str()) == 0);
  REQUIRE(::mkdir(sent.c_str(), 0755) == 0);
  CHECK(deliver_outbox(folder.path, notify_config_by_env(), hook_environment(), clock, options)->sent == 2);
  CHECK(posts == 2);
}

TEST_CASE("outbox: senders at the same time share the messages, and an abandoned one is taken back") {
  const NotifyFolder folder;
  constexpr int messages = 40;
  for (int i = 0; i < messages; ++i) REQUIRE(post_message(folder.path, some_message("m" + std::to_string(i), i)).ok());
  std::atomic<int> posts = 0;
  DeliveryOptions options;
  options.poster = [&](const HttpPost&) -> Result<HttpAnswer> { return ++posts, HttpAnswer{204, 0}; };
  std::vector<std::thread> senders;
  for (int i = 0; i < 4; ++i)
    senders.emplace_back([&] {
      SystemClock clock;
      (void)deliver_outbox(folder.path, notify_config_by_env(), hook_environment(), clock, options).ok();
    });
  for (std::thread& sender : senders) sender.join();
  CHECK(posts.load() == messages);
  CHECK(list_directory(join_path(folder.path, "notify/sent"))->size() == messages);

  SystemClock clock;
  REQUIRE(post_message(folder.path, some_message("late")).ok());
  const std::string held = join_path(folder.path, "notify/sending/late.json");
  REQUIRE(::rename(join_path(folder.path, "notify/outbox/late.json").c_str(), held.c_str()) == 0);
  CHECK(deliver_outbox(folder.path, notify_config_by_env(), hook_environment(), clock, options)->sent == 0);
  const timespec old[2] = {{1'000'000'000, 0}, {1'000'000'000, 0}};
  REQUIRE(::utimensat(AT_FDCWD, held.c_str(), old, 0) == 0);
  CHECK(deliver_outbox(folder.path, notify_config_by_env(), hook_environment(), clock, options)->sent == 1);
}

TEST_CASE("http: an address in the clear is refused before anything is sent, and not repeated in the error") {
  for (const char* url : {"http://example.org/very-secret", "ftp://example.org/very-secret", "very-secret", "",
                          "file:///etc/very-secret", "http://127.0.0.1.example.org/very-secret"}) {
    CAPTURE(url);
    const auto answer = http_post({.url = url, .body = "x", .headers = {}, .ca_file = {}, .timeout_s = 1});
    REQUIRE(!answer.ok());
    CHECK(answer.error().code == ErrorCode::invalid_input);
    CHECK(answer.error().message().find("very-secret") == std::string::npos);
  }
}
TEST_CASE("trust: a port of this machine, which anybody may hold, gets no message; a socket of one's own does") {
  for (const char* url :
       {"http://localhost:1/very-secret", "http://127.0.0.1:1/very-secret", "http://[::1]:1/very-secret",
        "http+unix://relative/very-secret", "http+unix:///very-secret", "http+unix://%2Fetc%2Fpasswd/x"}) {
    CAPTURE(url);
    const auto answer = http_post({.url = url, .body = "x", .headers = {}, .ca_file = {}, .timeout_s = 1});
    REQUIRE(!answer.ok());
    CHECK(answer.error().code == ErrorCode::invalid_input);
    CHECK(answer.error().message().find("very-secret") == std::string::npos);
  }
}
