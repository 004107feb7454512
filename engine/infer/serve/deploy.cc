#include "engine/infer/serve/deploy.h"

#include <unistd.h>

#include <algorithm>

#include "base/files/files.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/infer/http/http_client.h"
#include "engine/infer/serve/serve.h"
#include "engine/infer/serve/supervisor.h"

namespace longhaul {
namespace {

constexpr std::int64_t address_deadline_ms = 30'000;
constexpr std::int64_t healthy_deadline_ms = 600'000;
constexpr std::int64_t stop_deadline_ms = 45'000;

struct Paths {
  explicit Paths(const std::string& state_dir)
      : folder(join_path(state_dir, "server")),
        token(join_path(folder, "token")),
        address(join_path(folder, "address.json")),
        status(join_path(folder, "status.json")),
        log(join_path(folder, "server.log")),
        supervisor(join_path(folder, "supervisor.json")) {}
  std::string folder, token, address, status, log, supervisor;
};

// The server of this stage; stops it when the stage fails.
class RunningServer {
 public:
  RunningServer(const Clock& clock, ProcessId process) : clock_(clock), process_(process) {}
  ~RunningServer() {
    if (!left_) stop();
  }
  RunningServer(const RunningServer&) = delete;
  RunningServer& operator=(const RunningServer&) = delete;
  const ProcessId& process() const { return process_; }
  void leave() { left_ = true; }
  bool stop() {
    left_ = true;
    return end_process(clock_, process_, stop_deadline_ms);
  }

