#include "tests/bench/gpt2_speed/gemm_ceiling.h"

#include <omp.h>
#include <time.h>

#include <algorithm>
#include <dnnl.hpp>
#include <vector>

#include "base/clock.h"

namespace longhaul::bench {
namespace {

using dnnl::memory;
using Type = memory::data_type;

// C[m, n] = A[m, k] B[k, n]; A and B may lie transposed.
struct Product {
  std::int64_t m, n, k;
  bool transpose_a, transpose_b;
  Type c;
};

class Timer {
 public:
  explicit Timer(int rounds) : rounds_(rounds) {}

  // Seconds of the better of the two forms.
  double best(const Product& p) {
    double best = seconds(p, false);
    if (p.c == Type::bf16) best = std::min(best, seconds(p, true));
    return best;
  }

 private:
  static memory::desc as_it_lies(std::int64_t rows, std::int64_t columns, bool transposed, Type type) {
    return {{rows, columns}, type, transposed ? memory::format_tag::ba : memory::format_tag::ab};
  }
  memory filled(const memory::desc& desc) {
    memory made(desc, engine_);
    auto* bytes = static_cast<std::uint16_t*>(made.get_data_handle());
    for (std::size_t i = 0; i < desc.get_size() / 2; ++i)  // small numbers of both signs
      bytes[i] = static_cast<std::uint16_t>(0x3c00 + (i * 7919) % 256 + (i % 2 == 0 ? 0x8000 : 0));
    return made;
  }
  double seconds(const Product& p, bool library_layout) {
    const memory::desc a = as_it_lies(p.m, p.k, p.transpose_a, Type::bf16);
    const memory::desc b = library_layout ? memory::desc({p.k, p.n}, Type::bf16, memory::format_tag::any)
                                          : as_it_lies(p.k, p.n, p.transpose_b, Type::bf16);
    const memory::desc c = as_it_lies(p.m, p.n, false, p.c);
    const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(a, b, c), engine_);
    const dnnl::matmul primitive(description);
    memory ma = filled(description.src_desc()), mb = filled(description.weights_desc()),
           mc = filled(description.dst_desc());
    double best = 1e9;
    const bool alone = omp_get_max_threads() == 1;  // then the thread's own time, which neighbours do not lengthen
    const auto now = [&] {
      if (!alone) return static_cast<double>(clock_.monotonic_ns()) * 1e-9;
      struct timespec t{};
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
      return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
    };
    for (int round = 0; round <= rounds_; ++round) {
      const double begin = now();
      primitive.execute(stream_, {{DNNL_ARG_SRC, ma}, {DNNL_ARG_WEIGHTS, mb}, {DNNL_ARG_DST, mc}});
      stream_.wait();
      if (round > 0) best = std::min(best, now() - begin);
    }
    return best;
  }

  int rounds_;
  SystemClock clock_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
};

}  // namespace

GemmCeiling gemm_ceiling(const ModelShape& shape, std::int64_t tokens, int threads, int rounds) {
  omp_set_num_threads(threads);
  Timer timer(rounds);
  GemmCeiling ceiling;
  const auto linear = [&](std::int64_t in, std::int64_t out, std::int64_t rows, double times, Type y) {
    ceiling.seconds += times * timer.best({rows, out, in, false, true, y});
    ceiling.seconds += times * timer.best({rows, in, out, false, false, Type::bf16});
    ceiling.seconds += times * timer.best({out, in, rows, true, false, Type::f32});
    ceiling.flop += times * 6.0 * static_cast<double>(in * out * rows);
  };
  const auto layers = static_cast<double>(shape.num_hidden_layers);
  linear(shape.hidden_size, shape.q_size() + 2 * shape.kv_size(), tokens, layers, Type::bf16);
  linear(shape.q_size(), shape.hidden_size, tokens, layers, Type::bf16);
  linear(shape.hidden_size, shape.mlp_width(), tokens, layers, Type::bf16);
  linear(shape.intermediate_size, shape.hidden_size, tokens, layers, Type::bf16);
  const std::int64_t chunk = std::min<std::int64_t>(tokens, 1024);  // as the step cuts it
  linear(shape.hidden_size, shape.vocab_size, chunk, static_cast<double>(tokens) / static_cast<double>(chunk),
         Type::f32);
  return ceiling;
}

}  // namespace longhaul::bench
