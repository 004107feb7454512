#include "contracts/layout/parallel_dims.h"

#include "base/text/text.h"

namespace longhaul {
namespace {
// Beyond any machine; the product of all still fits 63 bits.
constexpr int axis_max = 1 << 10, replicas_max = 1 << 16;
}  // namespace

std::string ParallelDims::to_string() const {
  std::vector<std::string> parts;
  const auto add = [&](const char* name, int value) {
    if (value != 1) parts.push_back(format("{}={}", name, value));
  };
  add("tp", tp);
  if (sp) parts.emplace_back("sp");
  add("cp", cp);
  add("ep", ep);
  add("etp", etp);
  add("pp", pp);
  add("vp", vp);
  add("dp", dp());
  if (zero > 0) parts.push_back(format("zero={}", zero));
  return parts.empty() ? "one rank" : join(parts, " ");
}

const FieldTable<ParallelDims>& parallel_dims_fields() {
  using P = ParallelDims;
  static const auto table =
      FieldTable<P>()
          .field("tp", &P::tp,
                 {.unit = "ranks",
                  .help = "tensor parallelism: each weight matrix is split over tp ranks",
                  .min = 1,
                  .max = axis_max})
          .field("sp", &P::sp, {.help = "sequence parallelism inside the tp group"})
          .field("cp", &P::cp,
                 {.unit = "ranks",
                  .help = "context parallelism: each sequence is split over cp ranks",
                  .min = 1,
                  .max = axis_max})
          .field("ep", &P::ep, {.unit = "ranks", .help = "expert parallelism", .min = 1, .max = axis_max})
          .field("etp", &P::etp,
                 {.unit = "ranks", .help = "tensor parallelism inside one expert", .min = 1, .max = axis_max})
          .field("pp", &P::pp,
                 {.unit = "ranks",
                  .help = "pipeline parallelism: layers are split over pp ranks",
                  .min = 1,
                  .max = axis_max})
          .field("vp", &P::vp, {.help = "virtual pipeline stages per pp rank", .min = 1, .max = axis_max})
          .field(
              "dp_replicate", &P::dp_replicate,
              {.unit = "ranks", .help = "data-parallel replicas; 0 takes what is left", .min = 0, .max = replicas_max})
          .field("dp_shard", &P::dp_shard,
                 {.unit = "ranks",
                  .help = "data-parallel ranks that share optimizer state",
                  .min = 1,
                  .max = replicas_max})
          .field("zero", &P::zero, {.help = "ZeRO stage over dp_shard", .min = 0, .max = 3});
  return table;
}

Result<ParallelDims> resolve_dims(ParallelDims dims, int ranks) {
  const std::int64_t fixed = std::int64_t{dims.tp} * dims.cp * dims.pp * dims.dp_shard;
  if (dims.dp_replicate == 0) {
    if (fixed <= 0 || fixed > ranks || ranks % fixed != 0)
      return make_error(ErrorCode::invalid_input,
                        format("tp({}) * cp({}) * pp({}) * dp_shard({}) = {} does not divide the job's {} ranks",
                               dims.tp, dims.cp, dims.pp, dims.dp_shard, fixed, ranks),
                        format("use a number of ranks that is a multiple of {}", fixed));
    dims.dp_replicate = static_cast<int>(ranks / fixed);
  }
  const std::int64_t world = fixed * dims.dp_replicate;
  if (world != ranks)
    return make_error(ErrorCode::invalid_input,
                      format("tp({}) * cp({}) * pp({}) * dp({}) = {}, but the job has {} ranks", dims.tp, dims.cp,
                             dims.pp, std::int64_t{dims.dp_replicate} * dims.dp_shard, world, ranks),
                      fixed > 0 && ranks % fixed == 0 ? format("use dp_replicate = {}", ranks / fixed)
                                                      : format("use ranks = {}", world));
  if (dims.sp && dims.tp == 1)
    return make_error(ErrorCode::invalid_input, "sp needs tp > 1", "set sp = false or tp = 2");
  if (dims.vp > 1 && dims.pp == 1)
    return make_error(ErrorCode::invalid_input, format("vp = {} needs pp > 1", dims.vp), "set vp = 1");
  LH_CHECK(expert_dims_of(dims));
  return dims;
}

RankCoordinates coordinates_of(const ParallelDims& dims, int global_rank) {
  LH_ASSERT(global_rank >= 0 && global_rank < dims.world_size(),
            format("rank={} layout={}", global_rank, dims.to_string()));
  RankCoordinates at;
  at.tp = global_rank % dims.tp, global_rank /= dims.tp;
  at.cp = global_rank % dims.cp, global_rank /= dims.cp;
  at.dp_shard = global_rank % dims.dp_shard, global_rank /= dims.dp_shard;
  at.dp_replicate = global_rank % dims.dp_replicate, global_rank /= dims.dp_replicate;
  at.pp = global_rank;
  return at;
}

int global_rank_of(const ParallelDims& dims, const RankCoordinates& at) {
  return at.tp +
         dims.tp * (at.cp + dims.cp * (at.dp_shard + dims.dp_shard * (at.dp_replicate + dims.dp_replicate * at.pp)));
}

Result<ExpertDims> expert_dims_of(const ParallelDims& dims) {
  const auto text = [&] { return format("ep({}) * etp({}) = {}", dims.ep, dims.etp, dims.ep * dims.etp); };
  ExpertDims made;
  made.ranks = dims.ep * dims.etp;
  const int of_batch = dims.tp * dims.cp;
  if (of_batch % made.ranks == 0) {
    made.copies = of_batch / made.ranks;
    made.dp_shard = dims.dp_shard, made.dp_replicate = dims.dp_replicate;
    return made;
  }
  if (made.ranks % of_batch != 0)
    return make_error(
        ErrorCode::invalid_input,
        format("{} and tp({}) * cp({}) = {}: one must divide the other", text(), dims.tp, dims.cp, of_batch),
        format("use ep * etp = {}, or a multiple or a divisor of it", of_batch));
  made.batches = made.ranks / of_batch;
  if (dims.dp() % made.batches != 0)
    return make_error(ErrorCode::invalid_input,
                      format("{} does not divide tp({}) * cp({}) * dp({}) = {}", text(), dims.tp, dims.cp, dims.dp(),
                             std::int64_t{of_batch} * dims.dp()),
                      "use a smaller ep or etp, or more replicas");
  if (dims.dp_shard % made.batches == 0) {
    made.dp_shard = dims.dp_shard / made.batches, made.dp_replicate = dims.dp_replicate;
  } else if (made.batches % dims.dp_shard == 0) {
    made.dp_replicate = dims.dp() / made.batches;
  } else {
    return make_error(
        ErrorCode::invalid_input,
        format("{} takes {} replicas, dp_shard({}): one must divide the other", text(), made.batches, dims.dp_shard),
        format("use dp_shard = {}", made.batches));
  }
  return made;
}

ExpertCoordinates expert_coordinates_of(const ParallelDims& dims, const RankCoordinates& at) {
  const Result<ExpertDims> experts = expert_dims_of(dims);
  LH_ASSERT(experts.ok(), dims.to_string());
  int rank = at.tp + dims.tp * (at.cp + dims.cp * at.dp(dims));  // within the stage
  ExpertCoordinates made;
  made.etp = rank % dims.etp, rank /= dims.etp;
  made.ep = rank % dims.ep, rank /= dims.ep;
  made.copy = rank % experts->copies, rank /= experts->copies;
  made.dp_shard = rank % experts->dp_shard, rank /= experts->dp_shard;
  made.dp_replicate = rank;
  return made;
}

}  // namespace longhaul
