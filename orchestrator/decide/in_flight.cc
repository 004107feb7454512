#include "orchestrator/decide/in_flight.h"

#include "base/files/files.h"
#include "base/files/owned_files.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

std::string left_path(const std::string& run_dir, std::int64_t epoch) {
  return join_path(run_dir, format("log/{:06}.left", epoch));
}

}  // namespace

Status say_nothing_is_in_flight(const std::string& run_dir, std::int64_t epoch) {
  return touch_file(left_path(run_dir, epoch), 0664);
}

bool has_said_nothing_is_in_flight(const std::string& run_dir, std::int64_t epoch) {
  return file_exists(left_path(run_dir, epoch));
}

}  // namespace longhaul
