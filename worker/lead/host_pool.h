// The nodes of a job: those that work, those that wait for one of them to fail, and those that were left. Pure.
#pragma once

#include <string>
#include <vector>

namespace longhaul {

class HostPool {
 public:
  // All nodes in the job's order, of which the first `working` get ranks; the rest are spares.
  HostPool() = default;
  HostPool(const std::vector<std::string>& hosts, int working);

  // In the job's order, which is also the one in which srun deals ranks.
  std::vector<std::string> working() const { return with(State::working); }
  std::vector<std::string> spares() const { return with(State::spare); }
  std::vector<std::string> left() const { return with(State::left); }
  std::vector<std::string> all() const;
  int wanted() const { return wanted_; }  // to work
  bool is_working(const std::string& host) const;
  // As many nodes work as were asked for.
  bool complete() const { return static_cast<int>(working().size()) == wanted_; }

  // No more than the first `working` of those that were not left get ranks from now on; the others are spares.
  void shrink_to(int working);
  // The node gets no ranks any more; a spare takes its place if one is there: complete() says.
  void leave(const std::string& host);

 private:
  enum class State { working, spare, left };
  struct Host {
    std::string name;
    State state = State::working;
  };
  std::vector<std::string> with(State state) const;
  std::vector<Host> hosts_;
  int wanted_ = 0;
};

}  // namespace longhaul
