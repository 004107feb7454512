#include "engine/comm/rendezvous.h"

#include <sys/stat.h>

#include "base/files/files.h"
#include "base/files/owned_files.h"
#include "base/text/text.h"
#include "contracts/control/rendezvous_folder.h"

namespace longhaul {
namespace {

// Of whoever owns the folder, as all ranks of a launch do. While an entry is put it has a second name for a moment.
Result<std::optional<std::string>> read_if_there(const std::string& folder, const std::string& path) {
  struct stat info{};
  if (!file_exists(path) || ::stat(folder.c_str(), &info) != 0) return std::optional<std::string>();
  Ownership of_ranks;
  of_ranks.owners = {info.st_uid}, of_ranks.one_name = false;
  auto value = read_owned_file(path, of_ranks, store_value_bytes_max);
  if (!value.ok() && value.error().code == ErrorCode::not_found) return std::optional<std::string>();
  if (!value.ok()) return value.error();
  return std::optional<std::string>(std::move(*value));
}

}  // namespace

Status FileRendezvous::put(const std::string& name, const std::string& value) {
  if (!is_store_key(name)) return make_error(ErrorCode::invalid_input, "'" + name + "' is no name of an entry");
  if (value.size() > store_value_bytes_max)
    return make_error(ErrorCode::invalid_input, format("the entry {} has {} bytes, at most {} travel", name,
                                                       value.size(), store_value_bytes_max));
  LH_CHECK(make_directories(folder_));
  return create_file_exclusive(join_path(folder_, name), value);
}

Result<std::optional<std::string>> FileRendezvous::look(const std::string& name) {
  LH_TRY(const auto refused, read_if_there(folder_, join_path(refused_entries_folder(folder_), name)));
  if (refused) return make_error(ErrorCode::conflict, format("the entry {} cannot be had: {}", name, *refused));
  LH_TRY(auto own, read_if_there(folder_, join_path(folder_, name)));
  if (own) return own;
  LH_TRY(auto carried, read_if_there(folder_, join_path(carried_entries_folder(folder_), name)));
  if (carried || asked_.count(name) > 0) return carried;
  // Fails as long as nobody is there to carry it.
  const std::string wanted = join_path(wanted_entries_folder(folder_), name);
  const Status asked = touch_file(wanted);
  if (asked.ok()) asked_.insert(name);
  if (!asked.ok() && asked.error().code != ErrorCode::not_found)
    return asked.error().with_context("cannot ask for the entry " + name);
  return carried;
}

std::unique_ptr<Rendezvous> rendezvous_of(const Launch& launch) {
  return std::make_unique<FileRendezvous>(rendezvous_folder(launch));
}

Status ThreadsRendezvous::put(const std::string& name, const std::string& value) {
  const std::lock_guard lock(mutex_);
  if (!entries_.emplace(name, value).second) return make_error(ErrorCode::conflict, name + " is there already");
  return {};
}

Result<std::optional<std::string>> ThreadsRendezvous::look(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(name);
  if (found == entries_.end()) return std::optional<std::string>();
  return std::optional<std::string>(found->second);
}

}  // namespace longhaul
