#include "engine/infer/serve/serve.h"

#include <signal.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <map>
#include <thread>

#include "base/files/files.h"
#include "base/files/owned_files.h"
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

Result<std::int64_t> read_integer(const std::string& flag, const std::string& text, std::int64_t low,
                                  std::int64_t high) {
  char* end = nullptr;
  errno = 0;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  if (errno != 0 || text.empty() || *end != '\0' || value < low || value > high) {
    return make_error(ErrorCode::invalid_input,
                      format("{} {}: a whole number in {}..{} is expected", flag, text, low, high));
  }
  return static_cast<std::int64_t>(value);
}

Result<std::int64_t> read_milliseconds(const std::string& flag, const std::string& text) {
  const auto seconds = parse_duration_seconds(text);
  if (!seconds || *seconds <= 0) {
    return make_error(ErrorCode::invalid_input, format("{} {}: a duration is expected", flag, text),
                      "for example 30s or 2min");
  }
  return static_cast<std::int64_t>(*seconds * 1000);
}

// A flag with a value, and what it sets.
using Setter = std::function<Status(const std::string& flag, const std::string& value)>;

Setter to_text(std::string& out) {
  return [&out](const std::string&, const std::string& value) -> Status { return out = value, Status{}; };
}
template <class T>
Setter to_integer(T& out, std::int64_t low, std::int64_t high) {
  return [&out, low, high](const std::string& flag, const std::string& value) -> Status {
    LH_TRY(const std::int64_t number, read_integer(flag, value, low, high));
    out = static_cast<T>(number);
    return {};
  };
}
Setter to_milliseconds(std::int64_t& out) {
  return [&out](const std::string& flag, const std::string& value) -> Status {
    LH_TRY(out, read_milliseconds(flag, value));
    return {};
  };
}
Setter to_bytes(std::size_t& out) {
  return [&out](const std::string& flag, const std::string& value) -> Status {
    const auto bytes = parse_bytes(value);
    if (!bytes || *bytes <= 0) {
      return make_error(ErrorCode::invalid_input, format("{} {}: a size is expected", flag, value), "for example 1MiB");
    }
    out = static_cast<std::size_t>(*bytes);
    return {};
  };
}

std::map<std::string, Setter> flags_of(ServeOptions& o) {
  constexpr std::int64_t much = 1 << 30;
  return {
      {"--model", to_text(o.model)},
      {"--model-name", to_text(o.server.model_name)},
      {"--host", to_text(o.server.http.host)},
      {"--port", to_integer(o.server.http.port, 0, 65535)},
      {"--socket", to_text(o.socket)},
      {"--token-file", to_text(o.token_file)},
      {"--precision", to_text(o.precision)},
      {"--device", to_text(o.device)},
      {"--context-length", to_integer(o.context_length, 0, much)},
      {"--threads", to_integer(o.threads, 0, 4096)},
      {"--slots", to_integer(o.slots, 1, 1024)},
      {"--queue-max", to_integer(o.server.generator.queue_max, 0, much)},
      {"--max-tokens", to_integer(o.server.api.max_tokens, 1, much)},
      {"--body-max", to_bytes(o.server.http.limits.body_max)},
      {"--header-deadline", to_milliseconds(o.server.http.header_deadline_ms)},
      {"--request-deadline", to_milliseconds(o.server.request_deadline_ms)},
      {"--drain-deadline", to_milliseconds(o.drain_deadline_ms)},
      {"--stall-deadline", to_milliseconds(o.server.stall_ms)},
      {"--connections-max", to_integer(o.server.http.connections_max, 1, 65536)},
      {"--status-file", to_text(o.status_file)},
      {"--address-file", to_text(o.address_file)},
  };
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
    auto model = load_model(options);
    if (!model) {
      log.error("event=model_not_loaded " + model.error().message());
      loaded = -1;
      return;
    }
    (*server)->attach(std::move(*model));
    log.info(format("event=ready load_s={:.2f}", static_cast<double>(clock.monotonic_ns() - start) * 1e-9));
    loaded = 1;
  });
  int signal = 0;
  while (signal <= 0 && loaded >= 0) {
    const timespec wait{0, 200'000'000};
    signal = ::sigtimedwait(&signals, nullptr, &wait);
  }
  if (loaded == 0) ::_exit(0);  // told to stop while loading: nothing was promised to anybody
  loader.join();
  if (loaded < 0) return exit_do_not_restart;
  log.info("event=draining");
  if (!options.supervised) ::shutdown(listen_fd, SHUT_RDWR);
  const bool well = (*server)->drain(options.drain_deadline_ms);
  log.info(well ? "event=ended" : "event=ended answers_cut=true");
  return 0;
}

}  // namespace

