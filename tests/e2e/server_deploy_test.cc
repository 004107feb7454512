// The deploy stage against the server program over a fake model: healthy, asked, left running or stopped, never
// orphaned.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>

#include "base/files/files.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/infer/http/http_client.h"
#include "engine/infer/serve/deploy.h"

namespace longhaul {
namespace {

struct DeployBench {
  DeployBench() {
    char name[] = "/tmp/longhaul-deploy-XXXXXX";
    folder = ::mkdtemp(name);
    inputs = {LONGHAUL_SERVER_PROGRAM, "echo", "tiny", folder + "/out", folder + "/state", 1};
    REQUIRE(make_directories(inputs.output_dir).ok());
    settings.prompts = {"first", "second"};
  }
  ~DeployBench() {
    if (file_exists(inputs.output_dir + "/endpoint.json")) (void)stop();
    (void)remove_tree(folder);
  }
  Result<Value> deploy() {
    EventWriter events(clock, folder + "/events.jsonl", 0);
    return deploy_model(inputs, settings, clock, events, stop_asked);
  }
  Value json(const std::string& path) const { return parse_json(read_file(path).value()).value(); }
  Value endpoint() const { return json(inputs.output_dir + "/endpoint.json"); }
  ProcessId supervisor() const {
    const Value value = json(inputs.state_dir + "/server/supervisor.json");
    return {static_cast<pid_t>(value.get_integer("pid")), static_cast<std::uint64_t>(value.get_integer("start_ticks"))};
  }
  HttpTarget target() const {
    const std::string url = endpoint().get_string("url");
    return {"127.0.0.1", std::atoi(url.substr(url.rfind(':') + 1).c_str()),
            trim(read_file(endpoint().get_string("token_file")).value())};
  }
  Result<RunOutput> stop() const {
    return run_program({LONGHAUL_SERVER_PROGRAM, "stop-server", "--endpoint", inputs.output_dir + "/endpoint.json"},
                       60'000);
  }

  SystemClock clock;
  std::atomic<bool> stop_asked{false};
  std::string folder;
  DeployInputs inputs;
  DeploySettings settings;
};

}  // namespace

TEST_CASE("deploy asks its prompts and stops the server") {
  DeployBench bench;
  const auto figures = bench.deploy();
  REQUIRE_MESSAGE(figures.ok(), (figures.ok() ? "" : figures.error().message()));
  const Value samples = bench.json(bench.inputs.output_dir + "/samples.json");
  REQUIRE(samples.size() == 2);
  CHECK(samples.as_array()[1].get_string("text") == "second");
  CHECK_FALSE(process_alive(bench.supervisor()));
  std::uint64_t offset = 0;
  int asked = 0, endpoints = 0;
  const auto events = read_events(bench.folder + "/events.jsonl", offset);
  REQUIRE(events.ok());
  for (const Event& event : *events) {
    asked += event.kind == "sample";
    endpoints += event.kind == "endpoint";
  }
  CHECK(asked == 2);
  CHECK(endpoints == 0);
}

TEST_CASE("a server that is left running answers, survives the death of its process, and is stopped by its endpoint") {
  DeployBench bench;
  bench.settings.leave_running = true;
  REQUIRE(bench.deploy().ok());
  const std::string body = R"({"prompt": "hello", "temperature": 0})";
  CHECK(http_post_json(bench.target(), "/v1/completions", body, 5'000)->status == 200);
  HttpTarget stranger = bench.target();
  stranger.token = "guess";
  CHECK(http_post_json(stranger, "/v1/completions", body, 5'000)->status == 401);
  struct stat info{};
  REQUIRE(::stat(bench.endpoint().get_string("token_file").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  // Neither the artifact nor the log holds the token.
  CHECK(to_json(bench.endpoint()).find(bench.target().token) == std::string::npos);
  CHECK(read_file(bench.endpoint().get_string("log"))->find(bench.target().token) == std::string::npos);

  const auto before =
      static_cast<pid_t>(bench.json(bench.endpoint().get_string("status_file")).get_integer("server_pid"));
  ::kill(before, SIGKILL);
  int status = 0;
  for (int i = 0; i < 200 && status != 200; ++i) {
    const auto reply = http_post_json(bench.target(), "/v1/completions", body, 5'000);
    status = reply ? reply->status : 0;
    if (status != 200) ::usleep(50'000);
  }
  CHECK(status == 200);

  const auto stopped = bench.stop();
  REQUIRE(stopped.ok());
  CHECK(stopped->status.success());
  CHECK_FALSE(process_alive(bench.supervisor()));
  CHECK(bench.stop()->out.find("does not run") != std::string::npos);
}

TEST_CASE("a second attempt replaces the server of the first") {
  DeployBench bench;
  bench.settings.leave_running = true;
  REQUIRE(bench.deploy().ok());
  const ProcessId first = bench.supervisor();
  REQUIRE(bench.deploy().ok());
  CHECK_FALSE(process_alive(first));
  CHECK(process_alive(bench.supervisor()));
}

TEST_CASE("a model that cannot be loaded fails the stage with the server's own words, and leaves nothing behind") {
  DeployBench bench;
  bench.inputs.model_folder = "missing";
  const auto figures = bench.deploy();
  REQUIRE_FALSE(figures.ok());
  CHECK(figures.error().what.find("no such model") != std::string::npos);
  CHECK_FALSE(process_alive(bench.supervisor()));
  CHECK_FALSE(file_exists(bench.inputs.output_dir + "/endpoint.json"));
}

TEST_CASE("answers to a stage's own prompts end where the model's context does, with a chat form and without") {
  for (const char* model : {"narrow", "narrow-plain"}) {
    CAPTURE(model);
    DeployBench bench;
    bench.inputs.model_folder = model;
    REQUIRE(bench.settings.max_tokens > 24);
    bench.settings.prompts = {"short", "forever and ever"};
    const auto figures = bench.deploy();
    REQUIRE_MESSAGE(figures.ok(), (figures.ok() ? "" : figures.error().message()));
    const Value samples = bench.json(bench.inputs.output_dir + "/samples.json");
    CHECK(samples.as_array()[0].get_string("text") == "short");
    CHECK(samples.as_array()[1].get_string("text").size() == 24 - bench.settings.prompts[1].size());
    // A prompt that is too long itself is refused, and no other try would take it.
    bench.settings.prompts = {"twenty-four letters long"};
    const auto refused = bench.deploy();
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::invalid_input);
    CHECK_MESSAGE(refused.error().message().find("24") != std::string::npos, refused.error().message());
  }
}

TEST_CASE("asked to stop, it stops the server too") {
  DeployBench bench;
  bench.stop_asked = true;
  const auto figures = bench.deploy();
  REQUIRE_FALSE(figures.ok());
  CHECK(figures.error().code == ErrorCode::aborted);
  CHECK_FALSE(process_alive(bench.supervisor()));
}

TEST_CASE("a port that is taken, and a host without token, are refused") {
  DeployBench bench;
  bench.settings.host = "0.0.0.0";
  bench.settings.require_token = false;
  CHECK(bench.deploy().error().code == ErrorCode::invalid_input);
  DeployBench holder, other;
  holder.settings.leave_running = true;
  REQUIRE(holder.deploy().ok());
  other.settings.port = holder.target().port;
  const auto refused = other.deploy();
  REQUIRE_FALSE(refused.ok());
  CHECK_MESSAGE(refused.error().what.find("cannot listen") != std::string::npos, refused.error().message());
}

}  // namespace longhaul
