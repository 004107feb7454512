#include "engine/ops/cuda/libraries/cudnn_attention.h"

#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "base/text/text.h"
#include "engine/ops/cuda/libraries/cudnn_attention_graph.h"

namespace longhaul::cuda {
namespace {

using Handle = std::unique_ptr<cudnnContext, cudnnStatus_t (*)(cudnnHandle_t)>;

std::int64_t rounded_up(std::int64_t bytes) {
  return (bytes + 255) / 256 * 256;
}

// A case made ready: the plan of a part of it, and where the parts are.
struct Prepared {
  CudnnAttentionSizes sizes;  // of one call
  AttentionPart part;
  std::unique_ptr<CudnnGraph> graph;
  CudnnPlan plan;
  CudnnAttentionForward forward;
  CudnnAttentionBackward backward;
  std::int64_t delta_bytes = 0, dq_sum_bytes = 0;
  std::int64_t bytes() const { return delta_bytes + dq_sum_bytes + plan.workspace_bytes; }
};

// The first sequence and head of keys of a call.
struct Start {
  std::int64_t sequence = 0, kv_head = 0;
};

class CudnnAttention final : public DeviceAttention {
 public:
  CudnnAttention(Device& device, int compute_capability, Cudnn library, Handle handle, std::int64_t bytes_max)
      : device_(device),
        compute_capability_(compute_capability),
        cudnn_(std::move(library)),
        handle_(std::move(handle)),
        bytes_max_(bytes_max) {}

  CudnnFacts facts() const override { return {true, {}, compute_capability_}; }

  Status prepare(const AttentionCase& asked, bool deterministic) override {
    Prepared p;
    p.part = attention_part(asked, deterministic, bytes_max_);
    if (p.part.kv_heads == 0)
      return make_error(ErrorCode::unsupported,
                        format("no part of it takes less than {} MiB of workspace", bytes_max_ >> 20));
    p.sizes = sizes_of(asked, p.part);
    p.graph = std::make_unique<CudnnGraph>(cudnn_, handle_.get(), "attention " + asked.text());
    if (asked.backward) {
      p.backward = add_attention_backward(*p.graph, p.sizes, deterministic);
      const std::int64_t rows = p.sizes.batch * p.sizes.heads * p.sizes.seq;
      p.delta_bytes = rounded_up(rows * 4);
      p.dq_sum_bytes = p.backward.dq_sum == 0 ? 0 : rounded_up(rows * p.sizes.head_dim * 4);
    } else {
      p.forward = add_attention_forward(*p.graph, p.sizes, asked.lse);
    }
    LH_TRY(p.plan, p.graph->plan(deterministic, bytes_max_ - p.delta_bytes - p.dq_sum_bytes));
    prepared_.insert_or_assign(asked, std::move(p));
    return {};
  }

  void forward(const AttentionCase& asked, const AttentionForward<bf16>& a) override {
    const Prepared& p = prepared_.at(asked);
    for_each_part(asked, p, [&](const Start& at) {
      const CudnnAttentionForward& t = p.forward;
      Pack pack;
      pack.add(t.q, a.q + of_queries(asked, asked.q_stride, at));
      pack.add(t.k, a.k + of_keys(asked, at));
      pack.add(t.v, a.v + of_keys(asked, at));
      pack.add(t.out, a.out + of_queries(asked, asked.out_stride, at));
      if (t.lse != 0) pack.add(t.lse, a.lse + of_rows(asked, at));
      run(asked, p, t.numbers, a.sizes.scale, std::move(pack), memory(p));
    });
  }

  void backward(const AttentionCase& asked, const AttentionBackward<bf16>& a) override {
    const Prepared& p = prepared_.at(asked);
    for_each_part(asked, p, [&](const Start& at) {
      const CudnnAttentionBackward& t = p.backward;
      const std::int64_t q = of_queries(asked, asked.q_stride, at), out = of_queries(asked, asked.out_stride, at);
      const std::int64_t kv = of_keys(asked, at);
      std::byte* scratch = memory(p);
      const float one = 1;
      Pack pack;
      pack.add(t.q, a.q + q), pack.add(t.k, a.k + kv), pack.add(t.v, a.v + kv);
      pack.add(t.out, a.out + out), pack.add(t.dout, a.dout + out), pack.add(t.lse, a.lse + of_rows(asked, at));
      pack.add(t.dq, a.dq + q), pack.add(t.dk, a.dk + kv), pack.add(t.dv, a.dv + kv);
      pack.add(t.one, &one), pack.add(t.delta, scratch);
      if (t.dq_sum != 0) pack.add(t.dq_sum, scratch + p.delta_bytes);
      run(asked, p, t.numbers, a.sizes.scale, std::move(pack), scratch + p.delta_bytes + p.dq_sum_bytes);
    });
  }

