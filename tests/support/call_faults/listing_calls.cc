// readdir, with listings that are as old as the plan says.
#include <dirent.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <sstream>
#include <vector>

#include "tests/support/call_faults/call_plan.h"
#include "tests/support/call_faults/next_function.h"

namespace longhaul::call_faults {
namespace {

struct Name {
  std::string text;
  unsigned char type = DT_UNKNOWN;
  ino_t number = 0;
};
// What an open folder answers in place of its own names.
struct Listing {
  std::vector<Name> names;
  std::size_t next = 0;
  dirent entry{};
};
struct Listings {
  std::mutex mutex;
  std::map<DIR*, Listing> open;
};
Listings& listings() {
  static auto* const all = new Listings;
  return *all;
}

using Readdir = dirent*(DIR*);
Readdir* next_readdir() {
  static auto* const next = next_function<Readdir>("readdir");
  return next;
}

std::string text_of(const std::vector<Name>& names) {
  std::string text;
  for (const Name& name : names)
    text += std::to_string(name.number) + " " + std::to_string(name.type) + " " + name.text + "\n";
  return text;
}

std::vector<Name> names_in(const std::string& text) {
  std::vector<Name> names;
  std::stringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    Name name;
    unsigned type = 0;
    std::stringstream words(line);
    words >> name.number >> type;
    words.ignore(1);
    std::getline(words, name.text);
    name.type = static_cast<unsigned char>(type);
    names.push_back(name);
  }
  return names;
}

std::vector<Name> names_now(DIR* folder) {
  std::vector<Name> names;
  while (const dirent* entry = next_readdir()(folder)) names.push_back({entry->d_name, entry->d_type, entry->d_ino});
  return names;
}

// This host's listing of the folder, if it is young enough to be given again; else the one of now, which is kept.
std::vector<Name> names_of(const Rule& rule, DIR* folder, const std::string& path) {
  std::vector<Name> now = names_now(folder);
  const std::string kept =
      plan_path() + ".done/listing-" + host_name() + "-" + std::to_string(std::hash<std::string>()(path));
  const std::string text = file_text(kept);
  const std::size_t first = text.find('\n');
  if (first != std::string::npos && monotonic_ms() - std::atoll(text.c_str()) < rule.number) {
    const std::string old = text.substr(first + 1);
    if (old != text_of(now)) log_line(Call::readdir, rule.word, path);
    return names_in(old);
  }
  put_file(kept, std::to_string(monotonic_ms()) + "\n" + text_of(now), false);
  return now;
}

dirent* next_of(Listing& listing) {
  if (listing.next == listing.names.size()) return nullptr;
  const Name& name = listing.names[listing.next++];
  listing.entry = dirent{};
  listing.entry.d_ino = name.number;
  listing.entry.d_type = name.type;
  listing.entry.d_off = static_cast<off_t>(listing.next);
  listing.entry.d_reclen = sizeof(dirent);
  std::strncpy(listing.entry.d_name, name.text.c_str(), sizeof listing.entry.d_name - 1);
  return &listing.entry;
}

dirent* read_name(DIR* folder) {
  if (current_plan() == nullptr) return next_readdir()(folder);
  {
    const std::lock_guard lock(listings().mutex);
    const auto found = listings().open.find(folder);
    if (found != listings().open.end()) return next_of(found->second);
  }
  const std::string path = path_of(::dirfd(folder));
  if (const int error = pass(Call::readdir, path); error != 0) {
    errno = error;
    return nullptr;
  }
  const Rule* rule = acting_rule(Call::readdir, path, Rule::Action::old_listing);
  if (rule == nullptr) return next_readdir()(folder);
  const int saved = errno;  // the end of a listing is distinguished from an error by that
  Listing listing;
  listing.names = names_of(*rule, folder, path);
  errno = saved;
  const std::lock_guard lock(listings().mutex);
  return next_of(listings().open[folder] = listing);
}

void forget(DIR* folder) {
  const std::lock_guard lock(listings().mutex);
  listings().open.erase(folder);
}

}  // namespace

extern "C" {
// On machines of 64 bits both have the same entries.
dirent* our_readdir(DIR* folder) LH_IN_PLACE_OF(readdir);
dirent* our_readdir(DIR* folder) {
  return read_name(folder);
}
dirent64* our_readdir64(DIR* folder) LH_IN_PLACE_OF(readdir64);
dirent64* our_readdir64(DIR* folder) {
  static_assert(sizeof(dirent) == sizeof(dirent64));
  return reinterpret_cast<dirent64*>(read_name(folder));
}
void our_rewinddir(DIR* folder) LH_IN_PLACE_OF(rewinddir);
void our_rewinddir(DIR* folder) {
  static auto* const next = next_function<void(DIR*)>("rewinddir");
  forget(folder);
  next(folder);
}
int our_closedir(DIR* folder) LH_IN_PLACE_OF(closedir);
int our_closedir(DIR* folder) {
  static auto* const next = next_function<int(DIR*)>("closedir");
  forget(folder);
  return next(folder);
}
}

}  // namespace longhaul::call_faults
