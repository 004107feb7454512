// When a training that has shrunk may take back nodes that it had lost. Pure: what is seen of them and the time come
// from outside.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace longhaul {

class GrowBack {
 public:
  // A lost node, now: whether its agent is heard of and nothing speaks against it.
  struct Sight {
    std::string host;
    bool fit = false;
  };

  // `after_s`: a node is back once it was fit for so long without a break, and no launch is ended for it sooner after
  // it began. 0: no node ever is.
  explicit GrowBack(double after_s = 0) : after_ms_(static_cast<std::int64_t>(after_s * 1000)) {}
  void new_launch(std::int64_t now_ms) { launched_ms_ = now_ms; }
  // All nodes that are back, in the order given; empty as well while the launch is too young. Called often: what is not
  // among `lost` is forgotten.
  std::vector<std::string> look(std::int64_t now_ms, const std::vector<Sight>& lost);

 private:
  std::int64_t after_ms_;
  std::int64_t launched_ms_ = 0;
  std::map<std::string, std::int64_t> fit_since_ms_;
};

}  // namespace longhaul
