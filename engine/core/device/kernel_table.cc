#include "engine/core/device/kernel_table.h"

#include <algorithm>

namespace longhaul {

bool is_communication_kernel(std::string_view name) {
  return name.find("ncclDevKernel") != std::string_view::npos || name.find("ncclKernel") != std::string_view::npos;
}

void KernelTable::add(std::string_view name, std::int64_t ns, std::int64_t count) {
  auto found = times_.find(name);
  if (found == times_.end()) found = times_.emplace(std::string(name), Total()).first;
  found->second.count += count, found->second.ns += ns;
  (is_communication_kernel(name) ? communication_ns_ : compute_ns_) += ns;
}

void KernelTable::merge(const KernelTable& other) {
  for (const auto& [name, total] : other.times_) add(name, total.ns, total.count);
}

std::vector<KernelTime> KernelTable::longest(std::size_t most) const {
  std::vector<KernelTime> all;
  for (const auto& [name, total] : times_) all.push_back({name, total.count, total.ns});
  std::stable_sort(all.begin(), all.end(), [](const KernelTime& a, const KernelTime& b) { return a.ns > b.ns; });
  all.resize(std::min(all.size(), most));
  return all;
}

}  // namespace longhaul
