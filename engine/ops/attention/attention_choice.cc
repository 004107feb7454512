#include "engine/ops/attention/attention_choice.h"

#include "base/text/text.h"

namespace longhaul {
namespace {

// The largest head that cuDNN knows both ways (its documentation, "Scaled Dot Product Attention", limits by GPU).
std::int64_t cudnn_head_dim_max(int compute_capability) {
  return compute_capability / 10 == 9 ? 256 : 128;
}

// Empty: cuDNN can take it.
std::string why_not_cudnn(const AttentionCase& a, const AttentionSettings& settings, const CudnnFacts& cudnn) {
  if (settings.backend == "own") return "attention_backend is own";
  if (!cudnn.usable) return cudnn.why_not;
  if (cudnn.compute_capability < 80) return "the GPU is older than compute capability 8.0";
  if (a.dtype != DType::bf16) return format("numbers are {}, not bf16", dtype_name(a.dtype));
  if (a.documents) return "documents are kept apart";
  if (!a.aligned) return "rows do not begin at multiples of 16 bytes";
  if (!a.lse_aligned) return "lse does not begin at a multiple of 16 bytes";
  const std::int64_t most = cudnn_head_dim_max(cudnn.compute_capability);
  if (a.head_dim % 8 != 0 || a.head_dim > most)
    return format("heads are no multiple of 8 of at most {} elements", most);
  if (a.seq == 1 && a.kv_seq == 1) return "one query and one key";
  if (a.backward && settings.deterministic && cudnn.compute_capability >= 100)
    return "the backward pass is to be deterministic, which on this GPU is not known of cuDNN's";
  return {};
}

std::int64_t round_up(std::int64_t value, std::int64_t to) {
  return (value + to - 1) / to * to;
}

// Of one head of queries, as cudnn-frontend counts them: the deterministic backward pass keeps the gradient of the
// scores in bf16, the other one sums dq in f32; with grouped heads dk and dv are first made for every head of queries.
std::int64_t bytes_of_head(const AttentionCase& a, bool deterministic) {
  if (!a.backward) return 0;
  std::int64_t bytes = a.seq * 4;  // the sum of dout out
  bytes += deterministic ? round_up(a.seq, 64) * round_up(a.kv_seq, 128) * 2 : a.seq * a.head_dim * 4;
  if (a.heads != a.kv_heads) bytes += 2 * a.kv_seq * a.head_dim * 4;
  return bytes;
}

}  // namespace

std::string AttentionCase::text() const {
  std::string text =
      format("{} {} batch={} seq={} kv_seq={} heads={} kv_heads={} head_dim={}", backward ? "backward" : "forward",
             dtype_name(dtype), batch, seq, kv_seq, heads, kv_heads, head_dim);
  if (causal) text += " causal";
  if (window > 0) text += format(" window={}", window);
  if (documents) text += " documents";
  return text;
}

const char* attention_way_name(AttentionWay way) {
  switch (way) {
    case AttentionWay::cudnn: return "cudnn";
    case AttentionWay::tensor_cores: return "own, tensor cores";
    case AttentionWay::plain: return "own, f32 arithmetic";
  }
  return "?";
}

AttentionWay own_attention(const AttentionCase& a) {
  const bool known = a.dtype == DType::bf16 && a.aligned && (a.head_dim == 64 || a.head_dim == 128);
  return known ? AttentionWay::tensor_cores : AttentionWay::plain;
}

AttentionChoice choose_attention(const AttentionCase& a, const AttentionSettings& settings, const CudnnFacts& cudnn) {
  std::string reason = why_not_cudnn(a, settings, cudnn);
  if (reason.empty()) return {AttentionWay::cudnn, "cuDNN knows the case"};
  return {own_attention(a), std::move(reason)};
}

AttentionPart attention_part(const AttentionCase& a, bool deterministic, std::int64_t bytes_max) {
  const std::int64_t head = bytes_of_head(a, deterministic), group = a.heads / a.kv_heads;
  const std::int64_t heads = head == 0 ? a.batch * a.heads : bytes_max / head;
  // What lse of a part begins at has to be a multiple of 16 bytes, as its tensor says.
  const auto starts_well = [&](std::int64_t heads_before) { return heads_before * a.seq % 4 == 0; };
  for (std::int64_t batch = std::min(a.batch, heads / a.heads); batch > 0; --batch)
    if (a.batch % batch == 0 && (batch == a.batch || starts_well(batch * a.heads))) return {batch, a.kv_heads};
  for (std::int64_t kv_heads = std::min(a.kv_heads, heads / group); kv_heads > 0; --kv_heads)
    if (a.kv_heads % kv_heads == 0 && starts_well(kv_heads * group) && starts_well(a.heads)) return {1, kv_heads};
  return {};
}

}  // namespace longhaul
