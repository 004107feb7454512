#include "orchestrator/render/draw/html_table.h"

#include "base/text/text.h"

namespace longhaul {

std::string html_table(const std::vector<std::vector<std::string>>& rows) {
  std::string html = "<div class=\"scroll\"><table>";
  for (std::size_t row = 0; row < rows.size(); ++row) {
    html += "<tr>";
    for (const std::string& cell : rows[row]) html += (row == 0 ? "<th>" : "<td>") + html_escape(repair_utf8(cell));
    html += "</tr>";
  }
  return html + "</table></div>";
}

}  // namespace longhaul
