#include "base/process/program_trust.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/files.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

std::string user_name(uid_t uid) {
  char buffer[4096];
  passwd entry{}, *found = nullptr;
  if (::getpwuid_r(uid, &entry, buffer, sizeof buffer, &found) == 0 && found) return found->pw_name;
  return std::to_string(uid);
}

// "" where only the caller and root may change what lies there.
std::string writers_text(const struct stat& info) {
  std::string text;
  if (info.st_uid != 0 && info.st_uid != ::geteuid()) text = "belongs to " + user_name(info.st_uid);
  const char* who = (info.st_mode & S_IWOTH) != 0 ? "everybody" : (info.st_mode & S_IWGRP) != 0 ? "a group" : "";
  if (*who) text += format("{}may be written by {}", text.empty() ? "" : " and ", who);
  return text;
}

}  // namespace

std::vector<std::string> search_path_problems(const std::string& folders) {
  std::vector<std::string> problems;
  for (const std::string& folder : split(folders, ':')) {
    if (!starts_with(folder, "/")) {
      problems.push_back(format("'{}' is the current folder or one below it, whatever that is", folder));
      continue;
    }
    struct stat info{};
    if (::stat(folder.c_str(), &info) != 0) continue;
    if (const std::string writers = writers_text(info); !writers.empty())
      problems.push_back(format("{} {} (mode {:04o})", folder, writers, info.st_mode & 07777));
  }
  return problems;
}

Result<std::string> find_program(const std::string& name, const std::string& folders) {
  for (const std::string& folder : split(folders, ':'))
    if (const std::string path = join_path(folder.empty() ? "." : folder, name); ::access(path.c_str(), X_OK) == 0)
      return path;
  return make_error(ErrorCode::not_found, name + " is not in PATH");
}

std::string owner_text(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return "not there";
  return format("owner {}, mode {:04o}{}", user_name(info.st_uid), info.st_mode & 07777,
                writers_text(info).empty() ? "" : "; OTHERS MAY CHANGE IT: it " + writers_text(info));
}

}  // namespace longhaul
