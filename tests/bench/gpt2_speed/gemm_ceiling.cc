#include "tests/bench/gpt2_speed/gemm_ceiling.h"

#include <omp.h>
#include <time.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/system/clock.h"
#include "engine/ops/cpu/gemm/onednn_matmul.h"

namespace longhaul::bench {
namespace {

using dnnl::memory;
using Type = memory::data_type;
using Description = dnnl::matmul::primitive_desc;

// C[m, n] = A[m, k] B[k, n]; A and B may lie transposed.
struct Product {
  std::int64_t m, n, k;
  bool transpose_a, transpose_b;
  Type c;
};

struct Best {
  double seconds;
  bool bf16;
};

class Timer {
 public:
  explicit Timer(int rounds) : rounds_(rounds) {}

  // The better of both formats and layouts; nullopt: the library has no code for any.
  std::optional<Best> best(const Product& p) {
    std::optional<Best> best;
    for (const Type type : {Type::bf16, Type::f32}) {
      for (const bool library_layout : {false, true}) {
        if (library_layout && p.c == Type::f32) continue;  // gradients of weights and logits have no weights to lay out
        const std::optional<double> time = seconds(p, type, library_layout);
        if (!time) (type == Type::bf16 ? no_bf16_ : no_f32_) = true;
        if (time && (!best || *time < best->seconds)) best = {*time, type == Type::bf16};
      }
    }
    return best;
  }
  std::string missing() const {
    std::string text;
    if (no_bf16_) text = "bf16";
    if (no_f32_) text += text.empty() ? "f32" : ", f32";
    return text;
  }

 private:
  static memory::desc as_it_lies(std::int64_t rows, std::int64_t columns, bool transposed, Type type) {
    return {{rows, columns}, type, transposed ? memory::format_tag::ba : memory::format_tag::ab};
  }
  memory filled(const memory::desc& desc) {
    memory made(desc, engine_);
    auto* halves = static_cast<std::uint16_t*>(made.get_data_handle());
    for (std::size_t i = 0; i < desc.get_size() / 2; ++i)  // small numbers of both signs, in either format
      halves[i] = static_cast<std::uint16_t>(0x3c00 + (i * 7919) % 256 + (i % 2 == 0 ? 0x8000 : 0));
    return made;
  }
  // Throws where the library has nothing.
  Description describe(const Product& p, Type type, bool library_layout) {
    const memory::desc a = as_it_lies(p.m, p.k, p.transpose_a, type);
    const memory::desc b = library_layout ? memory::desc({p.k, p.n}, type, memory::format_tag::any)
                                          : as_it_lies(p.k, p.n, p.transpose_b, type);
    const memory::desc c = as_it_lies(p.m, p.n, false, type == Type::f32 ? Type::f32 : p.c);
    return cpu::describe_matmul(engine_, a, b, {}, c);
  }
  // nullopt: the library refuses, or has its reference alone, which is no ceiling of anything.
  std::optional<double> seconds(const Product& p, Type type, bool library_layout) {
    try {
      const Description description = describe(p, type, library_layout);
      if (std::string(description.impl_info_str()).find("ref") != std::string::npos) return std::nullopt;
      return seconds(description);
    } catch (const dnnl::error&) {
      return std::nullopt;
    }
  }
  double seconds(const Description& description) {
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
  bool no_bf16_ = false, no_f32_ = false;
  SystemClock clock_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
};

}  // namespace

GemmCeiling gemm_ceiling(const ModelShape& shape, std::int64_t tokens, int threads, int rounds) {
  omp_set_num_threads(threads);
  Timer timer(rounds);
  GemmCeiling ceiling;
  bool whole = true;
  const auto add = [&](double times, const Product& p) {
    const std::optional<Best> best = timer.best(p);
    whole = whole && best;
    if (!best) return;
    ceiling.seconds += times * best->seconds;
    if (best->bf16) ceiling.bf16 += times * best->seconds;
  };
  const auto linear = [&](std::int64_t in, std::int64_t out, std::int64_t rows, double times, Type y) {
    add(times, {rows, out, in, false, true, y});
    add(times, {rows, in, out, false, false, Type::bf16});
    add(times, {out, in, rows, true, false, Type::f32});
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
  ceiling.missing = timer.missing();
  if (!whole) ceiling.flop = 0;
  return ceiling;
}

}  // namespace longhaul::bench
