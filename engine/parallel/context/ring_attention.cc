#include <limits>
#include <optional>
#include <vector>

#include "engine/core/tensor/transfer.h"
#include "engine/ops/pointwise/elementwise.h"
#include "engine/ops/pointwise/row_blocks.h"
#include "engine/parallel/context/context_parts.h"

namespace longhaul {
namespace {

constexpr int keys_tag = 1, gradient_tag = 2;

// Of the pairs (query chunk, key chunk): which see anything, and from which key on.
struct PairMask {
  bool seen = true, causal = false;
  std::int64_t window = 0;                  // where the queries are the keys' own
  std::span<const std::int32_t> first_key;  // within the key chunk
};

class RingAttention final : public SplitContextAttention {
 public:
  RingAttention(Mesh& mesh, const ContextAttentionSizes& sizes, MemoryAccount* account)
      : SplitContextAttention(mesh, sizes),
        next_((shard_.rank() + 1) % shard_.ranks()),
        previous_((shard_.rank() + shard_.ranks() - 1) % shard_.ranks()) {
    const std::int64_t t = sizes.tokens_max, q = sizes.q(), kv = 2 * sizes.kv();
    for (Tensor& block : keys_) block = Tensor(sizes.dtype, {t, kv}, account);
    queries_ = Tensor(DType::f32, {t, q}, account);
    part_ = Tensor(sizes.dtype, {t / 2, q}, account);
    part_lse_ = Tensor(DType::f32, {t / 2 * sizes.heads}, account);
    first_keys_ = Buffer(t / 2 * 4, account);
    if (!sizes.training) return;
    key_part_ = Tensor(sizes.dtype, {t / 2, kv}, account);
    own_gradient_ = Tensor(DType::f32, {t, kv}, account);
    for (Tensor& gradient : gradients_) gradient = Tensor(DType::f32, {t, kv}, account);
  }

  void forward(const ComputeContext& context, const ContextTokens& tokens, View qkv, View out,
               std::span<float> lse) override {
    if (!status_.ok()) return;
    const std::int64_t t = tokens.tokens(), q = sizes_.q();
    fill(context, lse.first(static_cast<std::size_t>(t * sizes_.heads)), -std::numeric_limits<float>::infinity());
    go_round(context, tokens, qkv, [&](int owner, ConstView keys) {
      for_pairs(context, tokens, owner, [&](int half, int key_half, const PairMask& mask) {
        forward_pair(context, tokens, half, key_half, mask, qkv, keys, lse);
      });
    });
    copy_rows(context, {t, q, q, q}, queries_, out);
  }

  void backward(const ComputeContext& context, const ContextTokens& tokens, ConstView dout, ConstView qkv,
                ConstView out, std::span<const float> lse, View dqkv) override {
    if (!status_.ok()) return;
    const std::int64_t t = tokens.tokens(), q = sizes_.q(), kv = 2 * sizes_.kv(), width = sizes_.width();
    fill(context, queries_, 0.0F);
    int at = 0;
    std::optional<Request> passed_on;
    go_round(context, tokens, qkv, [&](int owner, ConstView keys) {
      // What the ranks before have found for this block comes while this rank's own share of it is computed, as what
      // this one found for the block before goes on.
      fill(context, own_gradient_, 0.0F);
      for_pairs(context, tokens, owner, [&](int half, int key_half, const PairMask& mask) {
        backward_pair(context, tokens, half, key_half, mask, dout, qkv, keys, out, lse, dqkv);
        if (passed_on) let_move(*passed_on);
      });
      if (passed_on) finish(std::move(*passed_on));
      const std::span<float> own = first_floats(own_gradient_, t * kv), sum = first_floats(gradients_[at], t * kv);
      if (owner == shard_.rank())
        copy_within(context, own, sum);
      else
        axpy(context, 1.0F, own, sum);
      passed_on = communicator_.exchange(bytes_of(ConstView(gradients_[at]), t * kv), next_,
                                         bytes_of(gradients_[1 - at].view(), t * kv), previous_, gradient_tag);
      at = 1 - at;
      if (!sizes_.overlap) finish(std::move(*passed_on)), passed_on.reset();
    });
    // The last one to look at this rank's block sends its gradient home.
    if (passed_on) finish(std::move(*passed_on));
    copy_rows(context, {t, q, q, width}, queries_, dqkv);
    copy_rows(context, {t, kv, kv, width}, gradients_[at], elements_from(dqkv, q));
  }

