#include "engine/infer/serve/serving_speed.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <utility>

#include "base/digest/philox.h"
#include "engine/infer/generate/sampling.h"
#include "engine/model/layers/parallel_linear.h"
#include "engine/ops/attention/attention.h"
#include "engine/ops/attention/kv_table.h"
#include "engine/ops/attention/rope.h"
#include "engine/ops/linear/gemm.h"
#include "engine/ops/pointwise/elementwise.h"
#include "engine/ops/pointwise/rmsnorm.h"
#include "engine/ops/pointwise/swiglu.h"

namespace longhaul {
namespace {

constexpr int calls = 200, draws = 16;
constexpr std::int64_t vocabulary = 16384;
constexpr double multiplications = 5e6;  // of a timed group of products: half a millisecond

struct Matrix {
  std::int64_t out, in;
};
// As a model of so many bytes has them, a few in each of some layers.
constexpr Matrix matrix_of_set[] = {{128, 128}, {256, 128}, {256, 256}, {512, 256}, {1024, 512}, {2048, 1024}};
static_assert(std::size(matrix_of_set) == std::size(serving_sets));

// Small operations on rows as a layer of this width has them; one row, and many.
constexpr std::int64_t width = 512, head = 64, kv_width = 128, inner = 1408, many_rows = 32;
constexpr double elements_of_row = 8 * width + 3 * (width + 2 * kv_width + inner);  // as serving_time.h counts them

constexpr std::int64_t shared_bytes = 8LL << 20;  // more than a core's own caches hold anywhere
constexpr std::int64_t far_bytes = 32LL << 20;    // and more than what cores share holds for one of them

// Caches of a quarter of a MiB in each layer, and how many sequences a step attends to.
constexpr std::int64_t heads = 16, kv_heads = 4, sequences = 8;
constexpr std::int64_t kv_elements = kv_heads * head;
constexpr std::int64_t prompt_length = 256;

struct TimedWork {
  std::function<void()> once;
  int repeats = 1;
  int before = 0;    // that are not timed: what others have read since lies in the caches
  double spent = 0;  // seconds of all of it
  bool is_shared =
      false;  // it reads what cores share: others who compute take their part of that from a server as well
  std::vector<double> seconds = {};  // of one
};

// Of what a core does alone the fastest quarter counts: whoever else computes there only ever adds time.
double usual_time(const TimedWork& work) {
  std::vector<double> seconds = work.seconds;
  const auto at = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / (work.is_shared ? 2 : 4));
  std::nth_element(seconds.begin(), at, seconds.end());
  return *at;
}

// Uniform in -1/2..1/2; a long one repeats itself, in memory of its own all the same.
Tensor made_up(const ComputeContext& context, DType dtype, Shape shape) {
  constexpr std::int64_t drawn = 1 << 16;
  std::vector<float> values(static_cast<std::size_t>(std::min(drawn, shape.size())));
  PhiloxSequence random(2, 0);
  for (float& value : values) value = static_cast<float>(random.next_below(1 << 16)) * 0x1p-16F - 0.5F;
  Tensor part(dtype, {static_cast<std::int64_t>(values.size())}), tensor(dtype, shape);
  cast(context, std::span<const float>(values), part);
  auto* const to = static_cast<std::byte*>(tensor.view().data());
  const std::int64_t bytes = tensor.bytes();
  for (std::int64_t at = 0; at < bytes; at += part.bytes())
    std::memcpy(to + at, part.view().data(), static_cast<std::size_t>(std::min(part.bytes(), bytes - at)));
  return tensor;
}

// As many sequences as rows, each with room for one token: where a step's keys and values go.
struct CachesOfOneToken {
  CachesOfOneToken(DType dtype, std::int64_t rows) : keys(dtype, {rows, kv_width}), values(dtype, {rows, kv_width}) {
    for (std::int32_t i = 0; i < rows; ++i) {
      sequence_of.push_back(i), positions.push_back(0);
      const std::int64_t at = i * keys.bytes() / rows;
      places.push_back(
          {static_cast<std::byte*>(keys.view().data()) + at, static_cast<std::byte*>(values.view().data()) + at, 1});
    }
  }
  Tensor keys, values;
  std::vector<std::int32_t> sequence_of, positions;
  std::vector<KvPlace> places;
};

// The small operations of a layer on `rows` rows.
class SmallOperations {
 public:
  SmallOperations(const ComputeContext& context, DType dtype, std::int64_t rows)
      : context_(context),
        rows_(rows),
        x_(made_up(context, dtype, {rows, width})),
        out_(made_up(context, dtype, {rows, width})),
        normed_(dtype, {rows, width}),
        q_(dtype, {rows, width}),
        norm_(made_up(context, dtype, {width})),
        qkv_(made_up(context, dtype, {rows, width + 2 * kv_width})),
        gate_up_(made_up(context, dtype, {rows, 2 * inner})),
        activated_(dtype, {rows, inner}),
        caches_(dtype, rows),
        rope_(make_rope_table(16, head, 10000)) {}

