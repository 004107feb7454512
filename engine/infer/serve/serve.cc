#include "engine/infer/serve/serve.h"

#include <signal.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <thread>

#include "base/files/files.h"
#include "base/files/owned_files.h"
#include "base/options/command_options.h"
#include "base/process/log.h"
#include "base/system/private_memory.h"
#include "base/text/print.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "contracts/settings/stages/inference.h"
#include "engine/infer/generate/inference_text_model.h"
#include "engine/infer/http/http_client.h"
#include "engine/infer/http/socket_file.h"
#include "engine/infer/serve/supervisor.h"

namespace longhaul {
namespace {

// Options with a value of these forms.
void add_duration(CommandOptions& options, const char* name, std::int64_t& ms, const std::string& help) {
  options.value(name, "TIME", help, [&ms, name](const std::string& text) -> Status {
    const auto seconds = parse_duration_seconds(text);
    if (!seconds || *seconds <= 0)
      return make_error(ErrorCode::invalid_input, format("{} {}: a duration is expected", name, text),
                        "for example 30s or 2min");
    ms = static_cast<std::int64_t>(*seconds * 1000);
    return {};
  });
}

void add_size(CommandOptions& options, const char* name, std::size_t& out, const std::string& help) {
  options.value(name, "SIZE", help, [&out, name](const std::string& text) -> Status {
    const auto bytes = parse_bytes(text);
    if (!bytes || *bytes <= 0)
      return make_error(ErrorCode::invalid_input, format("{} {}: a size is expected", name, text), "for example 1MiB");
    out = static_cast<std::size_t>(*bytes);
    return {};
  });
}

void describe(CommandOptions& options, ServeOptions& o) {
  constexpr int much = 1 << 30;
  ModelServerSettings& server = o.server;
  options.text("--model", "DIR", o.model, "config.json, model.safetensors, tokenizer.json").required();
  options.text("--model-name", "NAME", server.model_name, "name in /v1/models");
  options.text("--host", "HOST", server.http.host, "address to listen on");
  options.integer("--port", server.http.port, 0, 65535, "0: a free one");
  options.text("--token-file", "FILE", o.token_file,
               "clients send its content as bearer token; made if absent, mode 0600");
  options.text("--socket", "PATH", o.socket,
               "listen on a socket in the file system (mode 0600, in a folder that only you may enter) instead of a "
               "port; a token is then asked for only with --token-file");
  options.flag("--no-token", o.no_token, "with --host on loopback: ask for none, and serve every user of this machine");
  options.choice("--precision", {"bf16", "f32"}, o.precision, "of the matrix products");
  options.choice("--device", {"cpu", "gpu"}, o.device, "where it computes; gpu: the first that the process sees");
  options.integer("--threads", o.threads, 0, 4096, "0: all cores");
  options.integer("--slots", o.slots, 1, 1024, "answers generated at the same time");
  options.integer("--queue-max", server.generator.queue_max, 0, much, "waiting requests; more are answered 503");
  options.integer("--context-length", o.context_length, 0, much, "tokens per slot; 0: the model's");
  options.integer("--max-tokens", server.api.max_tokens, 1, much, "longest answer a client may ask for");
  add_size(options, "--body-max", server.http.limits.body_max, "larger bodies are answered 413 [1MiB]");
  add_duration(options, "--header-deadline", server.http.header_deadline_ms,
               "a request must have arrived by then [10s]");
  add_duration(options, "--request-deadline", server.request_deadline_ms, "an answer must be complete by then [2min]");
  add_duration(options, "--drain-deadline", o.drain_deadline_ms, "after SIGTERM, for running answers [30s]");
  add_duration(options, "--stall-deadline", server.stall_ms,
               "a step of the model that takes longer: /health says so [60s]");
  options.integer("--connections-max", server.http.connections_max, 1, 65536, "open connections");
  options.flag("--supervised", o.supervised, "under a supervisor that starts it again");
  options.text("--status-file", "FILE", o.status_file, "pids, written by the supervisor");
  options.text("--address-file", "FILE", o.address_file, "url and pid, written once the port is known");
  options.footer(
      "example: longhaul-engine serve --model runs/quick/stages/export/out --token-file token --port 8000\n"
      "exit codes: 0 ended as asked, 1 failed, 2 wrong arguments or unreadable model");
}

std::string url_of(const ServeOptions& options, int port) {
  if (!options.socket.empty()) return "unix:" + options.socket;
  const std::string& host = options.server.http.host;
  return host.find(':') == std::string::npos ? format("http://{}:{}", host, port)
                                             : format("http://[{}]:{}", host, port);
}

// What a client on this machine connects to.
std::string own_host(const std::string& host) {
  if (host == "0.0.0.0" || host == "") return "127.0.0.1";
  return host == "::" ? std::string("::1") : host;
}

ServerHealth probe(const ServeOptions& options, int port) {
  const auto reply = http_get({own_host(options.server.http.host), port, "", options.socket}, "/health", 5'000);
  if (!reply) return ServerHealth::bad;
  if (reply->status == 200) return ServerHealth::ok;
  return reply->body.find("loading") != std::string::npos ? ServerHealth::loading : ServerHealth::bad;
}

Status write_address(const ServeOptions& options, int port) {
  const std::string url = url_of(options, port);
  print(stderr, "listening on {}\n", url);
  if (options.address_file.empty()) return {};
  Value address;
  if (options.socket.empty()) {
    address.set("host", options.server.http.host);
    address.set("port", port);
  } else {
    address.set("socket", options.socket);
  }
  address.set("url", url);
  address.set("pid", static_cast<long>(::getpid()));
  return write_file_atomic(options.address_file, to_json_pretty(address));
}

// Takes the socket's file away with the process that made it.
class SocketFile {
 public:
  explicit SocketFile(std::string path) : path_(std::move(path)) {}
  ~SocketFile() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  SocketFile(const SocketFile&) = delete;
  SocketFile& operator=(const SocketFile&) = delete;

 private:
  const std::string path_;
};

Status load_into(ModelServer& server, const ServeOptions& options, const TextModelFactory& load_model) {
  if (is_reward_model(options.model)) {
    if (options.device == "gpu")
      return make_error(ErrorCode::unsupported, "device = \"gpu\": reward models are served on processors",
                        "use device = \"cpu\"");
    const int cores = static_cast<int>(std::thread::hardware_concurrency());
    const int threads = options.threads > 0 ? options.threads : std::max(1, cores);
    LH_TRY(std::unique_ptr<AnswerJudge> judge,
           AnswerJudge::load(options.model, options.precision, threads, options.context_length));
    server.attach(std::move(judge));
    return {};
  }
  LH_TRY(std::unique_ptr<TextModel> model, load_model(options));
  server.attach(std::move(model));
  return {};
}

// One life of the server, on a socket that listens already.
int serve_once(const ServeOptions& options, int listen_fd, const TextModelFactory& load_model) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT}) sigaddset(&signals, signal);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // threads started from here on inherit it

