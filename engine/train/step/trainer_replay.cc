// Trainer: are gradients computed rightly? Every so many steps each data-parallel rank computes the first micro-batch
// of its neighbour before the step, and the neighbour's own result in the step must have the same bits. Where it has
// not, the update is not made, and all compute again until it is clear who is wrong (replay_verdict.h).
#include <algorithm>
#include <cstdlib>

#include "base/text/text.h"
#include "engine/train/step/replay_verdict.h"
#include "engine/train/step/trainer.h"

namespace longhaul {
namespace {

// What one rank has computed, of whom.
struct Digests {
  enum Field { own, neighbour, own_again, neighbour_again, third, fields };
  std::uint64_t of[fields] = {};
};

// Bits of a digest travel as two whole numbers.
Result<std::vector<Digests>> gather_digests(CollectiveGroup& ranks, const Digests& mine) {
  constexpr std::size_t width = 2 * Digests::fields;
  std::vector<double> packed(width), all(width * static_cast<std::size_t>(ranks.size()));
  for (std::size_t i = 0; i < Digests::fields; ++i) {
    packed[2 * i] = static_cast<double>(mine.of[i] >> 32U);
    packed[2 * i + 1] = static_cast<double>(mine.of[i] & 0xffffffffU);
  }
  LH_CHECK(ranks.all_gather(std::span<const double>(packed), all));
  std::vector<Digests> found(static_cast<std::size_t>(ranks.size()));
  for (std::size_t r = 0; r < found.size(); ++r)
    for (std::size_t i = 0; i < Digests::fields; ++i)
      found[r].of[i] = static_cast<std::uint64_t>(all[r * width + 2 * i]) << 32U |
                       static_cast<std::uint64_t>(all[r * width + 2 * i + 1]);
  return found;
}

std::size_t next(std::size_t rank, std::size_t ranks) {
  return (rank + 1) % ranks;
}

}  // namespace

bool Trainer::replays(std::int64_t step) const {
  return options_.replay_every > 0 && mesh_.data().size() > 1 && step % options_.replay_every == 0;
}

Result<std::uint64_t> Trainer::compute_first_of(int distance) {
  CollectiveGroup& data = mesh_.data();
  const std::int64_t of = (data.rank() + distance) % data.size();
  source_.begin_step(progress_.step + 1, skipped_samples_);
  const std::int64_t first =
      progress_.consumed_samples + skipped_samples_ + of * micro_batches_ * options_.micro_batch_size;
  LH_CHECK(mesh_.whole().agree(fill(source_, first, options_.micro_batch_size, batches_.front(), true)));
  PipelineSettings pipeline = options_.pipeline;
  pipeline.group = 0;  // of one micro-batch
  LH_TRY(const PipelineScheduleSettings settings, schedule_settings(pipeline, mesh_.dims(), 1));
  LH_TRY(schedule_, pipeline_schedule(settings, mesh_.at().pp));
  digest_.begin(gradient_flip());
  std::vector<ObjectiveSums> sums;
  LH_CHECK(run_schedule(sums, {[this](int) { return digest_.watch(gradient_->scratch(context_)); }, {}}));
  for (Llama* stage : stages_)
    if (stage->experts()) (void)stage->experts()->take_totals();  // of no step
  return digest_.value();
}

Status Trainer::replay_neighbour() {
  LH_TRY(replayed_, compute_first_of(1));
  return {};
}

Status Trainer::compare_replays(std::int64_t step) {
  CollectiveGroup& data = mesh_.data();
  const auto ranks = static_cast<std::size_t>(data.size());
  Digests mine;
  mine.of[Digests::own] = digest_of_first_, mine.of[Digests::neighbour] = replayed_;
  LH_TRY(std::vector<Digests> all, gather_digests(data, mine));
  bool differs = false;
  for (std::size_t r = 0; r < ranks; ++r)
    differs |= all[r].of[Digests::neighbour] != all[next(r, ranks)].of[Digests::own];
  const double told = differs ? 1 : 0;
  std::vector<double> of_world(static_cast<std::size_t>(group().size()));
  LH_CHECK(group().all_gather(std::span<const double>(&told, 1), of_world));
  if (std::ranges::all_of(of_world, [](double one) { return one == 0; })) {
    sound_step_ = step;
    return {};
  }
  // The step is over, its sums are of no use any more: their memory is. All compute, for ranks of a replica work
  // together.
  LH_TRY(mine.of[Digests::own_again], compute_first_of(0));
  LH_TRY(mine.of[Digests::neighbour_again], compute_first_of(1));
  if (ranks > 2) {
    LH_TRY(mine.of[Digests::third], compute_first_of(2));
  }
  LH_TRY(all, gather_digests(data, mine));
  const std::vector<int>& members = data.communicator()->members();
  std::string findings;  // "<rank of the world, -1: not known> <reason>", a line each
  for (std::size_t r = 0; r < ranks && data.is_first(); ++r) {
    const std::size_t owner = next(r, ranks);
    if (all[r].of[Digests::neighbour] == all[owner].of[Digests::own]) continue;
    ReplayRound round;
    round.owner = members[owner], round.replayer = members[r];
    round.first = all[owner].of[Digests::own], round.replay = all[r].of[Digests::neighbour];
    round.first_again = all[owner].of[Digests::own_again], round.replay_again = all[r].of[Digests::neighbour_again];
    if (ranks > 2) {
      const std::size_t third = (r + ranks - 1) % ranks;
      round.third = members[third], round.third_digest = all[third].of[Digests::third];
    }
    const ReplayJudgement judged = judge_replay(step, round);
    findings += format("{} {}\n", judged.rank, judged.reason);
  }
  LH_TRY(const std::vector<std::string> texts, group().all_gather_text(findings));
  // Several disagreements have one cause: a rank that is wrong disagrees with both neighbours.
  SilentCorruption found;
  found.step = step, found.sound_step = sound_step_, found.decided = false;
  std::vector<std::string> reasons;
  for (const std::string& text : texts)
    for (const std::string& line : split(text, '\n')) {
      if (line.empty()) continue;
      const int rank = std::atoi(line.c_str());
      if (rank >= 0 && !found.decided) found.rank = rank, found.decided = true;
      reasons.push_back(line.substr(line.find(' ') + 1));
    }
  if (!found.decided) found.rank = 0;  // who speaks
  found.what = format("the gradient of a micro-batch of step {}: {}; the update was not made", step,
                      longhaul::join(reasons, "; "));
  corruption_ = found;
  return corruption_error();
}

}  // namespace longhaul
