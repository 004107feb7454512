#include "orchestrator/workflow/source/figure_check.h"

#include "base/text/text.h"
#include "contracts/figures/figure_table.h"

namespace longhaul {

void check_figure(const std::string& kind, const std::string& figure, const std::string& where, const SourcePos& place,
                  Diagnostics& diagnostics) {
  if (figure.empty() || reports_at_end(kind, figure)) return;
  const std::vector<std::string> known = figures_at_end(kind);
  const std::string nearest = nearest_word(figure, known);
  diagnostics.add(place, format("{} = \"{}\": a {} stage reports no such figure", where, figure, kind),
                  nearest.empty()
                      ? "there are: " + join(known, ", ") + "; docs/reference/figures.md says what they mean"
                      : "did you mean '" + nearest + "'?");
}

}  // namespace longhaul
