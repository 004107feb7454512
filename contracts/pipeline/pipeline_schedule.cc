#include "contracts/pipeline/pipeline_schedule.h"

#include <algorithm>

#include "base/text/text.h"

namespace longhaul {
namespace {
constexpr PipelineKind kinds[] = {PipelineKind::one_f_one_b, PipelineKind::interleaved, PipelineKind::zb_h1};
// Beyond any machine, and small enough that all counts below fit an int.
constexpr int ranks_max = 1 << 16, chunks_max = 1 << 9;
constexpr std::int64_t forwards_max = 1 << 26;

Error refused(std::string what, std::string hint = {}) {
  return make_error(ErrorCode::invalid_input, std::move(what), std::move(hint));
}

Status check_settings(const PipelineScheduleSettings& s) {
  if (s.pp < 1 || s.vp < 1 || s.micro_batches < 1)
    return refused(format("pp = {}, vp = {} and micro-batches = {} must be at least 1", s.pp, s.vp, s.micro_batches));
  if (s.pp > ranks_max || s.vp > chunks_max || std::int64_t{s.micro_batches} * s.vp > forwards_max)
    return refused(format("pp({}) must not exceed {}, vp({}) {}, micro-batches({}) * vp {}", s.pp, ranks_max, s.vp,
                          chunks_max, s.micro_batches, forwards_max));
  if (s.kind == PipelineKind::one_f_one_b && s.vp > 1)
    return refused(format("schedule \"1f1b\" runs one chunk per rank, but vp = {}", s.vp),
                   "use schedule = \"interleaved\" or vp = 1");
  if (s.kind == PipelineKind::interleaved && s.vp == 1)
    return refused("schedule \"interleaved\" needs vp > 1", "use vp = 2 or schedule = \"1f1b\"");
  if (s.vp > 1 && s.pp == 1) return refused(format("vp = {} needs pp > 1", s.vp), "set vp = 1");
  return {};
}

// Does every group, and what is left of the last, hold a micro-batch for each rank?
bool group_fits(int group, int pp, int micro_batches) {
  const int left = micro_batches % group;
  return group >= pp && group <= micro_batches && (left == 0 || left >= pp);
}

// Nearest groups that fit this number of micro-batches, nearest numbers of micro-batches that fit this group.
Error bad_group(const PipelineScheduleSettings& s) {
  const int pp = s.pp, m = s.micro_batches, group = s.group;
  if (m < pp)
    return refused(format("group = {} does not fit {} micro-batches on pp = {} ranks", group, m, pp),
                   format("use group = 0, or at least {} micro-batches", pp));
  std::vector<std::string> groups;
  int below = std::min(group, m), above = std::clamp(group, pp, m);
  while (below >= pp && !group_fits(below, pp, m)) --below;
  while (!group_fits(above, pp, m)) ++above;  // m itself fits
  if (below >= pp) groups.push_back(std::to_string(below));
  if (above != below) groups.push_back(std::to_string(above));
  const std::string use_group = "use group = " + join(groups, " or ");
  if (group < pp) return refused(format("group = {} is smaller than pp = {}", group, pp), use_group);
  if (group > m) return refused(format("group = {} is larger than the {} micro-batches", group, m), use_group);
  const int left = m % group;
  return refused(format("group = {} leaves {} of {} micro-batches, fewer than pp = {}", group, left, m, pp),
                 format("{}, or {} or {} micro-batches", use_group, m - left, m - left + pp));
}

// (micro-batch, chunk) in the order of the forwards: group by group, in a group chunk by chunk, in a chunk micro-batch
// by micro-batch; backwards run the same with the chunks from last to first.
std::vector<ScheduleOp> turns(ScheduleOp::Kind kind, const PipelineScheduleSettings& s, int group) {
  const bool forward = kind == ScheduleOp::Kind::forward;
  std::vector<ScheduleOp> ops;
  for (int begin = 0; begin < s.micro_batches; begin += group)
    for (int turn = 0; turn < s.vp; ++turn)
      for (int micro_batch = begin; micro_batch < std::min(begin + group, s.micro_batches); ++micro_batch)
        ops.push_back({kind, micro_batch, forward ? turn : s.vp - 1 - turn});
  return ops;
}

// Forwards before the first backward.
int warm_up_forwards(const PipelineScheduleSettings& s, int pp_rank, int group) {
  const int forwards = s.micro_batches * s.vp;
  if (s.vp > 1 && s.micro_batches < s.pp) return forwards;
  const int hops = s.kind == PipelineKind::interleaved ? 2 : 1;
  return std::min(forwards, hops * (s.pp - pp_rank - 1) + (s.vp - 1) * group);
}
}  // namespace

const char* to_string(PipelineKind kind) {
  static constexpr const char* names[] = {"1f1b", "interleaved", "zb-h1"};
  return names[static_cast<int>(kind)];
}

Result<PipelineKind> pipeline_kind_from(const std::string& name) {
  std::vector<std::string> all;
  for (const PipelineKind kind : kinds) {
    if (name == to_string(kind)) return kind;
    all.emplace_back(to_string(kind));
  }
  return refused(format("there is no pipeline schedule \"{}\"", name), "use " + join(all, ", "));
}

Result<int> pipeline_group(const PipelineScheduleSettings& s) {
  LH_CHECK(check_settings(s));
  if (s.group < 0) return refused(format("group = {} is negative", s.group), "use group = 0");
  if (s.vp == 1) {
    if (s.group == 0) return s.micro_batches;
    return refused(format("group = {} needs vp > 1", s.group), "set group = 0");
  }
  if (s.micro_batches < s.pp && (s.group == 0 || s.group == s.micro_batches)) return s.micro_batches;
  if (s.group > 0) {
    if (!group_fits(s.group, s.pp, s.micro_batches)) return bad_group(s);
    return s.group;
  }
  int group = s.pp;
  while (!group_fits(group, s.pp, s.micro_batches)) ++group;  // one group of all fits
  return group;
}

Result<std::vector<ScheduleOp>> pipeline_schedule(const PipelineScheduleSettings& s, int pp_rank) {
  using Kind = ScheduleOp::Kind;
  LH_TRY(const int group, pipeline_group(s));
  if (pp_rank < 0 || pp_rank >= s.pp) return refused(format("pipeline rank {} is not in [0, {})", pp_rank, s.pp));
  const bool split = s.kind == PipelineKind::zb_h1;
  const std::vector<ScheduleOp> forwards = turns(Kind::forward, s, group),
                                backwards = turns(split ? Kind::backward_input : Kind::backward, s, group);
  const auto warm_up = static_cast<std::size_t>(warm_up_forwards(s, pp_rank, group));
  const auto late = static_cast<std::size_t>(pp_rank);  // weight gradients behind input gradients

  std::vector<ScheduleOp> ops(forwards.begin(), forwards.begin() + static_cast<std::ptrdiff_t>(warm_up));
  const auto add_weight = [&](std::size_t turn) {
    ops.push_back({Kind::backward_weight, backwards[turn].micro_batch, backwards[turn].chunk});
  };
  for (std::size_t turn = 0; turn < backwards.size(); ++turn) {
    if (warm_up + turn < forwards.size()) ops.push_back(forwards[warm_up + turn]);
    ops.push_back(backwards[turn]);
    if (split && turn >= late) add_weight(turn - late);
  }
  if (split)
    for (std::size_t turn = backwards.size() - std::min(late, backwards.size()); turn < backwards.size(); ++turn)
      add_weight(turn);
  return ops;
}

Result<std::vector<std::vector<ScheduleOp>>> pipeline_schedules(const PipelineScheduleSettings& s) {
  std::vector<std::vector<ScheduleOp>> ranks;
  for (int pp_rank = 0; pp_rank < s.pp; ++pp_rank) {
    LH_TRY(std::vector<ScheduleOp> ops, pipeline_schedule(s, pp_rank));
    ranks.push_back(std::move(ops));
  }
  if (ranks.empty()) LH_CHECK(check_settings(s));
  return ranks;
}

}  // namespace longhaul