 private:
  static std::span<float> first_floats(Tensor& x, std::int64_t count) {
    return x.span<float>().first(static_cast<std::size_t>(count));
  }

  // Messages of some libraries only move while somebody asks for them.
  void let_move(Request& request) {
    if (const Result<bool> moved = communicator_.test(request); !moved.ok() && status_.ok()) status_ = moved.error();
  }
  void let_keys_move() {
    if (keys_on_their_way_) let_move(*keys_on_their_way_);
  }

  void finish_keys() {
    if (keys_on_their_way_) finish(std::move(*keys_on_their_way_));
    keys_on_their_way_.reset();
  }

  // use(owner, keys and values of that rank [t, 2 kv]) for every rank, this one's own first. The next block is on its
  // way meanwhile.
  template <class Use>
  void go_round(const ComputeContext& context, const ContextTokens& tokens, ConstView qkv, const Use& use) {
    const std::int64_t t = tokens.tokens(), q = sizes_.q(), kv = 2 * sizes_.kv();
    copy_rows(context, {t, kv, sizes_.width(), kv}, elements_from(qkv, q), keys_[0]);
    for (int step = 0; step < shard_.ranks() && status_.ok(); ++step) {
      Tensor &here = keys_[step % 2], &coming = keys_[(step + 1) % 2];
      if (step + 1 < shard_.ranks()) {
        keys_on_their_way_ = communicator_.exchange(bytes_of(ConstView(here), t * kv), next_,
                                                    bytes_of(coming.view(), t * kv), previous_, keys_tag);
      }
      if (!sizes_.overlap) finish_keys();
      use((shard_.rank() + shard_.ranks() - step) % shard_.ranks(), ConstView(here));
      finish_keys();
    }
  }

  // f(half of the queries, half of the owner's keys, mask) where a query may see a key.
  template <class F>
  void for_pairs(const ComputeContext& context, const ContextTokens& tokens, int owner, const F& f) {
    for (int half = 0; half < 2; ++half)
      for (int key_half = 0; key_half < 2; ++key_half) {
        const int chunk = shard_.chunk(half), keys = shard_.chunk_of(owner, key_half);
        if (keys > chunk) continue;
        const PairMask mask = mask_of(context, tokens, half, keys, keys == chunk);
        if (mask.seen && status_.ok()) f(half, key_half, mask);
        let_keys_move();
      }
  }

  PairMask mask_of(const ComputeContext& context, const ContextTokens& tokens, int half, int key_chunk, bool causal) {
    PairMask mask;
    mask.causal = causal;
    // Where a window ends is given by the shape in a chunk of its own, and elsewhere as the border of a document would
    // be; the first query looks back furthest.
    const std::int64_t queries = shard_.chunk(half) * tokens.length, keys = key_chunk * tokens.length;
    const bool window_ends = !causal && sizes_.window > 0 && queries + tokens.length - sizes_.window > keys;
    if (causal) mask.window = sizes_.window;
    if (tokens.first_key.empty() && !window_ends) return mask;
    const auto n = static_cast<std::size_t>(rows_of_chunk(tokens));
    const auto whole = tokens.host_first_key.empty() ? tokens.first_key : tokens.host_first_key;
    firsts_.resize(n);
    mask.seen = false;
    const std::int64_t length = tokens.length;
    for (std::size_t i = 0; i < n; ++i) {
      std::int64_t first = whole.empty() ? 0 : whole[static_cast<std::size_t>(half) * n + i];
      if (window_ends) first = std::max(first, queries + static_cast<std::int64_t>(i) % length + 1 - sizes_.window);
      firsts_[i] = static_cast<std::int32_t>(std::clamp<std::int64_t>(first - keys, 0, length));
      mask.seen |= firsts_[i] < length;
    }
    const std::span<std::int32_t> firsts(reinterpret_cast<std::int32_t*>(first_keys_.data()), n);
    if (mask.seen) copy_in(context, firsts_, firsts);
    mask.first_key = firsts;
    return mask;
  }

