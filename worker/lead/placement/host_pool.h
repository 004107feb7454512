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

  // In the job's order, which is also the one in which srun assigns ranks.
  std::vector<std::string> working() const { return with({State::working}); }
  std::vector<std::string> spares() const { return with({State::spare}); }
  std::vector<std::string> left() const { return with({State::left, State::lost}); }
  // Of those that were left: which may come back.
  std::vector<std::string> lost() const { return with({State::lost}); }
  std::vector<std::string> returned() const;  // have come back, and do so only once
  std::vector<std::string> all() const;
  int wanted() const { return wanted_; }  // to work
  bool is_working(const std::string& host) const;
  // As many nodes work as were asked for.
  bool complete() const { return static_cast<int>(working().size()) == wanted_; }

  // No more than the first `working` of those that were not left get ranks from now on; the others are spares.
  void shrink_to(int working);
  // These nodes are there again, and the first `working` of all that are get ranks.
  void grow_to(int working, const std::vector<std::string>& back);
  // The node gets no ranks any more; a spare takes its place if one is there: complete() says.
  void leave(const std::string& host) { leave_as(host, State::left); }
  // The same, of a node that may come back: it was not heard of, or not fit. One that has come back before, or was left
  // for good, does not.
  void lose(const std::string& host) { leave_as(host, State::lost); }
  // It has come back in the life of an earlier lead.
  void note_returned(const std::string& host);

 private:
  enum class State { working, spare, lost, left };
  struct Host {
    std::string name;
    State state = State::working;
    bool returned = false;
  };
  std::vector<std::string> with(std::initializer_list<State> states) const;
  void leave_as(const std::string& host, State state);
  void assign();  // the first `wanted_` that were not left work, the others are spares
  std::vector<Host> hosts_;
  int wanted_ = 0;
};

}  // namespace longhaul
