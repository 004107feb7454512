// A block for each row of logits. What engine/infer/generate/sampling.cc sorts is looked up piece by piece here: the
// elements that come next in the order are found by counting how many lie above some bounds, gathered, and ranked; one
// thread then goes through them as the processor does. Nothing else is sorted.
//
// Sums of the whole row decide two things: where top-p ends, and what is drawn where nothing is cut. Both compare such
// a sum with another one; see sample_slack().
#include "base/digest/philox.h"
#include "engine/ops/cuda/common/row_access.h"
#include "engine/ops/cuda/loss/sample_kernels.h"

namespace longhaul::cuda {
namespace {

constexpr int threads_max = 512;
constexpr int piece_max = 512;   // elements that are ranked at a time
constexpr int piece_least = 64;  // looking for fewer than that costs more than it saves
constexpr int bounds = 6;        // counted in one pass: three in each word of 64 bits
constexpr int count_bits = 21;

// The place of an element in its row: by descending logit, the lower id first. A larger one comes first; none is 0.
using Place = std::uint64_t;
__device__ inline Place place_of(float logit, Index id) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(logit + 0.0F);  // -0 is 0
  const std::uint32_t ascending = bits >> 31 != 0 ? ~bits : bits | 0x80000000U;
  return Place{ascending} << 32 | (0xFFFFFFFFU - static_cast<std::uint32_t>(id));
}
__device__ inline std::int32_t id_at(Place place) {
  return static_cast<std::int32_t>(0xFFFFFFFFU - static_cast<std::uint32_t>(place));
}
__device__ inline float logit_at(Place place) {
  const auto ascending = static_cast<std::uint32_t>(place >> 32);
  return std::bit_cast<float>(ascending >> 31 != 0 ? ascending & 0x7FFFFFFFU : ~ascending);
}

struct Shared {
  Place found[piece_max], sorted[piece_max];
  double weights[piece_max];  // of sorted, or of neighbouring ids
  double of_thread[threads_max];
  double sums[threads_max / warp_size];
  Place places[threads_max / warp_size];
  double number, sum;  // from the first thread to all
  std::int32_t token;
  int count, done, undecided;
};
__device__ inline Shared& shared() {
  return *reinterpret_cast<Shared*>(shared_memory());
}

__device__ inline float finite_or_lowest(float x) {
  return (std::bit_cast<std::uint32_t>(x) & 0x7F800000U) == 0x7F800000U ? -INFINITY : x;
}
template <class T>
struct RawRow {
  const T* logits;
  __device__ float operator()(Index i) const { return finite_or_lowest(to_float(logits[i])); }
};
// As apply_penalties(); the products are rounded before they are added to anything.
template <class T>
struct PenalisedRow {
  const T* logits;
  const std::int32_t* seen;  // or null
  double repetition, presence, frequency;
  __device__ float operator()(Index i) const {
    const float x = to_float(logits[i]);
    const std::int32_t times = seen != nullptr ? seen[i] : 0;
    if (times <= 0) return finite_or_lowest(x);
    double logit = x;
    logit = logit > 0 ? logit / repetition : __dmul_rn(logit, repetition);
    if (times > 1) logit -= presence + __dmul_rn(frequency, static_cast<double>(times - 1));
    return finite_or_lowest(static_cast<float>(logit));
  }
};

__device__ inline double weight_of(float logit, float top, double temperature) {
  return logit == -INFINITY ? 0.0 : exp((static_cast<double>(logit) - static_cast<double>(top)) / temperature);
}

// The first element of the row, for all threads.
template <class Row>
__device__ inline Place first_place(const Row& row, Index n) {
  Place first = 0;
  for (Index i = threadIdx.x; i < n; i += blockDim.x) {
    const Place place = place_of(row(i), i);
    if (place > first) first = place;
  }
  LONGHAUL_UNROLL
  for (int mask = 1; mask < warp_size; mask *= 2) {
    const Place other = shuffle_xor(first, mask);
    if (other > first) first = other;
  }
  if (threadIdx.x % warp_size == 0) shared().places[threadIdx.x / warp_size] = first;
  sync_block();
  for (unsigned i = 0; i < blockDim.x / warp_size; ++i)
    if (shared().places[i] > first) first = shared().places[i];
  return first;
}

// The row's weights in the order of the ids, as many at a time as there are threads: visit(i, weight) by the first
// thread until it says that it is done.
template <class Row, class Visit>
__device__ inline void in_order(const Row& row, Index begin, Index end, float top, double temperature,
                                const Visit& visit) {
  Shared& s = shared();
  for (Index from = begin; from < end; from += blockDim.x) {
    const Index i = from + threadIdx.x;
    s.weights[threadIdx.x] = i < end ? weight_of(row(i), top, temperature) : 0.0;
    sync_block();
    if (threadIdx.x == 0) {
      s.done = 0;
      for (Index k = 0; k < static_cast<Index>(blockDim.x) && from + k < end && s.done == 0; ++k)
        s.done = visit(from + k, s.weights[k]) ? 1 : 0;
    }
    sync_block();
    if (s.done != 0) return;
  }
}
template <class Row>
__device__ inline double sum_in_order(const Row& row, Index n, float top, double temperature) {
  double sum = 0;
  in_order(row, 0, n, top, temperature, [&](Index, double weight) {
    sum += weight;
    return false;
  });
  if (threadIdx.x == 0) shared().sum = sum;
  sync_block();
  return shared().sum;
}
template <class Row>
__device__ inline double sum_of_all(const Row& row, Index n, float top, double temperature) {
  double sum = 0;
  for (Index i = threadIdx.x; i < n; i += blockDim.x) sum += weight_of(row(i), top, temperature);
  return sum_over_block(sum, shared().sums);
}

// How many elements lie in [bound, below), for each bound; for all threads.
template <class Row>
__device__ inline void count_above(const Row& row, Index n, const Place (&bound)[bounds], Place below,
                                   Index (&counts)[bounds]) {
  unsigned mine[bounds] = {};
  for (Index i = threadIdx.x; i < n; i += blockDim.x) {
    const Place place = place_of(row(i), i);
    if (place >= below) continue;
    LONGHAUL_UNROLL
    for (int b = 0; b < bounds; ++b) mine[b] += place >= bound[b] ? 1U : 0U;
  }
  auto* const parts = shared().places;
  for (int word = 0; word < bounds / 3; ++word) {
    std::uint64_t packed = 0;
    for (int b = 0; b < 3; ++b) packed |= std::uint64_t{mine[word * 3 + b]} << (count_bits * b);
    packed = sum_over_block(packed, parts);
    for (int b = 0; b < 3; ++b)
      counts[word * 3 + b] = static_cast<Index>(packed >> (count_bits * b) & ((1U << count_bits) - 1));
  }
}

// The elements that come next below `below`, of which there are `left`, with their weights, in their order, into shared
// memory: `wanted` of them or piece_least at least, at most piece_max. How many.
template <class Row>
__device__ inline Index take_piece(const Row& row, Index n, Place below, Index left, Index wanted, float top,
                                   double temperature) {
  Shared& s = shared();
  const Index least = wanted < piece_least ? wanted : piece_least;
  // More than piece_max lie in [low, below), `count` of them, not more than that, in [from, below).
  Place low = 0, from = below;
  Index count = 0;
  if (left <= piece_max) from = 0, count = left;
  for (bool coarse = true; count < least; coarse = false) {
    // Distances from `from`: at first of all sizes, for there is one scale of logits or another; then even ones.
    const Place room = from - low - 1, step = room / bounds > 0 ? room / bounds : 1;
    Place bound[bounds];
    Index counts[bounds];
    LONGHAUL_UNROLL
    for (int b = 0; b < bounds; ++b) {
      const Place distance = coarse ? room >> (3 * (bounds - 1 - b)) : step * static_cast<Place>(b + 1);
      bound[b] = from - (distance < 1 ? 1 : distance > room ? room : distance);
    }
    count_above(row, n, bound, below, counts);
    for (int b = 0; b < bounds; ++b) {
      if (counts[b] > piece_max) {
        low = bound[b];
        break;
      }
      from = bound[b], count = counts[b];
    }
  }
  sync_block();
  if (threadIdx.x == 0) s.count = 0;
  sync_block();
  for (Index i = threadIdx.x; i < n; i += blockDim.x) {
    const Place place = place_of(row(i), i);
    if (place >= from && place < below) s.found[atomicAdd(&s.count, 1)] = place;  // in any order: they are ranked next
  }
  sync_block();
  for (Index k = threadIdx.x; k < count; k += blockDim.x) {
    const Place mine = s.found[k];
    int rank = 0;
    for (Index other = 0; other < count; ++other) rank += s.found[other] > mine ? 1 : 0;
    s.sorted[rank] = mine;
    s.weights[rank] = weight_of(logit_at(mine), top, temperature);
  }
  sync_block();
  return count;
}

// The first `wanted` elements of the row in their order, piece by piece.
template <class Row>
struct Walk {
  Row row;
  Index n;
  Place first;  // first_place()
  float top;
  double temperature;
  Index loaded = 0;  // of the first piece, while it is the one in shared memory

