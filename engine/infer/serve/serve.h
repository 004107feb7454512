// `longhaul-engine serve` and `longhaul-engine stop-server`: the server as a program, alone or under a supervisor.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/infer/serve/model_server.h"
#include "engine/ops/gpu.h"

namespace longhaul {

struct ServeOptions {
  std::string model;  // folder: config.json, model.safetensors, tokenizer.json
  std::string precision = "bf16";
  std::string device = "cpu";
  std::int64_t context_length = 0;  // 0: the model's
  int threads = 0;                  // 0: all cores
  int slots = 4;
  ModelServerSettings server;
  std::string socket;      // path of a socket to listen on instead of a port
  std::string token_file;  // mode 0600; "" with no_token only
  bool no_token = false;   // also with a socket and no token file
  bool supervised = false;
  std::string status_file;   // of the supervisor
  std::string address_file;  // written once the port is known: {"host", "port" or "socket", "url", "pid"}
  std::int64_t drain_deadline_ms = 30'000;
  bool help = false;  // was asked for, and printed
};
// `arguments` without program and command.
Result<ServeOptions> parse_serve_arguments(const std::vector<std::string>& arguments);

// 43 characters of 256 random bits into a new file of mode 0600.
Status make_token_file(const std::string& path);
// Refuses a file that others may read.
Result<std::string> read_token_file(const std::string& path);

using TextModelFactory = std::function<Result<std::unique_ptr<TextModel>>(const ServeOptions&)>;

// Until SIGTERM or SIGINT; exit code 0 after a clean end, 1 failed, 2 wrong arguments or a model that cannot be read.
// Call before the process has threads.
int serve_main(const std::vector<std::string>& arguments, const TextModelFactory& load_model);
// As serve_main, with the engine's own model.
int serve_main(const std::vector<std::string>& arguments, const OpenGpu& open_gpu);
// Stops what an endpoint.json names (written by the deploy stage).
int stop_server_main(const std::vector<std::string>& arguments);

}  // namespace longhaul
