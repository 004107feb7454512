#include "worker/lead/connections/strangers.h"

#include <map>
#include <tuple>

namespace longhaul {

std::size_t stranger_to_drop(std::span<const Stranger> strangers) {
  std::map<std::string, int> of_address;
  for (const Stranger& one : strangers) ++of_address[one.address];
  const auto rank_of = [&](const Stranger& one) {
    return std::tuple(one.outside, of_address.at(one.address), -one.since_ns);
  };
  std::size_t worst = 0;
  for (std::size_t i = 1; i < strangers.size(); ++i)
    if (rank_of(strangers[i]) > rank_of(strangers[worst])) worst = i;
  return worst;
}

}  // namespace longhaul