  AttentionShape shape_of(const ContextTokens& tokens, const PairMask& mask) const {
    AttentionShape shape;
    shape.batch = sequences_of(tokens), shape.seq = shape.kv_seq = tokens.length;
    shape.heads = sizes_.heads, shape.kv_heads = sizes_.kv_heads, shape.head_dim = sizes_.head_dim;
    shape.q_stride = sizes_.width(), shape.kv_stride = 2 * sizes_.kv();
    shape.causal = mask.causal, shape.window = mask.window;
    return shape;
  }

  void forward_pair(const ComputeContext& context, const ContextTokens& tokens, int half, int key_half,
                    const PairMask& mask, ConstView qkv, ConstView keys, std::span<float> lse) {
    const std::int64_t n = rows_of_chunk(tokens), q = sizes_.q(), kv = 2 * sizes_.kv(), heads = sizes_.heads;
    const ConstView k = elements_from(keys, key_half * n * kv);
    attention_forward(context, shape_of(tokens, mask), elements_from(qkv, half * n * sizes_.width()), k,
                      elements_from(k, sizes_.kv()), part_, part_lse_.span<float>(), mask.first_key);
    attention_merge(context, {sequences_of(tokens), tokens.length, heads, sizes_.head_dim}, part_,
                    part_lse_.span<float>(), queries_.span<float>().subspan(static_cast<std::size_t>(half * n * q)),
                    lse.subspan(static_cast<std::size_t>(half * n * heads)));
  }

  // The queries' gradients are written where they will stand in the end, and summed beside it.
  void backward_pair(const ComputeContext& context, const ContextTokens& tokens, int half, int key_half,
                     const PairMask& mask, ConstView dout, ConstView qkv, ConstView keys, ConstView out,
                     std::span<const float> lse, View dqkv) {
    const std::int64_t n = rows_of_chunk(tokens), q = sizes_.q(), kv = 2 * sizes_.kv(), width = sizes_.width();
    const std::int64_t at = half * n, key_at = key_half * n;
    const ConstView k = elements_from(keys, key_at * kv);
    const View dq = elements_from(dqkv, at * width), dk = key_part_;
    attention_backward(context, shape_of(tokens, mask), elements_from(dout, at * q), elements_from(qkv, at * width), k,
                       elements_from(k, sizes_.kv()), elements_from(out, at * q),
                       lse.subspan(static_cast<std::size_t>(at * sizes_.heads)), dq, dk, elements_from(dk, sizes_.kv()),
                       mask.first_key);
    add_rows(context, {n, q, width, q}, dq, queries_.span<float>().subspan(static_cast<std::size_t>(at * q)));
    add_rows(context, {n, kv, kv, kv}, dk, own_gradient_.span<float>().subspan(static_cast<std::size_t>(key_at * kv)));
  }

  int next_, previous_;
  Tensor keys_[2];  // [t, 2 kv] the block at hand and the next one
  std::optional<Request> keys_on_their_way_;
  Tensor queries_;                                 // [t, q] f32: out, or the queries' gradients
  Tensor part_, part_lse_;                         // of one pair of chunks
  Tensor key_part_, own_gradient_, gradients_[2];  // backward: of a pair, of this rank, on the way round
  Buffer first_keys_;                              // [t / 2] i32: those of a chunk, within another,
  std::vector<std::int32_t> firsts_;               // and as the host finds them
};

}  // namespace

std::unique_ptr<ContextAttention> make_ring_attention(Mesh& mesh, const ContextAttentionSizes& sizes,
                                                      MemoryAccount* account) {
  return std::make_unique<RingAttention>(mesh, sizes, account);
}

}  // namespace longhaul
