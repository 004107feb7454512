// data check: what a file of tuning data is. The engine reads it, as a stage would; it writes to this program's own
// standard output, and is ended with it.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "base/files/files.h"
#include "base/process/process.h"
#include "base/system/clock.h"
#include "base/text/text.h"
#include "orchestrator/cli/session/commands.h"
#include "orchestrator/cli/session/load_workflow.h"
#include "orchestrator/cli/session/signals.h"

namespace longhaul {
namespace {

constexpr auto between_looks = std::chrono::milliseconds(10);

std::vector<std::string> data_check_call(const CommandLine& line, const std::string& engine) {
  std::vector<std::string> call = {engine, "data-check", "--file", line.data_file};
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) call.insert(call.end(), {option, value});
  };
  add("--model", line.model);
  add("--ignore", join(line.ignored, ","));
  add("--for", line.data_stage);
  add("--sequence-length", line.sequence_length > 0 ? std::to_string(line.sequence_length) : "");
  add("--json", line.json ? "yes" : "");
  return call;
}

// The engine's codes are those of its errors (docs/contracts.md); it has said the error itself.
ExitCode exit_of_engine(const ExitStatus& status) {
  switch (status.code) {
    case 0: return ExitCode::ok;
    case 3: return ExitCode::invalid_input;
    case 4: return ExitCode::not_found;
    default: return ExitCode::system;
  }
}

}  // namespace

ExitCode check_data(const CommandLine& line, const Installation& installation) {
  const std::string engine = join_path(installation.programs_dir, "longhaul-engine");
  if (::access(engine.c_str(), X_OK) != 0)
    return fail(line, make_error(ErrorCode::not_found, "there is no engine: " + engine, "`longhaul doctor` says more"));
  const SignalWatch signals;
  SpawnSpec spec;
  spec.argv = data_check_call(line, engine);
  spec.dies_with_starter = true;
  const auto pid = spawn(spec);
  if (!pid.ok()) return fail(line, pid.error());
  const SystemClock clock;
  const std::int64_t end_ns = clock.monotonic_ns() + static_cast<std::int64_t>(line.limit_s * 1e9);
  for (;;) {
    const auto ended = poll_exit(*pid);
    if (!ended.ok()) return fail(line, ended.error());
    if (*ended) return signals.count() > 0 ? ExitCode::interrupted : exit_of_engine(**ended);
    const bool late = clock.monotonic_ns() > end_ns;
    if (signals.stop() || late) {
      ::kill(*pid, SIGKILL);  // it only reads
      for (auto gone = poll_exit(*pid); gone.ok() && !*gone; gone = poll_exit(*pid))
        std::this_thread::sleep_for(between_looks);
      if (!late) return ExitCode::interrupted;
      return fail(line,
                  make_error(ErrorCode::timeout, format("{} was not read within {:g} s", line.data_file, line.limit_s),
                             "give a longer --limit, or a part of the file"));
    }
    std::this_thread::sleep_for(between_looks);
  }
}

}  // namespace longhaul
