// What a device's kernels took, by their names: what is left of a step when its waits for other ranks are taken out.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul {

// Of NCCL: it lasts as long as the slowest rank lets it, and says nothing of this one.
bool is_communication_kernel(std::string_view name);

struct KernelTime {
  std::string name;
  std::int64_t count = 0;
  std::int64_t ns = 0;
};

class KernelTable {
 public:
  void add(std::string_view name, std::int64_t ns, std::int64_t count = 1);
  void merge(const KernelTable& other);
  void clear() { *this = {}; }
  bool empty() const { return times_.empty(); }

  std::int64_t compute_ns() const { return compute_ns_; }
  std::int64_t communication_ns() const { return communication_ns_; }
  // Those that took longest altogether, the longest first; communication among them.
  std::vector<KernelTime> longest(std::size_t most) const;

 private:
  struct Total {
    std::int64_t count = 0, ns = 0;
  };
  std::map<std::string, Total, std::less<>> times_;
  std::int64_t compute_ns_ = 0, communication_ns_ = 0;
};

}  // namespace longhaul
