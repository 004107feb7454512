// The deploy stage: starts a supervised server, waits until it is healthy, asks it as a client would, and leaves it
// running or stops it.
//
//   OUTPUT/endpoint.json   url, model, token_file, supervisor (pid and start time), host_name, log; whether it was left
//   running OUTPUT/samples.json    the prompts and their answers STATE/server/          token (0600), address.json,
//   status.json, server.log: what changes while the server runs
#pragma once

#include <atomic>
#include <string>

#include "base/system/clock.h"
#include "base/value/value.h"
#include "contracts/events/event.h"
#include "contracts/settings/stages/inference.h"

namespace longhaul {

struct DeployInputs {
  std::string program;       // longhaul-engine
  std::string model_folder;  // absolute
  std::string model_name;    // when the settings name none
  std::string output_dir;
  std::string state_dir;  // survives attempts
  int threads = 0;        // of the server; 0: all cores
};

// Figures by name: start_s, answers, answer_tokens_per_s. Whatever fails, no server is left behind.
Result<Value> deploy_model(const DeployInputs& inputs, const DeploySettings& settings, const Clock& clock,
                           EventWriter& events, const std::atomic<bool>& stop);

}  // namespace longhaul
