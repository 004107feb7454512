#include "contracts/control/rendezvous_folder.h"

#include "base/files/files.h"

namespace longhaul {
namespace {

constexpr const char *carried_folder = "carried", *wanted_folder = "wanted", *refused_folder = "refused";

bool is_of_key(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
}

}  // namespace

bool is_store_key(std::string_view name) {
  if (name.empty() || name.size() > store_key_max || name.front() == '.') return false;
  for (const char c : name)
    if (!is_of_key(c)) return false;
  return name.find(".tmp.") == std::string_view::npos && name != carried_folder && name != wanted_folder &&
         name != refused_folder;
}

std::string carried_entries_folder(const std::string& store_dir) {
  return join_path(store_dir, carried_folder);
}
std::string wanted_entries_folder(const std::string& store_dir) {
  return join_path(store_dir, wanted_folder);
}
std::string refused_entries_folder(const std::string& store_dir) {
  return join_path(store_dir, refused_folder);
}

}  // namespace longhaul