 private:
  // Addresses by tensor. cuDNN takes all of them as addresses of what may be written.
  struct Pack {
    std::vector<std::int64_t> ids;
    std::vector<void*> addresses;
    void add(CudnnGraph::Tensor tensor, const void* address) {
      ids.push_back(tensor), addresses.push_back(const_cast<void*>(address));
    }
  };

  static CudnnAttentionSizes sizes_of(const AttentionCase& a, const AttentionPart& part) {
    CudnnAttentionSizes s;
    s.batch = part.batch, s.seq = a.seq, s.kv_seq = a.kv_seq, s.head_dim = a.head_dim, s.causal = a.causal;
    s.window = a.window;
    s.kv_heads = part.kv_heads, s.heads = part.kv_heads * (a.heads / a.kv_heads);
    s.q_stride = a.q_stride, s.kv_stride = a.kv_stride, s.out_stride = a.out_stride;
    s.q_batch_stride = a.seq * a.q_stride, s.kv_batch_stride = a.kv_batch_stride;
    s.out_batch_stride = a.seq * a.out_stride;
    return s;
  }
  static std::int64_t first_head(const AttentionCase& a, const Start& at) {
    return at.kv_head * (a.heads / a.kv_heads);
  }
  static std::int64_t of_queries(const AttentionCase& a, std::int64_t stride, const Start& at) {
    return at.sequence * a.seq * stride + first_head(a, at) * a.head_dim;
  }
  static std::int64_t of_keys(const AttentionCase& a, const Start& at) {
    return at.sequence * a.kv_batch_stride + at.kv_head * a.head_dim;
  }
  static std::int64_t of_rows(const AttentionCase& a, const Start& at) {
    return (at.sequence * a.heads + first_head(a, at)) * a.seq;
  }
  template <class F>
  static void for_each_part(const AttentionCase& a, const Prepared& p, const F& f) {
    for (std::int64_t b = 0; b < a.batch; b += p.part.batch)
      for (std::int64_t h = 0; h < a.kv_heads; h += p.part.kv_heads) f(Start{b, h});
  }

  // Kernels of one stream use it one after the other.
  std::byte* memory(const Prepared& p) {
    if (memory_.bytes() < p.bytes()) {
      memory_ = DeviceMemory();
      memory_ = DeviceMemory(device_, p.bytes());
    }
    return memory_.data();
  }

  void run(const AttentionCase& asked, const Prepared& p, const CudnnAttentionNumbers& numbers, float scale, Pack pack,
           std::byte* workspace) const {
    const float masked = -std::numeric_limits<float>::infinity();
    const auto seq = static_cast<std::int32_t>(asked.seq), kv_seq = static_cast<std::int32_t>(asked.kv_seq);
    pack.add(numbers.scale, &scale);
    if (numbers.masked != 0) pack.add(numbers.masked, &masked);
    const float reach = cudnn_window_reach(asked.window, asked.seq, asked.kv_seq);
    if (numbers.reach != 0) pack.add(numbers.reach, &reach), pack.add(numbers.beyond, &masked);
    if (numbers.seq != 0) pack.add(numbers.seq, &seq), pack.add(numbers.kv_seq, &kv_seq);
    const auto count = static_cast<std::int64_t>(pack.ids.size());
    const std::string what = "attention " + asked.text();
    Status status;
    CudnnDescriptor d(cudnn_, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, "the addresses of " + what, status);
    d.set_array(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, pack.ids.data(), status);
    d.set_array(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count,
                static_cast<const void*>(pack.addresses.data()), status);
    d.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace, status);
    d.finalize(status);
    if (status.ok())
      status = cudnn_.check(cudnn_.execute(handle_.get(), p.plan.descriptor.handle(), d.handle()),
                            "cudnnBackendExecute", what);
    LH_ASSERT(status.ok(), status.error().message());
  }

  Device& device_;
  int compute_capability_;
  Cudnn cudnn_;  // before what it made
  Handle handle_;
  std::int64_t bytes_max_;
  DeviceMemory memory_;
  std::map<AttentionCase, Prepared> prepared_;
};

}  // namespace

Result<std::unique_ptr<DeviceAttention>> make_cudnn_attention(Device& device, cudaStream_t stream,
                                                              int compute_capability) {
  LH_TRY(Cudnn library, Cudnn::open());
  return make_cudnn_attention(device, stream, compute_capability, std::move(library), cudnn_attention_bytes_max);
}

Result<std::unique_ptr<DeviceAttention>> make_cudnn_attention(Device& device, cudaStream_t stream,
                                                              int compute_capability, Cudnn library,
                                                              std::int64_t bytes_max) {
  cudnnHandle_t made = nullptr;
  LH_CHECK(library.check(library.create(&made), "cudnnCreate", "the handle of this rank"));
  Handle handle(made, library.destroy);
  LH_CHECK(library.check(library.set_stream(made, stream), "cudnnSetStream", "the handle of this rank"));
  return std::unique_ptr<DeviceAttention>(
      std::make_unique<CudnnAttention>(device, compute_capability, std::move(library), std::move(handle), bytes_max));
}

}  // namespace longhaul::cuda