  SystemClock clock;
  Logger log("server", "model=" + options.server.model_name);
  ModelServerSettings settings = options.server;
  settings.http.listen_fd = ::dup(listen_fd);  // the supervisor keeps its own
  auto server = ModelServer::start(clock, settings);
  if (!server) {
    log.error(server.error().message());
    return 1;
  }
  std::atomic<int> loaded{0};  // 1 well, -1 not
  std::thread loader([&] {
    const std::int64_t start = clock.monotonic_ns();
    if (const Status made = load_into(**server, options, load_model); !made.ok()) {
      log.error("event=model_not_loaded " + made.error().message());
      loaded = -1;
      return;
    }
    log.info(format("event=ready load_s={:.2f}", static_cast<double>(clock.monotonic_ns() - start) * 1e-9));
    loaded = 1;
  });
  int signal = 0;
  while (signal <= 0 && loaded >= 0) {
    const timespec wait{0, 200'000'000};
    signal = ::sigtimedwait(&signals, nullptr, &wait);
  }
  if (loaded == 0) ::_exit(0);  // asked to stop while loading: nothing was promised to anybody
  loader.join();
  if (loaded < 0) return exit_do_not_restart;
  log.info("event=draining");
  if (!options.supervised) ::shutdown(listen_fd, SHUT_RDWR);
  const bool well = (*server)->drain(options.drain_deadline_ms);
  log.info(well ? "event=ended" : "event=ended answers_cut=true");
  return 0;
}

}  // namespace

Result<ServeOptions> parse_serve_arguments(const std::vector<std::string>& arguments) {
  ServeOptions options;
  CommandOptions described("longhaul-engine serve",
                           "serves a model over the OpenAI HTTP API until SIGTERM (docs/serving.md)");
  describe(described, options);
  LH_TRY(options.help, described.parse(arguments));
  if (options.help) return options;
  const auto given = [&](const char* name) { return described.given(name); };
  if (!options.socket.empty()) {
    if (given("--host") || given("--port"))
      return make_error(ErrorCode::invalid_input, "--socket with --host or --port", "give one or the other");
    options.no_token = options.token_file.empty();
    return options;
  }
  if (options.no_token && !given("--host")) {
    return make_error(ErrorCode::invalid_input,
                      "--no-token without --socket: loopback belongs to every user of this machine",
                      "--socket PATH serves only you; --host 127.0.0.1 serves all of them");
  }
  if (options.no_token && !is_loopback(options.server.http.host)) {
    return make_error(ErrorCode::invalid_input, "--no-token with --host " + options.server.http.host,
                      "a server that other machines reach needs a token");
  }
  if (!options.no_token && options.token_file.empty()) {
    return make_error(ErrorCode::invalid_input, "--token-file is missing",
                      "give a file, or --socket PATH, to which only you can connect");
  }
  return options;
}

