#include "contracts/plan/collective_kind.h"

namespace longhaul {

const char* to_string(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce_sum: return "all_reduce_sum";
    case CollectiveKind::all_reduce_max: return "all_reduce_max";
    case CollectiveKind::reduce_scatter_sum: return "reduce_scatter_sum";
    case CollectiveKind::all_gather: return "all_gather";
    case CollectiveKind::broadcast: return "broadcast";
    case CollectiveKind::all_to_all: return "all_to_all";
    case CollectiveKind::all_to_all_v: return "all_to_all_v";
    case CollectiveKind::barrier: return "barrier";
    case CollectiveKind::send: return "send";
    case CollectiveKind::recv: return "recv";
  }
  return "?";
}

std::int64_t bytes_sent(CollectiveKind kind, int ranks, int rank, std::int64_t given, std::int64_t own) {
  const std::int64_t others = ranks - 1;
  switch (kind) {
    case CollectiveKind::all_reduce_sum:
    case CollectiveKind::all_reduce_max: {
      if (given * ranks <= small_all_reduce_bytes) return given * others;
      const std::int64_t n = given / 4, piece = (n * (rank + 1) / ranks - n * rank / ranks) * 4;
      return given - piece + piece * others;
    }
    case CollectiveKind::reduce_scatter_sum:
    case CollectiveKind::all_to_all: return given / ranks * others;
    case CollectiveKind::all_gather:
    case CollectiveKind::broadcast: return given * others;
    case CollectiveKind::all_to_all_v: return given - own;
    case CollectiveKind::send: return given;
    case CollectiveKind::barrier:
    case CollectiveKind::recv: return 0;
  }
  return 0;
}

}  // namespace longhaul
