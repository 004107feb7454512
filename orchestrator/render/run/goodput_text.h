// Where the time of trainings went, for people, for machines and for the report.
#pragma once

#include <string>
#include <vector>

#include "base/value/value.h"
#include "orchestrator/state/stage_goodput.h"

namespace longhaul {

// "95.1 % training, 1.2 % recompute, ...": classes of at least 0.05 %, largest first.
std::string time_shares_text(const GoodputLedger& ledger);

// For every stage a line with its effective training time, then its newest faults with what they cost. "" for none.
std::string goodput_text(const std::vector<StageGoodput>& stages, std::size_t faults_max = 5);
// Seconds by class, and every fault.
Value goodput_value(const std::vector<StageGoodput>& stages);
std::string goodput_html(const std::vector<StageGoodput>& stages);

}  // namespace longhaul