Status make_token_file(const std::string& path) {
  unsigned char bytes[32];
  if (::getrandom(bytes, sizeof bytes, 0) != sizeof bytes) return errno_error(ErrorCode::io, "getrandom", errno);
  static constexpr char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string token;
  unsigned bits = 0, held = 0;
  for (const unsigned char byte : bytes) {
    held = held << 8 | byte;
    for (bits += 8; bits >= 6; bits -= 6) token += letters[held >> (bits - 6) & 63];
  }
  token += letters[held << (6 - bits) & 63];
  return create_file_exclusive(path, token + "\n", 0600);
}

Result<std::string> read_token_file(const std::string& path) {
  LH_TRY(const std::string text, read_secret_file(path, "token file"));
  std::string token = trim(text);
  if (token.size() < 16)
    return make_error(ErrorCode::invalid_input, format("the token in {} is shorter than 16 bytes", path));
  return token;
}

int serve_main(const std::vector<std::string>& arguments, const TextModelFactory& load_model) {
  const auto failed = [](const Error& error, int code) {
    print(stderr, "error: {}\n", error.message());
    return code;
  };
  keep_memory_private();  // prompts, answers and the token
  auto parsed = parse_serve_arguments(arguments);
  if (!parsed) return failed(parsed.error(), 2);
  ServeOptions& options = *parsed;
  if (options.help) return 0;
  if (!options.no_token) {
    if (!file_exists(options.token_file)) {
      if (const Status made = make_token_file(options.token_file); !made.ok()) return failed(made.error(), 2);
    }
    auto token = read_token_file(options.token_file);
    if (!token) return failed(token.error(), 2);
    options.server.token = *token;
  }
  const auto listening = options.socket.empty() ? listen_on(options.server.http.host, options.server.http.port)
                                                : listen_on_socket_file(options.socket);
  if (!listening) return failed(listening.error(), 1);
  const SocketFile socket_file(options.socket);
  if (options.no_token && options.socket.empty())
    print(stderr,
          "warning: without a token every user of this machine can ask this server; --socket serves only you\n");
  const FileDescriptor listen_fd(*listening);
  const auto port = port_of(*listening);
  if (!port) return failed(port.error(), 1);
  if (const Status s = write_address(options, *port); !s.ok()) return failed(s.error(), 1);

  const auto serve = [&] { return serve_once(options, listen_fd.get(), load_model); };
  if (!options.supervised) return serve();
  SystemClock clock;
  Logger log("supervisor", "model=" + options.server.model_name);
  SupervisorSettings settings;
  settings.status_path = options.status_file;
  settings.drain_deadline_ms = options.drain_deadline_ms;
  const SupervisedServer server{serve, [&] { return probe(options, *port); },
                                [&] { ::shutdown(listen_fd.get(), SHUT_RDWR); }};
  return supervise(clock, log, settings, server);
}

int serve_main(const std::vector<std::string>& arguments, const OpenGpu& open_gpu) {
  return serve_main(arguments, [&](const ServeOptions& options) {
    return load_inference_text_model(
        options.model, {options.precision, options.threads, options.slots, options.context_length, options.device},
        open_gpu);
  });
}

int stop_server_main(const std::vector<std::string>& arguments) {
  std::string path;
  CommandOptions options("longhaul-engine stop-server", "ends a server that a deploy stage left running");
  options.text("--endpoint", "FILE", path, "endpoint.json of the stage").required();
  const auto helped = options.parse(arguments);
  if (!helped) return print(stderr, "error: {}\n", helped.error().message()), 2;
  if (*helped) return 0;
  // What names a process to be ended: somebody else's file could name any of the caller's.
  const auto text = read_owned_file(path, Ownership{}, 1 << 20);
  if (!text) return print(stderr, "error: {}\n", text.error().message()), 2;
  const auto endpoint = parse_json(*text, path);
  if (!endpoint) return print(stderr, "error: {}\n", endpoint.error().message()), 2;
  const ProcessId process{static_cast<pid_t>(endpoint->get_integer("supervisor_pid", -1)),
                          static_cast<std::uint64_t>(endpoint->get_integer("supervisor_start_ticks"))};
  const std::string host = endpoint->get_string("host_name");
  if (host != host_name()) {
    print(stderr, "error: the server runs on {}; stop it there\n", host);
    return 2;
  }
  if (process.pid <= 1 || !process_alive(process)) return print(stdout, "the server does not run any more\n"), 0;
  SystemClock clock;
  const bool well = end_process(clock, process, 45'000);
  print_text(stdout, well ? "stopped\n" : "killed: it did not stop within 45 s\n");
  return well ? 0 : 1;
}

}  // namespace longhaul