  void run() {
    const std::int64_t all = width + 2 * kv_width;
    for (int norm = 0; norm < 2; ++norm)
      add_rmsnorm_forward(context_, {rows_, width}, out_, x_, norm_, normed_, out_, {});
    rope_apply(context_, {rows_, width / head, head, all}, rope_, caches_.positions, 0,
               columns_of(qkv_.view(), rows_, 0, width));
    rope_apply(context_, {rows_, kv_width / head, head, all}, rope_, caches_.positions, 0,
               columns_of(qkv_.view(), rows_, width, kv_width));
    kv_append(context_, {rows_, width, kv_width}, qkv_, caches_.sequence_of, caches_.positions, caches_.places,
              q_.view());
    swiglu_forward(context_, gate_up_, activated_);
  }

 private:
  const ComputeContext& context_;
  std::int64_t rows_;
  Tensor x_, out_, normed_, q_, norm_, qkv_, gate_up_, activated_;
  CachesOfOneToken caches_;
  RopeTable rope_;
};

class ServingMeasurement {
 public:
  ServingMeasurement(const ComputeContext& context, const ServingSpeedOptions& options, const Clock& clock)
      : context_(context),
        options_(options),
        clock_(clock),
        few_(context, options.dtype, 1),
        many_(context, options.dtype, many_rows) {}

  Result<ServingSpeed> measure() {
    add_call();
    for (std::size_t set = 0; set < std::size(serving_sets); ++set) add_set(set);
    add_attention();
    add_prompt_attention();
    for (SmallOperations* one : {&few_, &many_}) timed_.push_back({[one] { one->run(); }, calls});
    add_draw();
    for (TimedWork& one : timed_) one.once();  // compiles products, takes memory
    // Round after round, so that whoever computes here for a moment meets every operation alike. Each has the same part
    // of the time: those that take long are left out of later rounds.
    const double share = options_.seconds / static_cast<double>(timed_.size());
    for (bool any = true; any;) {
      any = false;
      for (TimedWork& one : timed_) {
        if (options_.stop && options_.stop->load(std::memory_order_relaxed))
          return make_error(ErrorCode::aborted, "the measurement was stopped");
        if (!one.seconds.empty() && one.spent >= share) continue;
        time(one);
        any = true;
      }
    }
    return result();
  }

 private:
  void time(TimedWork& one) {
    const std::int64_t entered = clock_.monotonic_ns();
    for (int i = 0; i < one.before; ++i) one.once();
    const std::int64_t begun = now_ns();
    for (int i = 0; i < one.repeats; ++i) one.once();
    one.seconds.push_back(static_cast<double>(now_ns() - begun) * 1e-9 / one.repeats);
    one.spent += static_cast<double>(clock_.monotonic_ns() - entered) * 1e-9;
  }
  // Of a rank of one thread what the thread itself computes: who interrupts a millisecond of it says nothing of it.
  // Threads wait for each other, and that counts.
  std::int64_t now_ns() const {
    timespec now{};
    if (context_.threads() > 1 || ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) != 0) return clock_.monotonic_ns();
    return std::int64_t{1'000'000'000} * now.tv_sec + now.tv_nsec;
  }

