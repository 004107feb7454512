#include "contracts/layout_check.h"

#include "base/text.h"

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
  check.must_divide("parallel.tp", d.tp, "model.intermediate_size", s.intermediate_size);
  const std::int64_t stages = std::int64_t{d.pp} * d.vp;
  if (stages > s.num_hidden_layers)  // dealt as evenly as possible
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
  const bool trains = stage_kind == "pretrain" || stage_kind == "sft";
  ParallelDims available;
  available.dp_replicate = dims.dp_replicate;
  if (trains)
    available.tp = dims.tp, available.sp = dims.sp, available.cp = dims.cp, available.pp = dims.pp,
    available.vp = dims.vp;
  if (trains) available.dp_shard = dims.dp_shard, available.zero = dims.zero;
  if (dims == available) return {};
  return make_error(ErrorCode::unsupported,
                    format("the layout {} needs more than this version can do for {}: {}", dims.to_string(), stage_kind,
                           trains ? "tp, sp, cp, pp, vp, replicas and zero" : "replicas"),
                    trains ? "leave out ep and etp"
                           : "leave out tp, sp, cp, ep, etp, pp, vp, dp_shard and zero; ranks become replicas");
}

}  // namespace longhaul
