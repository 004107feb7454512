#include "base/files/file_lines.h"

#include <unistd.h>

#include <vector>

#include "base/files/owned_files.h"

namespace longhaul {
namespace {

constexpr std::size_t read_bytes = 1 << 20;

}  // namespace

std::string file_beginning(const std::string& path, std::size_t bytes_max) {
  const auto file = open_to_read(path);
  std::string text(bytes_max, '\0');
  std::size_t done = 0;
  while (file.ok() && done < bytes_max) {
    const ssize_t got = ::read(file->get(), text.data() + done, bytes_max - done);
    if (got <= 0) break;
    done += static_cast<std::size_t>(got);
  }
  text.resize(done);
  return text;
}

std::string_view whole_lines(std::string_view beginning, std::size_t bytes_max) {
  if (beginning.size() < bytes_max) return beginning;
  return beginning.substr(0, beginning.rfind('\n') + 1);  // npos + 1 is 0
}

void for_each_line(const std::string& path, const std::function<void(std::string_view)>& see) {
  const auto file = open_to_read(path);
  std::string text;  // what is left of the last read, and the next
  std::vector<char> buffer(read_bytes);
  while (file.ok()) {
    const ssize_t got = ::read(file->get(), buffer.data(), buffer.size());
    if (got <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(got));
    std::size_t begin = 0;
    for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
      see(std::string_view(text).substr(begin, end - begin));
    text.erase(0, begin);
  }
}

}  // namespace longhaul
