// Servers that deploy stages of a run left running: where they answer, and how they are asked and ended.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/state/run_status.h"

namespace longhaul {

struct LeftServer {
  std::string stage;
  std::string url, model;
  std::string token_file;     // "": it asks for none
  std::string endpoint_file;  // which names its process
  std::string host;           // "": it runs on this one
};

// Those that run here, and those on other hosts, of which nobody knows from here. By endpoint.json of each artifact.
std::vector<LeftServer> left_servers(const RunStatus& status);

// "server of deploy: http://...", the line of curl that asks it, and what ends it; "" without any.
std::string left_servers_text(const std::vector<LeftServer>& servers, const std::string& run);

}  // namespace longhaul
