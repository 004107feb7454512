#include "worker/protocol/ranks/pageless_ranks.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <optional>

#include "base/files/files.h"
#include "base/text/text.h"
#include "worker/protocol/ranks/process_watch.h"

namespace longhaul {
namespace {

constexpr const char* wrapper_names[] = {"longhaul-worker", "longhaul-rank"};  // the kernel keeps 15 characters

std::vector<std::string> arguments_of(const std::string& folder, const char* file) {
  const auto text = read_file(join_path(folder, file));  // of a process that has ended meanwhile: nothing
  return text.ok() ? split(*text, '\0') : std::vector<std::string>();
}

// The name first: the arguments lie in the process's own memory, and who waits for a dead file system there may keep a
// reader waiting.
bool makes_page_in(const std::string& process, const std::string& beat_folder) {
  const auto name = read_file(process + "/comm");
  const auto is_name = [&](const char* wrapper) { return trim(*name) == wrapper; };
  if (!name.ok() || std::none_of(std::begin(wrapper_names), std::end(wrapper_names), is_name)) return false;
  const std::vector<std::string> arguments = arguments_of(process, "cmdline");
  if (arguments.size() < 6 || arguments[1] != "rank") return false;
  const auto named = std::find(arguments.begin(), arguments.end(), "--beat-dir");
  return named != arguments.end() && named + 1 != arguments.end() && *(named + 1) == beat_folder;
}

std::optional<int> rank_in(const std::vector<std::string>& variables) {
  for (const char* name : launcher_rank_variables)
    for (const std::string& variable : variables)
      if (starts_with(variable, std::string(name) + "="))
        return std::atoi(variable.c_str() + std::string(name).size() + 1);
  return std::nullopt;
}

}  // namespace

const std::vector<RankReport>& PagelessRanks::look(const std::string& beat_folder, const std::vector<int>& without_page,
                                                   const Clock& clock) {
  const std::int64_t now_ns = clock.monotonic_ns();
  if (folder_ != beat_folder || without_page.empty()) {
    folder_ = beat_folder;
    next_look_ns_ = now_ns + look_every_ms_ * 1'000'000;
    seen_.clear();
  }
  std::erase_if(seen_, [&](const RankReport& one) {
    return std::find(without_page.begin(), without_page.end(), one.beat.rank) == without_page.end();
  });
  for (RankReport& one : seen_) one.state = process_state(one.beat.pid);
  if (without_page.empty() || now_ns < next_look_ns_) return seen_;
  next_look_ns_ = now_ns + look_every_ms_ * 1'000'000;
  const auto names = list_directory("/proc");
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
    const int pid = std::atoi(name.c_str());
    const std::string process = "/proc/" + name;
    if (pid <= 0 || !makes_page_in(process, beat_folder)) continue;
    const auto rank = rank_in(arguments_of(process, "environ"));
    if (!rank || std::find(without_page.begin(), without_page.end(), *rank) == without_page.end()) continue;
    RankReport report;
    report.beat.rank = *rank, report.beat.pid = pid;
    report.beat.section = beat_start;
    report.state = process_state(pid);
    if (report.state == ProcessState::ended) continue;
    std::erase_if(seen_, [&](const RankReport& one) { return one.beat.rank == *rank; });
    seen_.push_back(std::move(report));
  }
  return seen_;
}

}  // namespace longhaul
