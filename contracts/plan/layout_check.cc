#include "contracts/plan/layout_check.h"

#include "base/text/text.h"
#include "contracts/settings/training/feature_table.h"

namespace longhaul {
namespace {

struct Checker {
  std::vector<LayoutProblem> problems;

  void must_divide(const char* name, std::int64_t divisor, const char* of, std::int64_t whole) {
    if (divisor < 1 || whole < 1 || whole % divisor == 0) return;
    std::vector<std::string> fitting;
    for (std::int64_t i = 1; i <= whole && fitting.size() < 12; ++i)
      if (whole % i == 0) fitting.push_back(std::to_string(i));
    problems.push_back(
        {format("{} = {} does not divide {} = {}", name, divisor, of, whole), "use " + join(fitting, ", ")});
  }
};

void check_experts(Checker& check, const LayoutCheckInput& input) {
  const ModelShape& s = input.shape;
  const ParallelDims& d = input.dims;
  if (!s.is_moe()) {
    for (const auto& [name, ranks] : {std::pair{"ep", d.ep}, std::pair{"etp", d.etp}})
      if (ranks > 1)
        check.problems.push_back({format("parallel.{} = {} distributes experts, and the model has none", name, ranks),
                                  format("leave {} out, or use model.architecture = \"mixtral\"", name)});
    return;
  }
  check.must_divide("parallel.ep", d.ep, "model.num_local_experts", s.num_local_experts);
  check.must_divide("parallel.etp", d.etp, "model.moe_intermediate_size", s.moe_intermediate_size);
  if (const auto split = expert_dims_of(d); !split.ok())
    check.problems.push_back({split.error().what, split.error().hint});
  // Each rank of tp routes tokens of its own.
  if (!d.sp)
    check.must_divide(d.cp > 1 ? "with experts, parallel.tp * parallel.cp" : "with experts, parallel.tp",
                      std::int64_t{d.tp} * d.cp, "micro_batch_size * sequence_length",
                      input.micro_batch_size * input.sequence_length);
}

// Every rank of a cp group has two chunks of each sequence, an early and a late one.
void check_context(const LayoutCheckInput& input, Checker& check) {
  const ParallelDims& d = input.dims;
  if (d.cp < 2) return;
  const std::int64_t chunks = 2 * std::int64_t{d.cp}, length = input.sequence_length;
  if (length % chunks != 0) {
    const std::int64_t below = length / chunks * chunks;
    check.problems.push_back(
        {format("2 * parallel.cp({}) = {} does not divide sequence_length = {}", d.cp, chunks, length),
         below > 0 ? format("use sequence_length = {} or {}", below, below + chunks)
                   : format("use sequence_length = {}", chunks)});
  }
  if (input.cp_attention == "a2a")
    check.must_divide("with cp_attention = \"a2a\", parallel.tp * parallel.cp", std::int64_t{d.tp} * d.cp,
                      "model.num_key_value_heads", input.shape.num_key_value_heads);
}

}  // namespace

std::vector<LayoutProblem> layout_problems(const LayoutCheckInput& input) {
  const ModelShape& s = input.shape;
  const ParallelDims& d = input.dims;
  Checker check;
  check.must_divide("parallel.tp", d.tp, "model.num_attention_heads", s.num_attention_heads);
  check.must_divide("parallel.tp", d.tp, "model.num_key_value_heads", s.num_key_value_heads);
  if (!s.is_moe()) check.must_divide("parallel.tp", d.tp, "model.intermediate_size", s.intermediate_size);
  check_experts(check, input);
  const std::int64_t stages = std::int64_t{d.pp} * d.vp;
  if (stages > s.num_hidden_layers)  // split as evenly as possible
    check.problems.push_back(
        {format("parallel.pp({}) * parallel.vp({}) = {} stages are more than model.num_hidden_layers = {}", d.pp, d.vp,
                stages, s.num_hidden_layers),
         format("use pp = {} at most", s.num_hidden_layers / d.vp)});
  check_context(input, check);
  if (d.sp)
    check.must_divide(d.cp > 1 ? "with parallel.sp, parallel.tp * parallel.cp" : "with parallel.sp, parallel.tp",
                      std::int64_t{d.tp} * d.cp, "micro_batch_size * sequence_length",
                      input.micro_batch_size * input.sequence_length);
  if (d.tp > 1 && s.vocab_size > 0 && (s.vocab_size + d.tp - 1) / d.tp * (d.tp - 1) >= s.vocab_size)
    check.problems.push_back(
        {format("parallel.tp = {} leaves its last rank without a row of the vocabulary ({})", d.tp, s.vocab_size),
         "use a smaller tp"});
  return check.problems;
}

Status check_layout_of(const LayoutCheckInput& input) {
  const std::vector<LayoutProblem> problems = layout_problems(input);
  if (problems.empty()) return {};
  std::vector<std::string> texts;
  for (const LayoutProblem& problem : problems) texts.push_back(problem.what);
  return make_error(ErrorCode::invalid_input, format("layout {}: {}", input.dims.to_string(), join(texts, "; ")),
                    problems.front().hint);
}

Status check_layout_available(const std::string& stage_kind, const ParallelDims& dims) {
  EngineCase asked;
  asked.kind = stage_kind, asked.dims = dims;
  return check_engine(asked);
}

}  // namespace longhaul
