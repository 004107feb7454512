// Every message that one rank sends is received by the other, in the order of the sends.
#include "contracts/pipeline/pipeline_messages.h"

#include <doctest/doctest.h>

#include <map>
#include <tuple>

#include "base/digest/philox.h"
#include "contracts/pipeline/pipeline_schedule.h"

using namespace longhaul;

TEST_CASE("a forward hands on to the next stage, a backward to the one before, round the ranks") {
  using Kind = ScheduleOp::Kind;
  using Peer = PipelineMessages::Peer;
  const auto first = pipeline_messages(2, 2, 0, {Kind::forward, 0, 0});
  CHECK(!first.receive);
  CHECK(first.send == Peer{1, 1});
  const auto wrapped = pipeline_messages(2, 2, 0, {Kind::forward, 0, 1});  // stage 2, after chunk 0 of rank 1
  CHECK(wrapped.receive->pp_rank == 1);
  CHECK(wrapped.receive->tag == pipeline_messages(2, 2, 1, {Kind::forward, 0, 0}).send->tag);
  const auto loss = pipeline_messages(2, 2, 1, {Kind::forward, 0, 1});
  CHECK(loss.receive);
  CHECK(!loss.send);
  const auto loss_gradient = pipeline_messages(2, 2, 1, {Kind::backward_input, 0, 1});
  CHECK(!loss_gradient.receive);
  CHECK(loss_gradient.send->pp_rank == 0);
  CHECK(!pipeline_messages(2, 2, 0, {Kind::backward, 0, 0}).send);
  const auto weight = pipeline_messages(2, 2, 0, {Kind::backward_weight, 0, 1});
  CHECK(!weight.receive);
  CHECK(!weight.send);
}

TEST_CASE("each send has one receive, in matching order per peer and tag") {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    CAPTURE(seed);
    PhiloxSequence random(seed);
    const auto draw = [&](int first, int last) {
      return first + static_cast<int>(random.next_below(static_cast<std::uint64_t>(last - first + 1)));
    };
    const auto kind = static_cast<PipelineKind>(random.next_below(3));
    const int pp = draw(1, 6);
    const int vp = kind == PipelineKind::one_f_one_b || pp == 1 ? 1 : draw(2, seed % 3 == 0 ? 200 : 4);
    const int m = draw(1, seed % 3 == 0 ? 12 : seed % 3 == 1 ? 700 : 20);
    if (kind == PipelineKind::interleaved && vp == 1) continue;
    CAPTURE(std::string(to_string(kind)));
    CAPTURE(pp);
    CAPTURE(vp);
    CAPTURE(m);
    // What travels: the direction, the micro-batch, and the stage that sends it.
    using Message = std::tuple<bool, int, int>;
    std::map<std::tuple<int, int, int>, std::vector<Message>> sent, received;  // by (from, to, tag)
    const auto lists = pipeline_schedules({kind, pp, vp, m, 0}).value();
    bool tags_fit = true;
    for (int rank = 0; rank < pp; ++rank)
      for (const ScheduleOp& op : lists[static_cast<std::size_t>(rank)]) {
        const bool forward = op.kind == ScheduleOp::Kind::forward;
        const int stage = op.chunk * pp + rank;
        const PipelineMessages messages = pipeline_messages(pp, vp, rank, op);
        if (const auto& from = messages.receive) {
          received[{from->pp_rank, rank, from->tag}].push_back({forward, op.micro_batch, stage + (forward ? -1 : 1)});
          tags_fit = tags_fit && from->tag >= 0 && from->tag < 1024;
        }
        if (const auto& to = messages.send) {
          sent[{rank, to->pp_rank, to->tag}].push_back({forward, op.micro_batch, stage});
          tags_fit = tags_fit && to->tag >= 0 && to->tag < 1024;
        }
      }
    CHECK(tags_fit);
    CHECK((sent == received));
    std::size_t count = 0;
    std::map<int, int> ways;  // of each rank: kinds of message that it sends
    for (const auto& [key, messages] : sent) {
      count += messages.size();
      ++ways[std::get<0>(key)];
    }
    for (const auto& [rank, kinds] : ways) CHECK(kinds <= 2);  // however many chunks and micro-batches
    CHECK(count == static_cast<std::size_t>(2 * m * (pp * vp - 1)));
  }
}
