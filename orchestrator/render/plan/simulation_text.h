// A study of simulated trainings, for people, for machines and as a page with plots.
#pragma once

#include <string>

#include "base/value/value.h"
#include "resiliency/simulate/study.h"

namespace longhaul {

std::string simulation_text(const Study& study);
Value simulation_value(const Study& study);
std::string simulation_html(const Study& study, std::int64_t now_ms);

}  // namespace longhaul