  Tensor& keep(Tensor tensor) { return *tensors_.emplace_back(std::make_unique<Tensor>(std::move(tensor))); }

  void add_call() {
    Tensor &x = keep(made_up(context_, options_.dtype, {1, 64})),
           &w = keep(made_up(context_, options_.dtype, {64, 64})), &y = keep(Tensor(options_.dtype, {1, 64}));
    timed_.push_back({[&] { linear_forward(context_, {1, 64, 64}, x, w, y.view()); }, calls});
  }

  // Goes round the set's matrices, each in memory of its own, from one time to the next as well.
  void add_set(std::size_t set) {
    const auto [out, in] = matrix_of_set[set];
    const std::int64_t bytes = out * in * dtype_bytes(options_.dtype), count = serving_sets[set] / bytes;
    std::vector<const Tensor*> weights;
    for (std::int64_t i = 0; i < count; ++i) weights.push_back(&keep(made_up(context_, options_.dtype, {out, in})));
    for (const std::int64_t rows : serving_rows) {
      Tensor &x = keep(made_up(context_, options_.dtype, {rows, in})), &y = keep(Tensor(options_.dtype, {rows, out}));
      const double work = static_cast<double>(rows * out) * static_cast<double>(in);
      const auto once = [this, out = out, in = in, rows, weights, &x, &y, at = std::size_t{0}]() mutable {
        linear_forward(context_, {rows, in, out}, x, *weights[at], y.view());
        at = (at + 1) % weights.size();
      };
      const int repeats =
          std::max(1, static_cast<int>(std::min(multiplications / work, 4.0 * static_cast<double>(count))));
      const int before = serving_sets[set] < far_bytes ? std::min(repeats, static_cast<int>(count)) : 0;
      timed_.push_back({once, repeats, before, 0, serving_sets[set] >= shared_bytes});
    }
  }

  // Over caches of the first `bytes`, with so many heads of queries.
  void add_attention_over(const std::vector<KvPlace>& all, std::int64_t bytes, std::int64_t query_heads) {
    const std::int64_t places = bytes / serving_caches[0], at_once = std::min(places, sequences);
    Tensor &q = keep(made_up(context_, options_.dtype, {at_once, query_heads * head})),
           &out = keep(Tensor(options_.dtype, {at_once, query_heads * head}));
    const auto once = [this, &all, &q, &out, places, at_once, query_heads] {
      for (std::int64_t at = 0; at < places; at += at_once)
        attention_decode_table(context_, {query_heads, kv_heads, head, 0, 0}, q,
                               std::span(all).subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(at_once)),
                               context_length(), out.view());
    };
    const bool near = bytes == serving_caches[0];
    timed_.push_back({once, near ? 20 : 1, near ? 2 : 0, 0, !near});
  }

  // By heads of queries that share those of keys and values, and that have one each: near, further and far ones.
  void add_attention() {
    const std::int64_t places = far_bytes / serving_caches[0];
    static_assert(far_bytes == *(std::end(serving_caches) - 1));
    Tensor& cache = keep(made_up(context_, options_.dtype, {places * 2, context_length() * kv_elements}));
    const std::int64_t row = cache.bytes() / cache.shape()[0];
    for (std::int64_t i = 0; i < places; ++i) {
      auto* const at = static_cast<std::byte*>(cache.view().data()) + 2 * i * row;
      caches_.push_back({at, at + row, context_length()});
    }
    add_attention_over(caches_, far_bytes, heads);
    for (const std::int64_t bytes : serving_caches) add_attention_over(caches_, bytes, kv_heads);
  }
  std::int64_t context_length() const { return serving_caches[0] / (2 * kv_elements * dtype_bytes(options_.dtype)); }

