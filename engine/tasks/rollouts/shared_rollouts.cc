#include "engine/tasks/rollouts/shared_rollouts.h"

#include <cstring>
#include <type_traits>

namespace longhaul {

namespace {

class Packer {
 public:
  template <class T>
  void number(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  template <class Values>
  void values(const Values& of) {
    number(of.size());
    bytes.append(reinterpret_cast<const char*>(of.data()), of.size() * sizeof of[0]);
  }
  std::string bytes;
};

// Of what a Packer made in a program that is the same.
class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : rest_(bytes) {}
  bool is_done() const { return rest_.empty(); }
  template <class T>
  void number(T& value) {
    take(&value, sizeof value);
  }
  template <class Values>
  void values(Values& of) {
    std::size_t size = 0;
    number(size);
    of.resize(size);
    take(of.data(), size * sizeof of[0]);
  }

 private:
  void take(void* out, std::size_t size) {
    LH_ASSERT(size <= rest_.size(), std::to_string(size));
    if (size > 0) std::memcpy(out, rest_.data(), size);
    rest_.remove_prefix(size);
  }
  std::string_view rest_;
};

void pack(const Rollout& rollout, Packer& out) {
  out.values(rollout.tokens.ids), out.values(rollout.tokens.loss_mask);
  out.values(rollout.drawn), out.values(rollout.reference);
  out.number(rollout.reward.value.has_value()), out.number(rollout.reward.value.value_or(0));
  out.values(rollout.reward.problem);
  out.number(rollout.cut), out.number(rollout.turns), out.number(rollout.read);
  out.number(rollout.environment_failed);
  out.number(rollout.drafted), out.number(rollout.accepted), out.number(rollout.decode_steps);
}

Rollout unpack(Unpacker& in) {
  Rollout rollout;
  bool judged = false;
  double reward = 0;
  in.values(rollout.tokens.ids), in.values(rollout.tokens.loss_mask);
  in.values(rollout.drawn), in.values(rollout.reference);
  in.number(judged), in.number(reward);
  if (judged) rollout.reward.value = reward;
  in.values(rollout.reward.problem);
  in.number(rollout.cut), in.number(rollout.turns), in.number(rollout.read);
  in.number(rollout.environment_failed);
  in.number(rollout.drafted), in.number(rollout.accepted), in.number(rollout.decode_steps);
  return rollout;
}

}  // namespace

std::string pack_rollouts(const std::vector<Rollout>& rollouts) {
  Packer packed;
  for (const Rollout& rollout : rollouts) pack(rollout, packed);
  return std::move(packed.bytes);
}

std::vector<Rollout> unpack_rollouts(std::string_view bytes) {
  std::vector<Rollout> rollouts;
  for (Unpacker in(bytes); !in.is_done();) rollouts.push_back(unpack(in));
  return rollouts;
}

Result<std::vector<Rollout>> share_rollouts(CollectiveGroup& ranks, const std::vector<Rollout>& own, std::size_t count,
                                            std::size_t group) {
  LH_TRY(const std::vector<std::string> all, ranks.all_gather_text(pack_rollouts(own)));
  std::vector<Unpacker> of_ranks;
  for (const std::string& bytes : all) of_ranks.emplace_back(bytes);
  std::vector<Rollout> rollouts;
  for (std::size_t i = 0; i < count; ++i)
    rollouts.push_back(unpack(of_ranks[static_cast<std::size_t>(drawn_by(i, group, ranks.size()))]));
  return rollouts;
}

}  // namespace longhaul
