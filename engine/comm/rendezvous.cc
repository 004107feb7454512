#include "engine/comm/rendezvous.h"

#include "base/files.h"

namespace longhaul {

Status FileRendezvous::put(const std::string& name, const std::string& word) {
  LH_CHECK(make_directories(folder_));
  return create_file_exclusive(join_path(folder_, name), word);
}

Result<std::optional<std::string>> FileRendezvous::look(const std::string& name) {
  const std::string path = join_path(folder_, name);
  if (!file_exists(path)) return std::optional<std::string>();
  LH_TRY(std::string word, read_file(path));
  return std::optional<std::string>(std::move(word));
}

Status ThreadsRendezvous::put(const std::string& name, const std::string& word) {
  const std::lock_guard lock(mutex_);
  if (!words_.emplace(name, word).second) return make_error(ErrorCode::conflict, name + " is there already");
  return {};
}

Result<std::optional<std::string>> ThreadsRendezvous::look(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = words_.find(name);
  if (found == words_.end()) return std::optional<std::string>();
  return std::optional<std::string>(found->second);
}

}  // namespace longhaul
