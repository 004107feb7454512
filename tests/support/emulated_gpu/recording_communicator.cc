#include "tests/support/emulated_gpu/recording_communicator.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <utility>

namespace longhaul::testing {
namespace {

void copy(ConstBytes from, Bytes to) {
  const std::size_t n = std::min(from.size(), to.size());
  if (n > 0 && from.data() != to.data()) std::memmove(to.data(), from.data(), n);
}

class RecordedOperation final : public CommOperation {
 public:
  RecordedOperation(CommunicationRecord& record, int post, std::function<void()> deliver)
      : record_(record), post_(post), deliver_(std::move(deliver)) {}

  Result<bool> poll() override {
    if (waited_for_) deliver_();
    return waited_for_;
  }
  std::vector<int> waiting_for() override { return {}; }
  // Only a wait goes to sleep.
  bool doze() override {
    waited_for_ = true;
    RecordedAction wait;
    wait.waits = true, wait.post = post_;
    record_.actions.push_back(wait);
    return true;
  }
  void abandon(const std::string&) override {}

 private:
  CommunicationRecord& record_;
  int post_;
  std::function<void()> deliver_;
  bool waited_for_ = false;
};

class RecordingCommunicator final : public Communicator {
 public:
  RecordingCommunicator(CommunicationRecord& record, int axis, int rank, std::vector<int> members,
                        const std::string& name, const CommOptions& options)
      : Communicator(rank, members, 1, name, options), record_(record), group_(static_cast<int>(record.groups.size())) {
    record_.groups.push_back({axis, rank, std::move(members)});
  }

  std::unique_ptr<Communicator> subgroup(int axis, const std::string& name, std::span<const int> ranks) override {
    std::vector<int> chosen;
    for (const int r : ranks) chosen.push_back(members()[static_cast<std::size_t>(r)]);
    const int own = static_cast<int>(std::ranges::find(ranks, rank()) - ranks.begin());
    return std::make_unique<RecordingCommunicator>(record_, axis, own, std::move(chosen), name, options());
  }

 protected:
  Result<std::unique_ptr<CommOperation>> start(const Arguments& a) override {
    LH_ASSERT(a.record == nullptr, "contributions are not compared where there is one rank");
    RecordedAction post;
    post.post = record_.posts++, post.group = group_, post.kind = a.kind;
    post.peer = a.peer, post.from = a.from, post.tag = a.tag;
    record_.actions.push_back(post);
    return std::unique_ptr<CommOperation>(std::make_unique<RecordedOperation>(
        record_, post.post, [kind = a.kind, in = a.in, out = a.out, ranks = size(), own = rank()] {
          deliver(kind, in, out, static_cast<std::size_t>(ranks), static_cast<std::size_t>(own));
        }));
  }
  Result<std::unique_ptr<CommOperation>> start_exchange(const Arguments& a) override { return start(a); }

 private:
  static void deliver(CollectiveKind kind, ConstBytes in, Bytes out, std::size_t ranks, std::size_t own) {
    switch (kind) {
      case CollectiveKind::all_gather:
        for (std::size_t r = 0; r < ranks; ++r) copy(in, out.subspan(r * in.size(), in.size()));
        return;
      case CollectiveKind::reduce_scatter_sum: return copy(in.subspan(own * out.size(), out.size()), out);
      case CollectiveKind::recv: std::ranges::fill(out, std::byte{0}); return;
      default: return copy(in, out);
    }
  }

  CommunicationRecord& record_;
  int group_;
};

}  // namespace

std::unique_ptr<Communicator> make_recording_communicator(CommunicationRecord& record, int rank, int size,
                                                          const CommOptions& options) {
  std::vector<int> members(static_cast<std::size_t>(size));
  std::iota(members.begin(), members.end(), 0);
  return std::make_unique<RecordingCommunicator>(record, 0, rank, std::move(members), "world", options);
}

}  // namespace longhaul::testing
