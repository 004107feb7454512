#include "orchestrator/render/run/left_servers.h"

#include "base/files/files.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "base/text/visible_text.h"
#include "base/value/json.h"

namespace longhaul {
namespace {

constexpr std::uint64_t endpoint_bytes_max = 1 << 20;

}  // namespace

std::vector<LeftServer> left_servers(const RunStatus& status) {
  std::vector<LeftServer> servers;
  for (const StageStatus& stage : status.stages) {
    if (stage.kind != "deploy" || stage.artifact.empty()) continue;
    const std::string path = join_path(stage.artifact, "endpoint.json");
    const auto text = read_file(path, endpoint_bytes_max);
    const auto endpoint = text.ok() ? parse_json(*text, path) : Result<Value>(text.error());
    if (!endpoint.ok() || !endpoint->is_table() || !endpoint->get_bool("left_running")) continue;
    LeftServer server{stage.id, endpoint->get_string("url"), endpoint->get_string("model"), "", path, ""};
    if (const Value* token = endpoint->find("token_file"); token && token->is_string())
      server.token_file = token->as_string();
    const std::string host = endpoint->get_string("host_name");
    const ProcessId process{static_cast<pid_t>(endpoint->get_integer("supervisor_pid")),
                            static_cast<std::uint64_t>(endpoint->get_integer("supervisor_start_ticks"))};
    if (host != host_name())
      server.host = host;
    else if (process.pid <= 1 || !process_alive(process))
      continue;
    servers.push_back(std::move(server));
  }
  return servers;
}

namespace {

std::string request_text(const std::string& model) {
  Value request = Value::make_table();
  request.set("model", model);
  request.set("prompt", "The");
  request.set("max_tokens", 20);
  return to_json(request);
}

}  // namespace

std::string left_servers_text(const std::vector<LeftServer>& servers, const std::string& run) {
  std::string text;
  for (const LeftServer& server : servers) {
    const std::string header = server.token_file.empty() ? ""
                                                         : " -H \"Authorization: Bearer $(cat " +
                                                               visible_line(shell_quoted(server.token_file)) + ")\"";
    text += "\nserver of " + visible_line(server.stage) + ": " + visible_line(server.url) +
            (server.host.empty() ? "" : ", on " + visible_line(server.host) + " if it is still there") + "\n";
    text += "  curl " + visible_line(shell_quoted(server.url + "/v1/completions")) + header +
            " -H 'Content-Type: application/json' -d " + visible_line(shell_quote(request_text(server.model))) + "\n";
    text += "  longhaul cancel " + shell_quoted(run) + " --server" +
            (server.host.empty() ? "" : "   (on " + visible_line(server.host) + ")") + "\n";
  }
  return text;
}

}  // namespace longhaul