  // visit(k) by the first thread for each, sorted[k] and weights[k] being its own, until it says that it is done.
  template <class Visit>
  __device__ void run(Index wanted, const Visit& visit) {
    Shared& s = shared();
    Place below = first + 1;
    for (Index taken = 0; taken < wanted;) {
      if (taken > 0 || loaded == 0) {
        const Index count = take_piece(row, n, below, n - taken, wanted - taken, top, temperature);
        loaded = taken == 0 ? count : 0;
        if (threadIdx.x == 0) s.count = static_cast<int>(count);
      } else if (threadIdx.x == 0) {
        s.count = static_cast<int>(loaded);
      }
      sync_block();
      const Index use = s.count < wanted - taken ? s.count : wanted - taken;
      if (threadIdx.x == 0) {
        s.done = 0;
        for (Index k = 0; k < use && s.done == 0; ++k) s.done = visit(k) ? 1 : 0;
      }
      sync_block();
      if (s.done != 0) break;
      below = s.sorted[use - 1];
      taken += use;
    }
    sync_block();
  }
  __device__ double sum(Index wanted) {
    double total = 0;
    run(wanted, [&](Index k) {
      total += shared().weights[k];
      return false;
    });
    if (threadIdx.x == 0) shared().sum = total;
    sync_block();
    return shared().sum;
  }
};

// Where top-p ends: how many elements, and the sum of their weights. The sum of all lies in [low, high].
struct TopP {
  Index count;
  double sum;
  bool decided;
};
template <class Row>
__device__ inline TopP top_p_end(Walk<Row>& walk, Index wanted, double low, double high) {
  Shared& s = shared();
  double sum = 0;
  Index end = 0;
  if (threadIdx.x == 0) s.undecided = 0;
  walk.run(wanted, [&](Index k) {
    if (end > 0 && sum >= high) return true;
    if (end > 0 && sum >= low) {
      s.undecided = 1;
      return true;
    }
    sum += s.weights[k], ++end;
    return false;
  });
  if (threadIdx.x == 0) s.sum = sum, s.number = static_cast<double>(end);
  sync_block();
  const TopP found{static_cast<Index>(s.number), s.sum, s.undecided == 0};
  sync_block();
  return found;
}

// With top-k or top-p.
template <class Row>
__device__ inline void draw_candidate(Walk<Row>& walk, const SampleRow& how, double u, double slack) {
  Shared& s = shared();
  const Index kept = how.top_k > 0 && how.top_k < walk.n ? how.top_k : walk.n;
  TopP cut{kept, 0, true};
  if (how.top_p >= 1) {
    cut.sum = walk.sum(kept);
  } else if (kept < walk.n) {
    const double bound = __dmul_rn(how.top_p, walk.sum(kept));
    cut = top_p_end(walk, kept, bound, bound);
  } else {
    const double bound = how.top_p * sum_of_all(walk.row, walk.n, walk.top, walk.temperature);
    cut = top_p_end(walk, kept, bound * (1 - slack), bound * (1 + slack));
    if (!cut.decided) {
      walk.loaded = 0;  // the weights of the row take its place
      const double exact = __dmul_rn(how.top_p, sum_in_order(walk.row, walk.n, walk.top, walk.temperature));
      cut = top_p_end(walk, kept, exact, exact);
    }
  }
  double left = u;
  walk.run(cut.count, [&](Index k) {
    const double probability = s.weights[k] / cut.sum;
    s.token = id_at(s.sorted[k]);
    if (left < probability) return true;
    left -= probability;
    return false;
  });
}

// With neither, in the order of the ids, as the processor does. By its sums and in its order:
template <class Row>
__device__ inline void draw_in_order(const Row& row, Index n, float top, double temperature, double u) {
  Shared& s = shared();
  double left = __dmul_rn(u, sum_in_order(row, n, top, temperature));
  in_order(row, 0, n, top, temperature, [&](Index i, double weight) {
    if (weight <= 0) return false;
    s.token = static_cast<std::int32_t>(i);
    if (left < weight) return true;
    left -= weight;
    return false;
  });
  sync_block();
}
// By sums that all threads make: the thread in whose ids it lies, then the id. False where it is too close to a border.
template <class Row>
__device__ inline bool draw_by_parts(const Row& row, Index n, float top, double temperature, double u, double slack) {
  Shared& s = shared();
  const Index threads = blockDim.x, each = (n + threads - 1) / threads;
  double sum = 0;
  for (Index i = threadIdx.x * each; i < (threadIdx.x + 1) * each && i < n; ++i)
    sum += weight_of(row(i), top, temperature);
  s.of_thread[threadIdx.x] = sum;
  const double total = sum_over_block(sum, s.sums);
  const double target = u * total, margin = slack * total;
  if (threadIdx.x == 0) {
    double before = 0;
    int thread = 0;
    while (thread + 1 < static_cast<int>(threads) && target >= before + s.of_thread[thread])
      before += s.of_thread[thread++];
    s.number = before, s.count = thread;
    s.undecided = 1;
  }
  sync_block();
  const Index begin = s.count * each, end = begin + each < n ? begin + each : n;
  double before = s.number;
  in_order(row, begin, end, top, temperature, [&](Index i, double weight) {
    if (weight <= 0) return false;
    const double after = before + weight;
    if (target >= after + margin) {
      before = after;
      return false;
    }
    s.token = static_cast<std::int32_t>(i);
    s.undecided = target < after - margin && (before == 0 || target >= before + margin) ? 0 : 1;
    return true;
  });
  const bool decided = s.undecided == 0;
  sync_block();
  return decided;
}

// Number `index` of a stream, as Philox::uniform_double().
__device__ inline double uniform(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  const PhiloxBlock b = Philox{seed, stream}.block(index >> 1);
  const std::uint64_t bits = (index & 1) != 0 ? std::uint64_t{b[3]} << 32 | b[2] : std::uint64_t{b[1]} << 32 | b[0];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

template <class T>
__global__ void __launch_bounds__(threads_max) sample_kernel(Sample<T> p) {
  const Index sequence = blockIdx.x, n = p.vocab;
  const SampleRow how = p.rows[sequence];
  if (how.active == 0 || how.seen_row >= p.seen_rows) {
    if (threadIdx.x == 0) p.tokens[sequence] = -1;
    return;
  }
  Shared& s = shared();
  std::int32_t* const seen = how.seen_row >= 0 ? p.seen + how.seen_row * n : nullptr;
  using Row = PenalisedRow<T>;
  const Row row{p.logits + sequence * n, seen, how.repetition_penalty, how.presence_penalty, how.frequency_penalty};
  const Place first = first_place(row, n);
  const float top = logit_at(first);
  if (threadIdx.x == 0) s.token = id_at(first);
  sync_block();
  const bool greedy = how.temperature <= 0 || how.top_k == 1 || how.top_p <= 0;
  if (!greedy && top != -INFINITY) {
    const double u = uniform(how.seed, how.stream, how.position);
    if (how.top_k > 0 || how.top_p < 1) {
      Walk<Row> walk{row, n, first, top, how.temperature};
      draw_candidate(walk, how, u, p.slack);
    } else if (!draw_by_parts(row, n, top, how.temperature, u, p.slack)) {
      draw_in_order(row, n, top, how.temperature, u);
    }
  }
  if (threadIdx.x != 0) return;
  p.tokens[sequence] = s.token;
  p.rows[sequence].position = how.position + 1;
  if (seen != nullptr) seen[s.token] = (seen[s.token] < 1 ? 1 : seen[s.token]) + 1;
}

template <class T>
__global__ void __launch_bounds__(threads_max) logprobs_kernel(Logprobs<T> p) {
  const Index sequence = blockIdx.x, n = p.vocab;
  const std::int32_t token = p.tokens[sequence];
  const bool asked = token >= 0 && token < n;
  for (Index k = threadIdx.x; k < p.top_count; k += blockDim.x)
    p.top_tokens[sequence * p.top_count + k] = -1, p.top[sequence * p.top_count + k] = NAN;
  if (!asked) {
    if (threadIdx.x == 0) p.chosen[sequence] = NAN;
    return;
  }
  const T* const logits = p.logits + sequence * n;
  const RawRow<T> row{logits};
  const Place first = first_place(row, n);
  const float top = logit_at(first);
  const double log_sum = log(sum_of_all(row, n, top, 1.0)) + static_cast<double>(top);
  if (threadIdx.x == 0) p.chosen[sequence] = static_cast<double>(to_float(logits[token])) - log_sum;
  Walk<RawRow<T>> walk{row, n, first, top, 1.0};
  Index at = sequence * p.top_count;
  walk.run(p.top_count < n ? p.top_count : n, [&](Index k) {
    const std::int32_t id = id_at(shared().sorted[k]);
    p.top_tokens[at] = id;
    p.top[at++] = static_cast<double>(to_float(logits[id])) - log_sum;
    return false;
  });
}

dim3 threads_for(Index vocab) {
  return dim3(vocab <= 4096 ? 128 : threads_max);
}

}  // namespace

template <class T>
void sample_tokens(cudaStream_t stream, const Sample<T>& p) {
  launch("sample_tokens", stream, sample_kernel<T>, dim3(static_cast<unsigned>(p.sequences)), threads_for(p.vocab),
         sizeof(Shared), p);
}
template <class T>
void token_logprobs(cudaStream_t stream, const Logprobs<T>& p) {
  launch("token_logprobs", stream, logprobs_kernel<T>, dim3(static_cast<unsigned>(p.sequences)), threads_for(p.vocab),
         sizeof(Shared), p);
}

template void sample_tokens(cudaStream_t, const Sample<float>&);
template void sample_tokens(cudaStream_t, const Sample<bf16>&);
template void token_logprobs(cudaStream_t, const Logprobs<float>&);
template void token_logprobs(cudaStream_t, const Logprobs<bf16>&);

}  // namespace longhaul::cuda