std::string serve_usage() {
  return "usage: longhaul-engine serve --model DIR --token-file FILE | --socket PATH [options]\n"
         "\n"
         "Serves a model over the OpenAI HTTP API until SIGTERM (docs/serving.md).\n"
         "\n"
         "  --model DIR             config.json, model.safetensors, tokenizer.json\n"
         "  --model-name NAME       name in /v1/models                         (model)\n"
         "  --host H --port P       address; port 0 takes a free one           (127.0.0.1, 0)\n"
         "  --token-file FILE       clients send its content as bearer token; made if absent, mode 0600\n"
         "  --socket PATH           listen on a socket in the file system (mode 0600, in a folder that only you may\n"
         "                          enter) instead of a port; a token is then asked for only with --token-file\n"
         "  --no-token              with --host on loopback: ask for none, and serve every user of this machine\n"
         "  --precision bf16|f32    of the matrix products                     (bf16)\n"
         "  --device cpu|gpu        where it computes; gpu: the first that the process sees (cpu)\n"
         "  --threads N             0: all cores                               (0)\n"
         "  --slots N               answers generated at the same time         (4)\n"
         "  --queue-max N           waiting requests; more are answered 503    (32)\n"
         "  --context-length N      tokens per slot; 0: the model's            (0)\n"
         "  --max-tokens N          longest answer a client may ask for        (256)\n"
         "  --body-max SIZE         larger bodies are answered 413             (1MiB)\n"
         "  --header-deadline T     a request must have arrived by then        (10s)\n"
         "  --request-deadline T    an answer must be complete by then         (2min)\n"
         "  --drain-deadline T      after SIGTERM, for running answers         (30s)\n"
         "  --connections-max N     open connections                           (512)\n"
         "  --supervised            under a supervisor that starts it again\n"
         "  --status-file FILE      pids, written by the supervisor\n"
         "  --address-file FILE     url and pid, written once the port is known\n"
         "\n"
         "example: longhaul-engine serve --model runs/quick/stages/export/out --token-file token --port 8000\n"
         "exit codes: 0 ended as told, 1 failed, 2 wrong arguments or unreadable model\n";
}

Result<ServeOptions> parse_serve_arguments(const std::vector<std::string>& arguments) {
  ServeOptions options;
  const auto flags = flags_of(options);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& flag = arguments[i];
    if (flag == "--help") options.help = true;
    if (flag == "--no-token") options.no_token = true;
    if (flag == "--supervised") options.supervised = true;
    if (flag == "--help" || flag == "--no-token" || flag == "--supervised") continue;
    const auto known = flags.find(flag);
    if (known == flags.end()) return make_error(ErrorCode::invalid_input, "unknown option " + flag, "see serve --help");
    if (++i == arguments.size())
      return make_error(ErrorCode::invalid_input, flag + " needs a value", "see serve --help");
    LH_CHECK(known->second(flag, arguments[i]));
  }
  if (options.help) return options;
  if (options.model.empty()) return make_error(ErrorCode::invalid_input, "--model is missing", "see serve --help");
  if (options.precision != "bf16" && options.precision != "f32") {
    return make_error(ErrorCode::invalid_input, "--precision must be bf16 or f32");
  }
  if (options.device != "cpu" && options.device != "gpu") {
    return make_error(ErrorCode::invalid_input, "--device must be cpu or gpu");
  }
  const auto given = [&](const char* flag) {
    return std::find(arguments.begin(), arguments.end(), flag) != arguments.end();
  };
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
  if (options.help) return print(stdout, "{}", serve_usage()), 0;
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
  if (arguments.size() != 2 || arguments[0] != "--endpoint") {
    print(stderr, "usage: longhaul-engine stop-server --endpoint endpoint.json\n");
    return 2;
  }
  // What names a process to be ended: somebody else's file could name any of the caller's.
  const auto text = read_owned_file(arguments[1], Ownership{}, 1 << 20);
  if (!text) return print(stderr, "error: {}\n", text.error().message()), 2;
  const auto endpoint = parse_json(*text, arguments[1]);
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
