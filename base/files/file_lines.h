// Files of lines that may be too long to be read whole. What files hold is the reader's to know.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace longhaul {

// Up to the first `bytes_max` bytes; "" where the file cannot be read.
std::string file_beginning(const std::string& path, std::size_t bytes_max);
// Of such a beginning, what ends with a line break or with the file: a line that goes on behind it is left out.
std::string_view whole_lines(std::string_view beginning, std::size_t bytes_max);

// Calls `see` for every line that ends with a line break, which it is given without, and holds about a MiB and the
// longest line at a time. A file that cannot be read has no lines.
void for_each_line(const std::string& path, const std::function<void(std::string_view)>& see);

}  // namespace longhaul
