#include "tests/support/emulated_gpu/simulated_ranks.h"

#include <algorithm>
#include <deque>

#include "base/text/text.h"

namespace longhaul::testing {
namespace {

using Kind = SimulatedAction::Kind;

// splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : state_(seed) {}
  std::size_t below(std::size_t n) { return static_cast<std::size_t>((next() >> 32) * n >> 32); }

 private:
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  std::uint64_t state_;
};

// What a connection holds: a kernel of a communicator, or (-1) a product.
struct Item {
  int kernel = -1, queue = 0;
  int place = 0;           // in its queue
  int after_products = 0;  // how many have to have ended
};
struct Running {
  Item item;
  int held = 0;
  bool complete = false;  // it has all its multiprocessors
};

struct State {
  std::size_t next = 0;  // action of the host
  int free = 0, products = 0, products_ended = 0;
  std::vector<int> asked, ended;  // by queue
  std::vector<bool> done;         // by kernel
  std::vector<std::deque<Item>> connections;
  std::vector<int> busy;  // connections that hold anything
  std::vector<Running> running;
  bool active = true;
};

class Simulation {
 public:
  Simulation(const SimulatedLaunch& launch, const SimulatedDevice& device, std::uint64_t seed)
      : launch_(launch), device_(device), draws_(seed), host_first_(draws_.below(8)) {
    for (const SimulatedMeeting& meeting : launch.meetings) {
      came_.emplace_back(meeting.ranks.size(), 0);
      together_.emplace_back();
    }
    for (std::size_t r = 0; r < launch.ranks.size(); ++r) {
      const SimulatedRank& rank = launch.ranks[r];
      State& state = states_.emplace_back();
      state.free = device.multiprocessors;
      state.asked.assign(static_cast<std::size_t>(rank.queues), 0), state.ended = state.asked;
      state.done.assign(rank.kernels.size(), false);
      state.connections.resize(static_cast<std::size_t>(std::min(device.connections, rank.queues)));
      active_.push_back(static_cast<int>(r));
    }
  }

  SimulationResult run() {
    SimulationResult result;
    while (!active_.empty()) {
      const std::size_t drawn = draws_.below(active_.size());
      const int rank = active_[drawn];
      if (move(rank)) {
        ++result.moves;
        continue;
      }
      state(rank).active = false;
      active_[drawn] = active_.back();
      active_.pop_back();
    }
    for (std::size_t r = 0; r < states_.size(); ++r) {
      const State& s = states_[r];
      if (s.next == launch_.ranks[r].actions.size() && s.busy.empty() && s.running.empty()) continue;
      ++result.stuck;
      if (s.free == 0) ++result.full;
    }
    result.finished = result.stuck == 0;
    return result;
  }

 private:
  State& state(int rank) { return states_[static_cast<std::size_t>(rank)]; }
  const SimulatedRank& program(int rank) const { return launch_.ranks[static_cast<std::size_t>(rank)]; }
  const SimulatedKernel& kernel(int rank, int number) const {
    return program(rank).kernels[static_cast<std::size_t>(number)];
  }

  // One thing that can happen on this rank now; false: nothing can.
  bool move(int rank) {
    State& s = state(rank);
    if (draws_.below(8) < host_first_ && host(rank)) return true;
    const std::size_t ways = 1 + s.busy.size() + s.running.size();
    const std::size_t first = draws_.below(ways);
    for (std::size_t i = 0; i < ways; ++i) {
      const std::size_t way = (first + i) % ways;
      if (way == 0 ? host(rank) : way <= s.busy.size() ? dispatch(rank, way - 1) : go_on(rank, way - 1 - s.busy.size()))
        return true;
    }
    return false;
  }

  bool host(int rank) {
    State& s = state(rank);
    const SimulatedRank& p = program(rank);
    if (s.next == p.actions.size()) return false;
    const SimulatedAction& action = p.actions[s.next];
    if (action.kind == Kind::wait && !s.done[static_cast<std::size_t>(action.kernel)]) return false;
    if (action.kind == Kind::finish_products && s.products_ended < s.products) return false;
    if (action.kind == Kind::product) ask(s, -1, 0), ++s.products;
    if (action.kind == Kind::start) ask(s, action.kernel, kernel(rank, action.kernel).queue);
    ++s.next;
    return true;
  }

