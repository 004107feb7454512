#include "engine/align/pair_loss.h"

#include <algorithm>
#include <string>

#include "base/error/result.h"

namespace longhaul {

const std::vector<PairLossMethod>& pair_loss_methods() {
  static const std::vector<PairLossMethod> methods = {{"dpo", dpo_loss},     {"robust", robust_dpo_loss},
                                                      {"ipo", ipo_loss},     {"hinge", hinge_loss},
                                                      {"simpo", simpo_loss}, {"orpo", orpo_loss}};
  return methods;
}

const PairLossMethod& pair_loss_method(std::string_view name) {
  const std::vector<PairLossMethod>& methods = pair_loss_methods();
  const auto found = std::ranges::find_if(methods, [&](const PairLossMethod& one) { return one.name == name; });
  LH_ASSERT(found != methods.end(), std::string(name));
  return *found;
}

}  // namespace longhaul
