#include "contracts/plan/rollout/drawing_layout.h"

#include <optional>

#include "base/text/text.h"

namespace longhaul {
namespace {

int ranks_of_replica(const ParallelDims& training) {
  return training.tp * training.cp * training.pp;
}

// Names of the settings that are meant: an expert is split as every matrix is.
std::string of_rollout(std::string text) {
  return replace_all(replace_all(std::move(text), "parallel.etp", "rollout.tp"), "parallel.", "rollout.");
}

ParallelDims drawing_of(std::int64_t tp, std::int64_t pp, const ModelShape& shape, int ranks) {
  ParallelDims dims;
  dims.tp = static_cast<int>(tp), dims.pp = static_cast<int>(pp);
  dims.etp = shape.is_moe() ? dims.tp : 1;
  dims.dp_replicate = ranks / (dims.tp * dims.pp);
  return dims;
}

}  // namespace

ParallelDims drawing_dims(const RolloutSettings& rollout, const ModelShape& shape, const ParallelDims& training) {
  const int ranks = ranks_of_replica(training);
  if (rollout.ranks > 0 && ranks % (rollout.tp * rollout.pp) != 0) return drawing_of(1, 1, shape, ranks);
  return drawing_of(rollout.tp, rollout.pp, shape, ranks);
}

ParallelDims drawing_ranks_dims(const RolloutSettings& rollout, const ModelShape& shape) {
  return drawing_of(rollout.tp, rollout.pp, shape, static_cast<int>(rollout.ranks));
}

MeshPlace drawing_place(const ParallelDims& drawing, const ModelShape& shape, int rank, const StageLayout& stages) {
  const RankCoordinates at = coordinates_of(drawing, rank);
  MeshPlace place;
  place.dims.tp = drawing.tp, place.dims.pp = drawing.pp, place.dims.etp = drawing.etp;
  place.at.tp = at.tp, place.at.pp = at.pp;
  const bool same_stages = stages.pp == drawing.pp && stages.vp == 1;
  place.stages = same_stages ? stages : even_stages(static_cast<int>(shape.num_hidden_layers), drawing.pp);
  return place;
}

int rank_of_replica(const ParallelDims& training, const RankCoordinates& at) {
  return at.tp + training.tp * (at.cp + training.cp * at.pp);
}

bool holds_parts(const ParallelDims& dims) {
  return dims.tp > 1 || dims.pp > 1 || dims.ep > 1 || dims.etp > 1 || dims.zero == 3;
}

bool draws_with_its_own(const ParallelDims& training, const ParallelDims& drawing) {
  if (drawing.tp * drawing.pp == 1) return !holds_parts(training);
  return training.tp == drawing.tp && training.pp == drawing.pp && training.vp == 1 && training.ep == 1 &&
         training.etp == drawing.etp && training.zero != 3;
}

namespace {

// That the ranks are teams of rollout.tp * rollout.pp.
std::optional<LayoutProblem> problem_of_ranks(const RolloutSettings& rollout, const ParallelDims& training) {
  const std::int64_t ranks = ranks_of_replica(training), together = rollout.tp * rollout.pp;
  const std::string drawing =
      format("rollout.tp({}) * rollout.pp({}) = {} ranks draw together, and ", rollout.tp, rollout.pp, together);
  if (rollout.ranks > 0) {
    if (rollout.ranks % together == 0) return std::nullopt;
    return LayoutProblem{
        drawing + format("rollout.ranks = {}", rollout.ranks),
        format("use a multiple of that: rollout.ranks = {}", (rollout.ranks + together - 1) / together * together)};
  }
  if (ranks % together == 0) return std::nullopt;
  return LayoutProblem{
      drawing + format("a replica has tp({}) * cp({}) * pp({}) = {}", training.tp, training.cp, training.pp, ranks),
      "use a divisor of that, or train with a larger tp, cp or pp"};
}

}  // namespace

std::vector<LayoutProblem> drawing_layout_problems(const RolloutSettings& rollout, const ModelShape* shape,
                                                   const ParallelDims& training) {
  std::vector<LayoutProblem> problems;
  if (!rollout.in_parts()) return problems;
  if (const auto problem = problem_of_ranks(rollout, training)) return {*problem};
  if (shape == nullptr) return problems;
  LayoutCheckInput input;
  input.shape = *shape;
  input.dims = rollout.ranks > 0 ? drawing_ranks_dims(rollout, *shape) : drawing_dims(rollout, *shape, training);
  input.sequence_length = input.dims.tp;  // tokens of a step are on every rank
  for (LayoutProblem& problem : layout_problems(input))
    problems.push_back({of_rollout(std::move(problem.what)), of_rollout(std::move(problem.hint))});
  return problems;
}

Status check_drawing_layout(const RolloutSettings& rollout, const ModelShape& shape, const ParallelDims& training) {
  std::vector<std::string> texts;
  const std::vector<LayoutProblem> problems = drawing_layout_problems(rollout, &shape, training);
  for (const LayoutProblem& problem : problems) texts.push_back(problem.what);
  if (texts.empty()) return {};
  return make_error(ErrorCode::invalid_input, join(texts, "; "), problems.front().hint);
}

}  // namespace longhaul
