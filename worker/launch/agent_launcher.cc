#include "worker/launch/agent_launcher.h"

#include "base/text/text.h"

namespace longhaul {

std::vector<std::string> launcher_on(std::vector<std::string> launcher, const std::string& host) {
  for (std::string& argument : launcher) {
    if (starts_with(argument, "--nodes=")) argument = "--nodes=1";
    if (starts_with(argument, "--ntasks=")) argument = "--ntasks=1";
  }
  launcher.push_back("--nodelist=" + host);
  return launcher;
}

std::vector<std::string> launcher_without_gpus(std::vector<std::string> launcher) {
  bool asks = false;
  for (std::string& argument : launcher) {
    if (!starts_with(argument, "--gpus-per-node=") && !starts_with(argument, "--gres=gpu:")) continue;
    argument = "--gres=none";
    asks = true;
  }
  return asks ? launcher : std::vector<std::string>();
}

}  // namespace longhaul
