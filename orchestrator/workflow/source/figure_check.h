// A figure that a workflow compares by (`best`, a search's metric) is looked up before anything runs: a name that the
// stage does not report would be found out after the last training only.
#pragma once

#include <string>

#include "base/error/diagnostics.h"

namespace longhaul {

// `where` names the key, `place` is where its value stands. Of a command's figures nothing is known.
void check_figure(const std::string& kind, const std::string& figure, const std::string& where, const SourcePos& place,
                  Diagnostics& diagnostics);

}  // namespace longhaul
