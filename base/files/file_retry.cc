#include "base/files/file_retry.h"

#include "base/files/files.h"

namespace longhaul {

Result<std::vector<std::string>> names_if_there(const std::string& folder) {
  auto names = list_directory(folder);
  if (!names.ok() && names.error().code == ErrorCode::not_found) return std::vector<std::string>();
  return names;
}

Result<std::string> text_if_there(const std::string& path) {
  auto text = read_file(path);
  if (!text.ok() && text.error().code == ErrorCode::not_found) return std::string();
  return text;
}

}  // namespace longhaul