  void ask(State& s, int kernel, int queue) {
    const std::size_t c = static_cast<std::size_t>(queue) % s.connections.size();
    if (s.connections[c].empty()) s.busy.push_back(static_cast<int>(c));
    s.connections[c].push_back({kernel, queue, s.asked[static_cast<std::size_t>(queue)]++, s.products});
  }

  bool dispatch(int rank, std::size_t busy) {
    State& s = state(rank);
    std::deque<Item>& connection = s.connections[static_cast<std::size_t>(s.busy[busy])];
    const Item item = connection.front();
    if (s.ended[static_cast<std::size_t>(item.queue)] != item.place) return false;
    if (item.kernel >= 0 && s.products_ended < item.after_products) return false;
    connection.pop_front();
    if (connection.empty()) s.busy[busy] = s.busy.back(), s.busy.pop_back();
    s.running.push_back({item});
    return true;
  }

  bool go_on(int rank, std::size_t number) {
    State& s = state(rank);
    Running& r = s.running[number];
    const bool product = r.item.kernel < 0;
    const int wants = product ? 1 + static_cast<int>(draws_.below(static_cast<std::size_t>(device_.multiprocessors)))
                              : kernel(rank, r.item.kernel).blocks;
    if (!r.complete) {
      const int taken = std::min(s.free, wants - r.held);
      if (taken <= 0) return false;
      r.held += taken, s.free -= taken;
      r.complete = product || r.held == wants;
      if (r.complete && !product) come(kernel(rank, r.item.kernel));
      return true;
    }
    if (!product && !partners_came(kernel(rank, r.item.kernel))) return false;
    s.free += r.held;
    ++s.ended[static_cast<std::size_t>(r.item.queue)];
    if (product)
      ++s.products_ended;
    else
      s.done[static_cast<std::size_t>(r.item.kernel)] = true;
    s.running[number] = s.running.back();
    s.running.pop_back();
    return true;
  }

  void come(const SimulatedKernel& k) {
    const auto meeting = static_cast<std::size_t>(k.meeting), number = static_cast<std::size_t>(k.number);
    ++came_[meeting][static_cast<std::size_t>(k.member)];
    std::vector<int>& together = together_[meeting];
    if (together.size() <= number) together.resize(number + 1, 0);
    const bool all = ++together[number] == static_cast<int>(launch_.meetings[meeting].ranks.size());
    if (k.partners.empty() && !all) return;
    for (const int rank : launch_.meetings[meeting].ranks) {
      if (state(rank).active) continue;
      state(rank).active = true;
      active_.push_back(rank);
    }
  }

  bool partners_came(const SimulatedKernel& k) const {
    const auto meeting = static_cast<std::size_t>(k.meeting);
    if (k.partners.empty())
      return together_[meeting][static_cast<std::size_t>(k.number)] ==
             static_cast<int>(launch_.meetings[meeting].ranks.size());
    return std::ranges::all_of(
        k.partners, [&](int partner) { return came_[meeting][static_cast<std::size_t>(partner)] > k.number; });
  }

  const SimulatedLaunch& launch_;
  const SimulatedDevice& device_;
  Draws draws_;
  std::size_t host_first_;                  // of eight times: how far hosts run ahead
  std::vector<std::vector<int>> came_;      // by meeting and member: kernels that have all their multiprocessors
  std::vector<std::vector<int>> together_;  // by meeting and number: how many of the members' have
  std::vector<State> states_;
  std::vector<int> active_;  // ranks on which something may be able to happen
};

}  // namespace

std::string SimulationResult::text() const {
  if (finished) return format("finished after {} moves", moves);
  return format(
      "stopped after {} moves: {} ranks do not come to their end, on {} of them kernels that wait hold every "
      "multiprocessor",
      moves, stuck, full);
}

SimulationResult simulate(const SimulatedLaunch& launch, const SimulatedDevice& device, std::uint64_t seed) {
  return Simulation(launch, device, seed).run();
}

}  // namespace longhaul::testing