 private:
  const Clock& clock_;
  ProcessId process_;
  bool left_ = false;
};

// An earlier attempt of this stage may have left one.
void stop_earlier(const Clock& clock, const Paths& paths) {
  const auto text = read_file(paths.supervisor, 1 << 16);
  const auto value = text ? parse_json(*text) : Result<Value>(text.error());
  if (!value) return;
  const ProcessId process{static_cast<pid_t>(value->get_integer("pid", -1)),
                          static_cast<std::uint64_t>(value->get_integer("start_ticks"))};
  if (value->get_string("host") == host_name() && process.pid > 1 && process_alive(process)) {
    end_process(clock, process, stop_deadline_ms);
  }
}

std::vector<std::string> command_of(const DeployInputs& in, const DeploySettings& s, const std::string& name,
                                    const Paths& paths) {
  std::vector<std::string> argv = {in.program,
                                   "serve",
                                   "--supervised",
                                   "--model",
                                   in.model_folder,
                                   "--model-name",
                                   name,
                                   "--host",
                                   s.host,
                                   "--port",
                                   std::to_string(s.port),
                                   "--precision",
                                   s.precision,
                                   "--device",
                                   s.device == "gpu" ? "gpu" : "cpu",
                                   "--slots",
                                   std::to_string(s.slots),
                                   "--queue-max",
                                   std::to_string(s.queue_max),
                                   "--max-tokens",
                                   std::to_string(s.max_tokens),
                                   "--threads",
                                   std::to_string(in.threads),
                                   "--body-max",
                                   format("{}B", s.body_max.value),
                                   "--header-deadline",
                                   format("{}ms", static_cast<std::int64_t>(s.header_deadline.value * 1000)),
                                   "--request-deadline",
                                   format("{}ms", static_cast<std::int64_t>(s.request_deadline.value * 1000)),
                                   "--address-file",
                                   paths.address,
                                   "--status-file",
                                   paths.status};
  if (s.require_token) {
    argv.insert(argv.end(), {"--token-file", paths.token});
  } else {
    argv.push_back("--no-token");
  }
  return argv;
}

std::string log_tail(const Paths& paths) {
  const auto text = read_file(paths.log, 64 << 20);
  if (!text) return "";
  const std::string& all = *text;
  std::string error;  // the server's own, before what its supervisor says of it
  for (const std::string& line : split(all, '\n'))
    if (line.find("error") != std::string::npos && line.find(" supervisor ") == std::string::npos) error = trim(line);
  if (!error.empty()) return error;
  const std::size_t from = all.size() > 600 ? all.find('\n', all.size() - 600) + 1 : 0;
  return trim(all.substr(from));
}

Status check_alive(const RunningServer& server, const Paths& paths, const std::atomic<bool>& stop) {
  if (stop) return make_error(ErrorCode::aborted, "asked to stop");
  if (process_alive(server.process())) return {};
  return make_error(ErrorCode::unavailable, "the server ended: " + log_tail(paths), "its whole log is " + paths.log);
}

Result<HttpTarget> wait_healthy(const Clock& clock, const RunningServer& server, const Paths& paths,
                                const DeploySettings& s, const std::atomic<bool>& stop) {
  const Deadline addressed(clock, address_deadline_ms);
  while (!file_exists(paths.address)) {
    LH_CHECK(check_alive(server, paths, stop));
    if (addressed.passed())
      return make_error(ErrorCode::timeout, "the server gave no address in 30 s; its log is " + paths.log);
    ::usleep(20'000);
  }
  LH_TRY(const std::string text, read_file(paths.address));
  LH_TRY(const Value address, parse_json(text, paths.address));
  HttpTarget target;
  target.host = s.host == "0.0.0.0" ? "127.0.0.1" : (s.host == "::" ? "::1" : s.host);
  target.port = static_cast<int>(address.get_integer("port"));
  if (s.require_token) {
    LH_TRY(target.token, read_token_file(paths.token));
  }
  const Deadline healthy(clock, healthy_deadline_ms);
  while (true) {
    LH_CHECK(check_alive(server, paths, stop));
    const auto reply = http_get(target, "/health", 5'000);
    if (reply && reply->status == 200) return target;
    if (healthy.passed()) {
      return make_error(ErrorCode::timeout, format("the server was not healthy within {} s: {}",
                                                   healthy_deadline_ms / 1000, log_tail(paths)));
    }
    ::usleep(50'000);
  }
}

struct PromptAnswer {
  std::string prompt, text, path;
  std::int64_t tokens = 0;
};

// A prompt that the server refuses is refused at every try.
Error refused_prompt(const HttpReply& reply) {
  const bool for_good = reply.status >= 400 && reply.status < 500;
  return make_error(for_good ? ErrorCode::invalid_input : ErrorCode::unavailable,
                    format("the server answered {} to a prompt: {}", reply.status, trim(reply.body)));
}

// The longest answer to a prompt that the context has room for: /v1/completions gives 16 tokens to whom names no
// length, and takes no more than there is room for. The prompt alone is read for it.
Result<std::int64_t> room_for_answer(const HttpTarget& target, const std::string& prompt, std::int64_t deadline_ms) {
  Value body;
  body.set("prompt", prompt);
  body.set("max_tokens", 0);
  LH_TRY(const HttpReply reply, http_post_json(target, "/v1/completions", to_json(body), deadline_ms));
  if (reply.status != 200) return refused_prompt(reply);
  LH_TRY(const Value read, parse_json(reply.body, "the server's answer"));
  LH_TRY(const HttpReply listed, http_get(target, "/v1/models", deadline_ms));
  LH_TRY(const Value models, parse_json(listed.body, "the server's list of models"));
  const Value* data = models.find("data");
  const Value* usage = read.find("usage");
  if (data == nullptr || !data->is_array() || data->size() == 0 || usage == nullptr)
    return make_error(ErrorCode::internal, "the server does not say how long its context is");
  const std::int64_t context = data->as_array()[0].get_integer("max_model_len");
  const std::int64_t prompt_tokens = usage->get_integer("prompt_tokens");
  if (prompt_tokens < context) return context - prompt_tokens;
  return make_error(
      ErrorCode::invalid_input,
      format("a prompt of {} tokens leaves no room for an answer in the model's context of {}", prompt_tokens, context),
      format("shorten it to {} tokens or fewer: {}", context - 1, prompt));
}

// As chat; as a completion where the model has no chat form. Without a length of its own a chat's answer takes what the
// prompt leaves of the context, up to the server's longest.
Result<PromptAnswer> ask(const HttpTarget& target, const DeploySettings& s, const std::string& prompt) {
  Value message;
  message.set("role", "user");
  message.set("content", prompt);
  Value body;
  body.set("messages", ValueArray{std::move(message)});
  body.set("temperature", 0);
  PromptAnswer answer{prompt, "", "/v1/chat/completions", 0};
  const std::int64_t deadline_ms = static_cast<std::int64_t>(s.request_deadline.value * 1000) + 5'000;
  LH_TRY(HttpReply reply, http_post_json(target, answer.path, to_json(body), deadline_ms));
  if (reply.status == 400 && reply.body.find("no chat form") != std::string::npos) {
    LH_TRY(const std::int64_t room, room_for_answer(target, prompt, deadline_ms));
    body.erase("messages");
    body.set("prompt", prompt);
    body.set("max_tokens", std::min(s.max_tokens, room));
    answer.path = "/v1/completions";
    LH_TRY(reply, http_post_json(target, answer.path, to_json(body), deadline_ms));
  }
  if (reply.status != 200) return refused_prompt(reply);
  LH_TRY(const Value value, parse_json(reply.body, "the server's answer"));
  const Value* choices = value.find("choices");
  if (choices == nullptr || !choices->is_array() || choices->size() == 0) {
    return make_error(ErrorCode::internal, "the server's answer has no choice");
  }
  const Value& choice = choices->as_array()[0];
  const Value* said = choice.find("message");
  answer.text = said != nullptr ? said->get_string("content") : choice.get_string("text");
  if (const Value* usage = value.find("usage")) answer.tokens = usage->get_integer("completion_tokens");
  return answer;
}

Status write_endpoint(const DeployInputs& in, const DeploySettings& s, const std::string& name,
                      const HttpTarget& target, const RunningServer& server, const Paths& paths, EventWriter& events) {
  const std::string host = s.host == "0.0.0.0" || s.host == "::" ? host_name() : s.host;
  const std::string url =
      format("http://{}:{}", host.find(':') == std::string::npos ? host : "[" + host + "]", target.port);
  const std::string path = join_path(in.output_dir, "endpoint.json");
  Value endpoint;
  endpoint.set("url", url);
  endpoint.set("model", name);
  endpoint.set("token_file", s.require_token ? Value(paths.token) : Value());
  endpoint.set("left_running", s.leave_running);
  endpoint.set("supervisor_pid", static_cast<long>(server.process().pid));
  endpoint.set("supervisor_start_ticks", static_cast<std::int64_t>(server.process().start_ticks));
  endpoint.set("host_name", host_name());
  endpoint.set("status_file", paths.status);
  endpoint.set("log", paths.log);
  endpoint.set("stop", "longhaul-engine stop-server --endpoint endpoint.json");
  LH_CHECK(write_file_atomic(path, to_json_pretty(endpoint)));
  if (!s.leave_running) return {};
  Value fields;
  fields.set("url", url);
  fields.set("token_file", s.require_token ? paths.token : "");
  fields.set("pid", static_cast<long>(server.process().pid));
  events.write("endpoint", std::move(fields));
  return {};
}

}  // namespace

Result<Value> deploy_model(const DeployInputs& in, const DeploySettings& s, const Clock& clock, EventWriter& events,
                           const std::atomic<bool>& stop) {
  if (!s.require_token && !is_loopback(s.host)) {
    return make_error(ErrorCode::invalid_input, format("require_token = false with host = \"{}\"", s.host),
                      "a server that other machines reach needs a token");
  }
  if (!s.prompts.empty() && is_reward_model(in.model_folder))
    return make_error(ErrorCode::invalid_input, "prompts for a reward model, which writes no text",
                      "leave prompts out, and ask POST /v1/score");
  const Paths paths(in.state_dir);
  LH_CHECK(make_directories(paths.folder));
  stop_earlier(clock, paths);
  for (const std::string& old : {paths.token, paths.address, paths.status, paths.supervisor})
    LH_CHECK(remove_tree(old));
  if (s.require_token) LH_CHECK(make_token_file(paths.token));

  const std::string name = s.model_name.empty() ? in.model_name : s.model_name;
  const std::int64_t started_ns = clock.monotonic_ns();
  SpawnSpec spec;
  spec.argv = command_of(in, s, name, paths);
  spec.stdout_path = spec.stderr_path = paths.log;
  spec.detached = true;
  // A server shares its machine with whatever comes: threads that spin at a barrier wait there for cores that others
  // have (on two busy cores, generation by a small model: 435 tokens/s spinning, 1862 sleeping).
  spec.environment = {{"OMP_WAIT_POLICY", "passive"}};
  LH_TRY(const pid_t pid, spawn(spec));
  LH_TRY(const ProcessId process, identify_process(pid));
  RunningServer server(clock, process);
  Value supervisor;
  supervisor.set("pid", static_cast<long>(process.pid));
  supervisor.set("start_ticks", static_cast<std::int64_t>(process.start_ticks));
  supervisor.set("host", host_name());
  LH_CHECK(write_file_atomic(paths.supervisor, to_json_pretty(supervisor)));

  LH_TRY(const HttpTarget target, wait_healthy(clock, server, paths, s, stop));
  const double start_s = static_cast<double>(clock.monotonic_ns() - started_ns) * 1e-9;
  events.message("info", format("serving on http://{}:{}, healthy after {:.1f} s", target.host, target.port, start_s));

  Value samples = Value::make_array();
  std::int64_t tokens = 0;
  const std::int64_t asked_ns = clock.monotonic_ns();
  for (std::size_t i = 0; i < s.prompts.size(); ++i) {
    LH_CHECK(check_alive(server, paths, stop));
    LH_TRY(const PromptAnswer answer, ask(target, s, s.prompts[i]));
    tokens += answer.tokens;
    Value sample;
    sample.set("prompt", answer.prompt);
    sample.set("text", answer.text);
    events.write("sample", sample);
    sample.set("path", answer.path);
    samples.push_back(std::move(sample));
    events.progress(static_cast<double>(i + 1), static_cast<double>(s.prompts.size()), "prompts");
  }
  const double ask_s = static_cast<double>(clock.monotonic_ns() - asked_ns) * 1e-9;
  LH_CHECK(write_file_atomic(join_path(in.output_dir, "samples.json"), to_json_pretty(samples)));
  LH_CHECK(write_endpoint(in, s, name, target, server, paths, events));
  if (s.leave_running) {
    server.leave();
    events.message("info", format("the server runs on as process {}; stop it with: {} stop-server --endpoint "
                                  "<artifact>/endpoint.json",
                                  process.pid, shell_quoted(in.program)));
  } else if (!server.stop()) {
    events.message("warn", "the server did not stop in time and was killed");
  }
  Value figures = Value::make_table();
  figures.set("start_s", start_s);
  figures.set("answers", static_cast<std::int64_t>(s.prompts.size()));
  if (tokens > 0) figures.set("answer_tokens_per_s", static_cast<double>(tokens) / ask_s);
  return figures;
}

}  // namespace longhaul
