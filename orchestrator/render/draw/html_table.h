// Text of others for a page, and rows of it as an HTML table, the first as its head. Cells are text; they are escaped
// here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/text/text.h"

namespace longhaul {

// `text` without anything that a browser takes for markup, and with U+FFFD for what is no UTF-8.
inline std::string html_text(std::string_view text) {
  return html_escape(repair_utf8(text));
}

inline std::string html_table(const std::vector<std::vector<std::string>>& rows) {
  std::string html = "<div class=\"scroll\"><table>";
  for (std::size_t row = 0; row < rows.size(); ++row) {
    html += "<tr>";
    for (const std::string& cell : rows[row]) html += (row == 0 ? "<th>" : "<td>") + html_text(cell);
    html += "</tr>";
  }
  return html + "</table></div>";
}

}  // namespace longhaul
