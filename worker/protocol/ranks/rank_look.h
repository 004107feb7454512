// What is seen of a rank at one moment, by its page and its process.
#pragma once

#include <functional>

#include "base/system/clock.h"
#include "worker/protocol/node/node_report.h"

namespace longhaul {

// `page` is read, then its process looked at; once more where that has ended, for it may have written and ended in
// between (that it has finished, or why it failed), and a rank that has finished would count as one that died.
RankReport look_at_rank(const std::function<BeatSnapshot()>& page,
                        const std::function<ProcessState(std::int64_t pid)>& process, const Clock& clock);

}  // namespace longhaul
