#include "worker/agent/store_client.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

#include "base/files/owned_files.h"
#include "base/text/text.h"
#include "contracts/control/rendezvous_folder.h"

namespace longhaul {
namespace {

constexpr std::int64_t coarse_clock_ns = 50'000'000;

std::int64_t to_ns(const timespec& t) {
  return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

}  // namespace

void StoreClient::watch(int launch, const std::string& folder) {
  if (launch != launch_ || folder != folder_) leave();
  launch_ = launch, folder_ = folder;
  entries_.clear(), wishes_.clear();
  seen_entries_ = seen_wishes_ = {};
  watching_ = false;
  if (folder.empty()) return;
  for (const std::string& one :
       {carried_entries_folder(folder), wanted_entries_folder(folder), refused_entries_folder(folder)})
    if (const Status made = make_directories(one); !made.ok())
      return log_.warn("event=no_store error='" + made.error().message() + "'");
  if (!inotify_.valid()) listen();
  watching_ = true;
}

// Entries are whole when their name appears (a link, or a rename); a wish is an empty file.
void StoreClient::listen() {
  FileDescriptor fd(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  constexpr std::uint32_t appears = IN_CREATE | IN_MOVED_TO;
  if (fd.valid() && ::inotify_add_watch(fd.get(), folder_.c_str(), appears) >= 0 &&
      ::inotify_add_watch(fd.get(), wanted_entries_folder(folder_).c_str(), appears) >= 0) {
    inotify_ = std::move(fd);
  } else if (!std::exchange(logged_no_inotify_, true)) {
    log_.warn(format("event=store_not_notified error='{}' next=look_for_them", std::strerror(errno)));
  }
}

bool StoreClient::files_appeared() {
  bool appeared = false;
  alignas(inotify_event) char buffer[4096];
  while (inotify_.valid() && ::read(inotify_.get(), buffer, sizeof buffer) > 0) appeared = true;
  return appeared;
}

bool StoreClient::has_changed(const std::string& folder, Seen& seen) const {
  struct stat info{};
  if (::stat(folder.c_str(), &info) != 0) return false;
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const bool same = to_ns(info.st_mtim) == to_ns(seen.changed) && !seen.recently;
  seen.changed = info.st_mtim;
  seen.recently = to_ns(now) - to_ns(info.st_mtim) < coarse_clock_ns;
  return !same;
}

std::vector<StoreMessage> StoreClient::look(std::int64_t now_ns) {
  if (!watching_ || now_ns < next_ns_) return {};
  next_ns_ = 0;
  if (files_appeared()) next_ns_ = now_ns + gather_ms * 1'000'000;
  StoreMessage news;
  news.launch = launch_;
  // Both are asked, for each notes what it has seen.
  if (has_changed(folder_, seen_entries_)) find_entries(news);
  if (has_changed(wanted_entries_folder(folder_), seen_wishes_)) find_wishes(news);
  return split_store_message(news);
}

void StoreClient::find_entries(StoreMessage& news) {
  const auto names = list_directory(folder_);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (!is_store_key(name) || entries_.count(name) > 0) continue;
    Ownership of_ranks;
    of_ranks.one_name = false;  // while an entry is put it has a second one for a moment
    auto value = read_owned_file(join_path(folder_, name), of_ranks, store_value_bytes_max);
    entries_.insert(name), names_.insert(name);
    if (value.ok()) {
      news.entries.push_back({name, std::move(*value)});
      continue;
    }
    log_.warn("event=entry_not_carried error='" + value.error().message() + "'");
    take({launch_, {}, {}, {{name, value.error().message().substr(0, store_value_bytes_max)}}});
  }
}

// What is here already is looked for no more.
void StoreClient::find_wishes(StoreMessage& news) {
  const auto names = list_directory(wanted_entries_folder(folder_));
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (!is_store_key(name) || !wishes_.insert(name).second) continue;
    names_.insert(name);
    const bool here =
        file_exists(join_path(folder_, name)) || file_exists(join_path(carried_entries_folder(folder_), name));
    if (!here) news.wanted.push_back(name);
  }
}

void StoreClient::take(const StoreMessage& message) {
  if (folder_.empty() || message.launch != launch_) return;
  const auto keep = [&](const std::string& folder, const StoreEntry& entry) {
    const std::string path = join_path(folder, entry.name);
    if (file_exists(path)) return;
    names_.insert(entry.name);
    if (const Status written = write_file_renamed(path, entry.value); !written.ok())
      log_.warn("event=entry_not_kept error='" + written.error().message() + "'");
  };
  for (const StoreEntry& entry : message.entries) keep(carried_entries_folder(folder_), entry);
  for (const StoreEntry& entry : message.refused) keep(refused_entries_folder(folder_), entry);
}

void StoreClient::new_epoch(std::int64_t epoch) {
  if (epoch <= epoch_ || folder_.empty()) return;
  epoch_ = epoch;
  forget(older_names_);
  older_names_ = std::exchange(names_, {});
}

void StoreClient::forget(const std::set<std::string>& names) {
  for (const std::string& name : names) {
    for (const std::string& folder :
         {folder_, carried_entries_folder(folder_), wanted_entries_folder(folder_), refused_entries_folder(folder_)})
      ::unlink(join_path(folder, name).c_str());
    entries_.erase(name), wishes_.erase(name);
  }
}

void StoreClient::leave() {
  inotify_.reset();
  watching_ = false;
  launch_ = 0, folder_.clear(), next_ns_ = 0, epoch_ = 0;
  entries_.clear(), wishes_.clear(), names_.clear(), older_names_.clear();
}

}  // namespace longhaul