  // Queries, keys and values of a piece of a prompt, as attend_prompt has them.
  void add_prompt_attention() {
    const DType t = options_.dtype;
    Tensor &q = keep(made_up(context_, t, {prompt_length, heads * head})),
           &k = keep(made_up(context_, t, {prompt_length, kv_heads * head})),
           &v = keep(made_up(context_, t, {prompt_length, kv_heads * head})),
           &out = keep(Tensor(t, {prompt_length, heads * head}));
    AttentionShape shape;
    shape.batch = 1, shape.seq = shape.kv_seq = prompt_length;
    shape.heads = heads, shape.kv_heads = kv_heads, shape.head_dim = head;
    timed_.push_back(
        {[this, shape, &q, &k, &v, &out] { attention_forward(context_, shape, q, k, v, out.view(), {}); }});
  }

  void add_draw() {
    Tensor& logits = keep(made_up(context_, DType::f32, {vocabulary}));
    timed_.push_back({[&logits, position = std::uint64_t{0}]() mutable {
                        const TokenHistory nothing;
                        sample_token(logits.span<float>(), nothing, {}, position++);
                      },
                      draws});
  }

  // In the order in which measure() adds them.
  ServingSpeed result() const {
    ServingSpeed speed;
    auto next = timed_.begin();
    const auto seconds = [&] { return usual_time(*next++); };
    speed.call = seconds();
    for (std::size_t set = 0; set < std::size(serving_sets); ++set) {
      const auto weights = static_cast<double>(matrix_of_set[set].out * matrix_of_set[set].in);
      for (const std::int64_t rows : serving_rows) {
        const double took = seconds();
        // What is timed in a row with others hides a part of a call; a product is never for nothing.
        speed.products.push_back({rows, serving_sets[set], std::max(took - speed.call, took / 2) / weights});
      }
    }
    // Of an element of a head of keys and values; groups of four heads of queries share one.
    const auto attended = [&](std::int64_t bytes) {
      return seconds() / static_cast<double>(bytes / serving_caches[0] * context_length() * kv_elements);
    };
    const double shared_heads = attended(far_bytes), near = attended(serving_caches[0]),
                 further = attended(serving_caches[1]), far = attended(serving_caches[2]);
    constexpr double others = heads / kv_heads - 1;
    speed.attention = std::max((shared_heads - far) / others, near / 10);
    for (const auto& [at, took] : {std::pair{&speed.cache_near, near}, std::pair{&speed.cache_shared, further},
                                   std::pair{&speed.cache_far, far}})
      *at = std::max(took - speed.attention, took / 10);
    speed.prompt_attention =
        seconds() / (static_cast<double>(prompt_length * heads * head) * static_cast<double>(prompt_length) / 2);
    const double few = seconds(), many = seconds();
    speed.element = std::max(many - few, many / 100) / (elements_of_row * static_cast<double>(many_rows - 1));
    speed.layer = std::max(few - elements_of_row * speed.element, few / 100);
    speed.logit = seconds() / static_cast<double>(vocabulary);
    return speed;
  }

  const ComputeContext& context_;
  const ServingSpeedOptions& options_;
  const Clock& clock_;
  SmallOperations few_, many_;
  std::vector<std::unique_ptr<Tensor>> tensors_;
  std::vector<KvPlace> caches_;
  std::vector<TimedWork> timed_;
};

}  // namespace

Result<ServingSpeed> measure_serving(const ComputeContext& context, const ServingSpeedOptions& options,
                                     const Clock& clock) {
  LH_ASSERT(context.device() == nullptr, "a processor's context");
  return ServingMeasurement(context, options, clock).measure();
}

}  // namespace longhaul
