// Rows as an HTML table, the first as its head. Cells are text; they are escaped here.
#pragma once

#include <string>
#include <vector>

namespace longhaul {

std::string html_table(const std::vector<std::vector<std::string>>& rows);

}  // namespace longhaul
