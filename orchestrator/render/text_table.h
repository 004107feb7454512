// Columns of text with two blanks between them; the last column is not padded. UTF-8 counts by code points.
#pragma once

#include <string>
#include <vector>

namespace longhaul {

std::string text_table(const std::vector<std::vector<std::string>>& rows);

// At most `columns` code points; "…" stands for what was cut.
std::string clipped(const std::string& text, std::size_t columns);

}  // namespace longhaul
