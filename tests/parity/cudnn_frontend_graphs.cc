// Writes the graph that NVIDIA's cudnn-frontend builds for one attention, as the simulated cuDNN
// (tests/support/fake_libraries/fake_cudnn.cc, which this is linked with) reads it: for make_cudnn_golden.py, no part
// of any build.
//
//   cudnn_frontend_graphs forward|backward BATCH SEQ KV_SEQ HEADS KV_HEADS HEAD_DIM causal|all any|deterministic
//   lse|none WINDOW
//
// q, k and v are slices of one matrix [tokens, (heads + 2 kv_heads) head_dim]; the GPU is one of compute capability
// 9.0. The composite implementation is named, because the other one ("unified") has no masks before cuDNN 9.21.
#include <cudnn_frontend.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" const char* fake_cudnn_graph();

namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;
using Dims = std::vector<int64_t>;

struct Asked {
  bool backward, causal, deterministic, lse;
  int64_t b, s, kv, h, hk, d, window;
};

template <class Options>
void set_common(Options& options, const Asked& a) {
  options.set_name("sdpa").set_attn_scale(0.125F);
  if (!a.causal) return;
  options.set_diagonal_alignment(a.kv == a.s ? fe::DiagonalAlignment_t::TOP_LEFT
                                             : fe::DiagonalAlignment_t::BOTTOM_RIGHT);
  options.set_diagonal_band_right_bound(0);
  if (a.window > 0) options.set_diagonal_band_left_bound(static_cast<int>(a.window));
}

void add_attention(fe::graph::Graph& graph, const Asked& a) {
  const int64_t row = (a.h + 2 * a.hk) * a.d;
  const Dims of_q{a.b, a.h, a.s, a.d}, q_strides{a.s * row, a.d, row, 1};
  const Dims of_k{a.b, a.hk, a.kv, a.d}, k_strides{a.kv * row, a.d, row, 1};
  const Dims out_strides{a.s * a.h * a.d, a.d, a.h * a.d, 1};
  const auto tensor = [&](const char* name, const Dims& dims, const Dims& strides) {
    return graph.tensor(fe::graph::Tensor_attributes().set_name(name).set_dim(dims).set_stride(strides));
  };
  const Tensor q = tensor("q", of_q, q_strides), k = tensor("k", of_k, k_strides), v = tensor("v", of_k, k_strides);
  if (!a.backward) {
    fe::graph::SDPA_attributes options;
    set_common(options, a);
    options.set_generate_stats(a.lse).set_implementation(fe::AttentionImplementation_t::COMPOSITE);
    auto [out, lse] = graph.sdpa(q, k, v, options);
    out->set_output(true).set_dim(of_q).set_stride(out_strides);
    if (a.lse) lse->set_output(true).set_data_type(fe::DataType_t::FLOAT);
    return;
  }
  const Tensor out = tensor("out", of_q, out_strides), dout = tensor("dout", of_q, out_strides);
  const Tensor lse = tensor("lse", {a.b, a.h, a.s, 1}, {a.h * a.s, a.s, 1, 1});
  lse->set_data_type(fe::DataType_t::FLOAT);
  fe::graph::SDPA_backward_attributes options;
  set_common(options, a);
  options.set_deterministic_algorithm(a.deterministic);
  auto [dq, dk, dv] = graph.sdpa_backward(q, k, v, out, dout, lse, options);
  dq->set_output(true).set_dim(of_q).set_stride(q_strides);
  dk->set_output(true).set_dim(of_k).set_stride(k_strides);
  dv->set_output(true).set_dim(of_k).set_stride(k_strides);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 12) return 2;
  const auto is = [&](int at, const char* word) { return std::strcmp(argv[at], word) == 0; };
  const Asked asked{is(1, "backward"),   is(8, "causal"),     is(9, "deterministic"), is(10, "lse"),
                    std::atoll(argv[2]), std::atoll(argv[3]), std::atoll(argv[4]),    std::atoll(argv[5]),
                    std::atoll(argv[6]), std::atoll(argv[7]), std::atoll(argv[11])};
  cudnnHandle_t handle = nullptr;
  if (cudnnCreate(&handle) != CUDNN_STATUS_SUCCESS) return 1;
  fe::graph::Graph graph;
  graph.set_io_data_type(fe::DataType_t::BFLOAT16).set_intermediate_data_type(fe::DataType_t::FLOAT);
  graph.set_compute_data_type(fe::DataType_t::FLOAT).set_sm_version(90);
  add_attention(graph, asked);
  for (const auto& step :
       {std::function<fe::error_t()>([&] { return graph.validate(); }),
        std::function<fe::error_t()>([&] { return graph.build_operation_graph(handle); }),
        std::function<fe::error_t()>([&] { return graph.create_execution_plans({fe::HeurMode_t::A}); }),
        std::function<fe::error_t()>([&] { return graph.check_support(handle); }),
        std::function<fe::error_t()>([&] { return graph.build_plans(handle); })}) {
    if (fe::error_t error = step(); error.is_bad()) {
      std::fprintf(stderr, "%s\n", error.get_message().c_str());
      return 1;
    }
  }
  std::printf("%s", fake_cudnn_graph());
}
