#include "worker/lead/recovery/failure_lines.h"

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/files/files.h"
#include "base/text/text.h"
#include "worker/launch/rank_programs.h"

namespace longhaul {
namespace {

constexpr std::size_t tail_bytes = 4096, length_max = 800;
constexpr const char* engine_error = "longhaul-engine";  // begins each error of the engine
constexpr const char* blames = ": rank ";
// "1 with PID 7 on node a exited on signal 9": of Open MPI 4, and of 5, which breaks it in two lines.
constexpr const char* mpirun_news[] = {"mpirun noticed that process rank ", "prterun noticed that process rank "};
constexpr const char* of_hydra = "[mpiexec@";
constexpr const char* for_hydra =
    "; this mpirun is MPICH's or Intel's, and ranks are started by Open MPI's: load its module, or set launcher.kind = "
    "\"srun\" in the site file";

std::string tail_of(const std::string& path) {
  const auto map = MappedFile::open(path);
  if (!map.ok()) return {};
  std::string_view text = map->view();
  if (text.size() > tail_bytes) text.remove_prefix(text.size() - tail_bytes);
  return std::string(text);
}

std::vector<std::string> last_lines(const std::string& path) {
  std::vector<std::string> lines;
  for (const std::string& part : split(tail_of(path), '\n'))
    if (std::string line = trim(part); !line.empty()) lines.push_back(std::move(line));
  return lines;
}

std::optional<LogRoot> root_of_logs(const std::string& launch_dir, const std::vector<RankLog>& ranks) {
  std::vector<std::string> texts;
  for (const RankLog& log : ranks) texts.push_back(tail_of(rank_log_path(launch_dir, log.rank)));
  std::vector<LogTail> tails;
  for (std::size_t i = 0; i < ranks.size(); ++i)
    tails.push_back({ranks[i].rank, ranks[i].host, texts[i], ranks[i].ended_ms});
  return root_of(tails);
}

// Behind the name of the program and its own rank.
int blamed_by_line(std::string_view line) {
  const std::size_t first = line.find(": ");
  if (!starts_with(line, engine_error) || first == std::string_view::npos) return -1;
  return blamed_rank(line.substr(first + 2));
}

// The rank that has the error, where the one that ended first only agreed to it. That all ranks say whose it is makes
// it no fault that they all have.
void follow_blame(LogRoot& root, const std::vector<RankLog>& ranks) {
  const int blamed = blamed_by_line(root.line);
  for (const RankLog& log : ranks)
    if (log.rank == blamed)
      root.rank = blamed, root.host = log.host, root.ended_ms = log.ended_ms, root.widespread = false;
}

// All lines of the engine's error, where the line is its first.
std::string text_around(const std::string& launch_dir, const LogRoot& root) {
  const std::string text = failure_lines(rank_log_path(launch_dir, root.rank));
  return starts_with(text, root.line) || starts_with(text, engine_error) ? text : root.line;
}

// Whole names: "n1" is not in "n12".
bool names(std::string_view line, std::string_view host) {
  const auto in_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_'; };
  for (std::size_t at = line.find(host); !host.empty() && at != std::string_view::npos; at = line.find(host, at + 1)) {
    const std::size_t end = at + host.size();
    if ((at == 0 || !in_name(line[at - 1])) && (end == line.size() || !in_name(line[end]))) return true;
  }
  return false;
}

// A launcher that could not start ranks says so itself. Where it names one node, that is the one.
std::optional<LogRoot> root_of_launcher(const std::string& path, const std::vector<RankLog>& ranks) {
  const std::string text = tail_of(path);
  std::optional<LogRoot> root = root_of({{-1, "", text, 0}});
  if (!root || root->finding.role != LineRole::root || root->finding.fault != FaultClass::ranks_not_started)
    return std::nullopt;
  for (const RankLog& log : ranks) {
    if (log.host == root->host || !names(root->line, log.host)) continue;
    if (root->rank >= 0) {  // of two, neither
      root->rank = -1, root->host.clear();
      break;
    }
    root->rank = log.rank, root->host = log.host;
  }
  return root;
}

bool is_ruler(const std::string& line) {
  return line.size() >= 20 && line.find_first_not_of('-') == std::string::npos;
}

// What mpirun says it says between two rules, over several lines; the first of such boxes has the reason.
std::string launcher_text(const std::string& path) {
  std::string box;
  bool inside = false;
  for (const std::string& line : last_lines(path)) {
    if (is_ruler(line) && inside && !box.empty()) break;
    if (is_ruler(line))
      inside = true;
    else if (inside && !trim(line).empty())
      box += (box.empty() ? "" : " ") + trim(line);
  }
  if (box.empty()) return failure_lines(path);
  return repair_utf8(box.size() > length_max ? box.substr(0, length_max) : box);
}

std::optional<FailureLines> news_of_launcher(const std::string& path) {
  const std::vector<std::string> lines = last_lines(path);
  for (std::size_t i = 0; i < lines.size(); ++i)
    for (const char* beginning : mpirun_news) {
      if (!starts_with(lines[i], beginning)) continue;
      const bool goes_on =
          lines[i].find(" signal ") == std::string::npos && i + 1 < lines.size() && !is_ruler(lines[i + 1]);
      const std::string text = goes_on ? lines[i] + " " + lines[i + 1] : lines[i];
      return FailureLines{std::atoi(text.c_str() + std::string_view(beginning).size()), repair_utf8(text), {}, {}, {}};
    }
  return std::nullopt;
}

// "0-1,3" of "srun: error: n1: tasks 0-1,3: Killed".
void add_ranks(std::string_view list, std::vector<int>& ranks) {
  for (const std::string& part : split(std::string(list), ',')) {
    int first = -1, last = -1;
    const int read = std::sscanf(part.c_str(), "%d-%d", &first, &last);
    if (read == 1) last = first;
    for (int rank = first; read > 0 && first >= 0 && rank <= last; ++rank) ranks.push_back(rank);
  }
}

// srun reports the end of each task, and says when it ends the step because of one.
void note_ends_of_srun(const std::string& path, FailureLines& said) {
  for (const std::string& line : last_lines(path)) {
    if (line.find("Terminating StepId=") != std::string::npos || line.find("Job step aborted") != std::string::npos)
      return;
    const std::size_t task = line.find(": task"), list = line.find(' ', task + 2), end = line.find(": ", list);
    if (!starts_with(line, "srun: error: ") || task == std::string::npos || end == std::string::npos) continue;
    add_ranks(std::string_view(line).substr(list + 1, end - list - 1), said.ended_first);
    if (said.first_end.empty()) said.first_end = repair_utf8(line);
  }
  said.ended_first.clear();  // nothing says that the others were ended because of these
}

}  // namespace

int blamed_rank(std::string_view text) {
  const std::string_view one = blames;
  std::size_t at = text.rfind(one);
  if (at != std::string_view::npos)
    at += one.size();
  else if (starts_with(text, one.substr(2)))
    at = one.size() - 2;
  else
    return -1;
  const std::string_view number = text.substr(at);
  const std::size_t digits = number.find_first_not_of("0123456789");
  if (digits == 0 || digits == std::string_view::npos || number.substr(digits, 2) != ": ") return -1;
  return std::atoi(std::string(number.substr(0, digits)).c_str());
}

std::optional<std::string> launcher_gave_up(const std::string& path) {
  const auto root = root_of_launcher(path, {});
  return root ? std::optional(root->line) : std::nullopt;
}

std::string failure_lines(const std::string& path) {
  std::string found;
  bool is_engine_error = false;
  for (const std::string& line : last_lines(path)) {
    const bool begins = starts_with(line, engine_error);
    found = is_engine_error && !begins ? found + "; " + line : line;
    is_engine_error = is_engine_error || begins;
  }
  return repair_utf8(found.size() > length_max ? found.substr(0, length_max) : found);
}

namespace {

bool by_itself(const std::string& end_of_srun) {
  return end_of_srun.find(": Exited with exit code ") != std::string::npos;
}

FailureLines lines_of_ranks(const std::string& launch_dir, const std::vector<RankLog>& ranks,
                            const FailureLines& ends) {
  std::optional<LogRoot> root = root_of_logs(launch_dir, ranks);
  if (root) follow_blame(*root, ranks);
  if (root && root->finding.role == LineRole::root) return {root->rank, text_around(launch_dir, *root), root, {}, {}};
  const std::string mpirun_log = join_path(launch_dir, "mpirun.log");
  if (auto launcher = root_of_launcher(mpirun_log, ranks)) {
    const int rank = launcher->rank;
    std::string line = launcher->line + (starts_with(launcher->line, of_hydra) ? for_hydra : "");
    return {rank, std::move(line), std::move(launcher), {}, {}};
  }
  if (auto news = news_of_launcher(mpirun_log)) return *std::move(news);
  if (!ends.ended_first.empty()) {
    // Of one that ended by itself its own last line says more than its exit code.
    const int first = ends.ended_first.front();
    std::string own = by_itself(ends.first_end) ? failure_lines(rank_log_path(launch_dir, first)) : std::string();
    return {first, own.empty() ? ends.first_end : std::move(own), {}, {}, {}};
  }
  if (root && root->finding.role == LineRole::cascade) return {root->rank, text_around(launch_dir, *root), {}, {}, {}};
  FailureLines said{0, failure_lines(rank_log_path(launch_dir, 0)), {}, {}, {}};
  if (said.text.empty()) said.text = launcher_text(mpirun_log);
  return said;
}

}  // namespace

FailureLines failure_lines_of_ranks(const std::string& launch_dir, const std::vector<RankLog>& ranks) {
  FailureLines ends;
  note_ends_of_srun(join_path(launch_dir, "mpirun.log"), ends);
  FailureLines said = lines_of_ranks(launch_dir, ranks, ends);
  said.ended_first = std::move(ends.ended_first), said.first_end = std::move(ends.first_end);
  return said;
}

}  // namespace longhaul
