#include "engine/ops/cuda/operations/attention_ways.h"

#include <utility>

#include "base/text/text.h"

namespace longhaul::cuda {
namespace {

// Lengths that are always new (texts of any length) would make plans without end. Trainings have a few.
constexpr std::size_t cases_max = 64;

}  // namespace

Status AttentionWays::use(const AttentionSettings& settings, AttentionObserver observer) {
  settings_ = settings, observer_ = std::move(observer);
  ways_.clear();
  if (settings.backend != "cudnn") return {};
  open_library();
  if (facts_.usable) return {};
  return make_error(ErrorCode::unsupported, "attention_backend is cudnn, but: " + facts_.why_not,
                    "make cuDNN available there, or set attention_backend to \"auto\" or \"own\"");
}

void AttentionWays::open_library() {
  if (library_ != nullptr || !facts_.why_not.empty()) return;
  if (!open_) {
    facts_.why_not = "this program has no cuDNN";
    return;
  }
  Result<std::unique_ptr<DeviceAttention>> opened = open_();
  if (!opened.ok()) {
    facts_.why_not = opened.error().message();
    return;
  }
  library_ = std::move(*opened);
  facts_ = library_->facts();
}

AttentionWay AttentionWays::way_of(const AttentionCase& asked) {
  if (const auto known = ways_.find(asked); known != ways_.end()) return known->second;
  if (ways_.size() >= cases_max) return own_attention(asked);
  if (settings_.backend != "own") open_library();
  AttentionChoice choice = choose_attention(asked, settings_, facts_);
  if (choice.way == AttentionWay::cudnn)
    if (const Status ready = library_->prepare(asked, settings_.deterministic); !ready.ok())
      choice = {own_attention(asked), ready.error().message()};
  if (observer_) observer_({asked, choice});
  ways_.emplace(asked, choice.way);
  if (ways_.size() == cases_max && observer_)
    observer_({asked,
               {choice.way, format("the last of {} kinds that are reported and may take cuDNN; others take "
                                   "the own kernels",
                                   cases_max)}});
  return choice.way;
}

}  // namespace longhaul::cuda
