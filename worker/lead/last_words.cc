#include "worker/lead/last_words.h"

#include <cstdlib>
#include <string_view>

#include "base/files.h"
#include "base/text.h"
#include "worker/launch/rank_programs.h"

namespace longhaul {
namespace {

constexpr std::size_t tail_bytes = 4096, length_max = 800;
constexpr const char* engine_error = "longhaul-engine";                   // begins each error of the engine
constexpr const char* mpirun_news = "mpirun noticed that process rank ";  // "1 with PID 7 on node a exited on signal 9"

std::vector<std::string> last_lines(const std::string& path) {
  std::vector<std::string> lines;
  const auto map = MappedFile::open(path);
  if (!map.ok()) return lines;
  std::string_view text = map->view();
  if (text.size() > tail_bytes) text.remove_prefix(text.size() - tail_bytes);
  for (const std::string& part : split(text, '\n'))
    if (std::string line = trim(part); !line.empty()) lines.push_back(std::move(line));
  return lines;
}

}  // namespace

std::string last_words(const std::string& path) {
  std::string found;
  bool is_engine_error = false;
  for (const std::string& line : last_lines(path)) {
    const bool begins = starts_with(line, engine_error);
    found = is_engine_error && !begins ? found + "; " + line : line;
    is_engine_error = is_engine_error || begins;
  }
  return repair_utf8(found.size() > length_max ? found.substr(0, length_max) : found);
}

LastWords last_words_of_ranks(const std::string& launch_dir, int ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    LastWords said{rank, last_words(rank_log_path(launch_dir, rank))};
    if (starts_with(said.text, engine_error)) return said;
  }
  const std::string mpirun_log = join_path(launch_dir, "mpirun.log");
  for (const std::string& line : last_lines(mpirun_log))
    if (starts_with(line, mpirun_news))
      return {std::atoi(line.c_str() + std::string_view(mpirun_news).size()), repair_utf8(line)};
  LastWords said{0, last_words(rank_log_path(launch_dir, 0))};
  if (said.text.empty()) said.text = last_words(mpirun_log);
  return said;
}

}  // namespace longhaul
