// Attention by tiles (kernels_attention_tiles.inc) on a processor without them: tiles that follow the manual's text
// stand in for those of AMX, everything else is compiled as for the level. Where there is AMX, the tests of attention
// use it.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/digest/philox.h"
#include "engine/core/tensor/compute_context.h"
#include "engine/ops/cpu/simd/kernels.h"
#include "tests/support/seed.h"

#if defined(__x86_64__)
#include <immintrin.h>

using namespace longhaul;

namespace {

// Eight tiles as LDTILECFG, TILEZERO, TILELOADD, TILESTORED, TDPBF16PS and TILERELEASE are described in the Intel 64
// and IA-32 Architectures Software Developer's Manual, vol. 2. `wrong`: what a processor would have refused.
struct Tile {
  int rows = 0, row_bytes = 0;
  unsigned char bytes[16][64] = {};
};
struct EmulatedTiles {
  static inline Tile tiles[8];
  static inline int configured = 0;
  static inline std::string wrong;

  template <class Shapes>
  static void configure(const Shapes& shapes) {
    unsigned char raw[64];
    static_assert(sizeof shapes == sizeof raw);
    std::memcpy(raw, &shapes, sizeof raw);
    if (raw[0] != 1 || raw[1] != 0) wrong = "palette";
    for (int i = 2; i < 16; ++i)
      if (raw[i] != 0) wrong = "reserved byte";
    for (int i = 8; i < 16; ++i)
      if (raw[16 + 2 * i] != 0 || raw[17 + 2 * i] != 0 || raw[48 + i] != 0) wrong = "tile beyond the eighth";
    for (int i = 0; i < 8; ++i) {
      tiles[i] = {raw[48 + i], raw[16 + 2 * i] + 256 * raw[17 + 2 * i], {}};
      if (tiles[i].rows > 16 || tiles[i].row_bytes > 64) wrong = "size of a tile";
    }
    ++configured;
  }
  static void release() {
    for (Tile& tile : tiles) tile = {};
  }
  template <int tile>
  static void zero() {
    refuse_unconfigured(tile);
    std::memset(tiles[tile].bytes, 0, sizeof tiles[tile].bytes);
  }
  template <int tile>
  static void load(const void* words, std::int64_t stride) {
    refuse_unconfigured(tile);
    Tile& t = tiles[tile];
    std::memset(t.bytes, 0, sizeof t.bytes);
    for (int r = 0; r < t.rows; ++r)
      std::memcpy(t.bytes[r], static_cast<const char*>(words) + r * stride * 4, static_cast<std::size_t>(t.row_bytes));
  }
  template <int tile>
  static void store(void* words, std::int64_t stride) {
    refuse_unconfigured(tile);
    const Tile& t = tiles[tile];
    for (int r = 0; r < t.rows; ++r)
      std::memcpy(static_cast<char*>(words) + r * stride * 4, t.bytes[r], static_cast<std::size_t>(t.row_bytes));
  }
  template <int sum, int a, int b>
  static void add_product() {
    static_assert(sum != a && sum != b && a != b);
    Tile& c = tiles[sum];
    const Tile &x = tiles[a], &y = tiles[b];
    for (const int tile : {sum, a, b}) refuse_unconfigured(tile);
    if (c.rows != x.rows || c.row_bytes != y.row_bytes || x.row_bytes != 4 * y.rows) wrong = "sizes of a product";
    for (int m = 0; m < c.rows; ++m) {
      float even[16] = {}, odd[16] = {};
      for (int k = 0; k < x.row_bytes / 4; ++k)
        for (int n = 0; n < c.row_bytes / 4; ++n) {
          even[n] += number(x.bytes[m] + 4 * k) * number(y.bytes[k] + 4 * n);
          odd[n] += number(x.bytes[m] + 4 * k + 2) * number(y.bytes[k] + 4 * n + 2);
        }
      for (int n = 0; n < c.row_bytes / 4; ++n) {
        float old = 0;
        std::memcpy(&old, c.bytes[m] + 4 * n, 4);
        old += even[n] + odd[n];
        std::memcpy(c.bytes[m] + 4 * n, &old, 4);
      }
    }
  }

 private:
  static void refuse_unconfigured(int tile) {
    if (tiles[tile].rows == 0 || tiles[tile].row_bytes == 0) wrong = "a tile without a size";
  }
  static float number(const unsigned char* p) {  // of bf16
    const std::uint32_t bits = static_cast<std::uint32_t>(p[0] | p[1] << 8) << 16;
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
};

}  // namespace

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,avx2,fma,f16c,bmi2")
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#define LH_AVX512 1
#define LH_NATIVE_BF16 1
#define LH_TILE_LANES 16
#define LH_TILE_VECTORS 4
#define LH_TILE_ROWS 6
namespace longhaul::cpu::level_emulated {
#include "engine/ops/cpu/simd/kernels.inc"
#include "engine/ops/cpu/simd/kernels_attention.inc"
#include "engine/ops/cpu/simd/kernels_attention_bf16.inc"
#include "engine/ops/cpu/simd/kernels_attention_tiles.inc"
void multiply(Index m, Index n, Index pairs, const Pair* a, Index a_row, Index a_col, const Pair* b, Index ldb,
              float* c, Index ldc, bool accumulate) {
  ByTiles<EmulatedTiles> products;
  products(m, n, pairs, a, a_row, a_col, b, ldb, c, ldc, accumulate);
}
constexpr auto* forward = attention_forward_bf16<ByTiles<EmulatedTiles>>;
constexpr auto* backward = attention_backward_bf16<ByTiles<EmulatedTiles>>;
}  // namespace longhaul::cpu::level_emulated
#pragma GCC diagnostic pop
#pragma GCC pop_options

using cpu::AttentionArgs;
using cpu::Index;

namespace {

bool processor_can() {
  if (cpu::processor_has(CpuLevel::avx512_bf16)) return true;
  MESSAGE("skipped: this processor has no AVX-512 with bf16, which stands around the tiles");
  return false;
}

double half(std::uint32_t pair, int which) {
  const std::uint32_t bits = which == 0 ? pair << 16 : pair & 0xFFFF0000;
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return static_cast<double>(value);
}
std::vector<std::uint32_t> random_pairs(std::size_t count, const Philox& draw, std::uint64_t from) {
  std::vector<std::uint32_t> pairs(count);
  for (std::size_t i = 0; i < count; ++i) {
    const bf16 two[] = {bf16(draw.normal(from + 2 * i)), bf16(draw.normal(from + 2 * i + 1))};
    std::memcpy(&pairs[i], two, sizeof two);
  }
  return pairs;
}

// Of one key-value head; rows of q, k, v and out next to each other.
struct Attention {
  AttentionArgs args{};
  std::vector<bf16> q, k, v, dout, out, dq, dk, dv;
  std::vector<float> lse;
  std::vector<std::int32_t> first_key;
};
Attention random_attention(Index seq, Index kv_seq, Index group, Index head_dim, const Philox& draw) {
  Attention at;
  AttentionArgs& a = at.args;
  a.seq = seq, a.kv_seq = kv_seq, a.heads = group, a.kv_heads = 1, a.head_dim = head_dim;
  a.head_dim_padded = (head_dim + 15) / 16 * 16;
  a.q_stride = a.out_stride = group * head_dim, a.kv_stride = head_dim;
  a.scale = 1.0F / std::sqrt(static_cast<float>(head_dim));
  std::uint64_t drawn = 0;
  const auto fill = [&](std::vector<bf16>& x, Index count) {
    for (Index i = 0; i < count; ++i) x.emplace_back(draw.normal(drawn++));
  };
  fill(at.q, seq * group * head_dim), fill(at.dout, seq * group * head_dim);
  fill(at.k, kv_seq * head_dim), fill(at.v, kv_seq * head_dim);
  at.out.resize(at.q.size()), at.dq.resize(at.q.size()), at.dk.resize(at.k.size()), at.dv.resize(at.k.size());
  at.lse.resize(static_cast<std::size_t>(seq * group));
  return at;
}
// Scratch of exactly the size that the operations give, NaN before, and a mark behind it that stays.
struct Scratch {
  explicit Scratch(Index floats) : values(static_cast<std::size_t>(floats + 64), NAN) {
    std::fill(values.end() - 64, values.end(), 123.0F);
  }
  bool kept() const {
    return std::all_of(values.end() - 64, values.end(), [](float x) { return x == 123.0F; });
  }
  std::vector<float> values;
};
using Forward = decltype(cpu::TypedKernels<bf16>::attention_forward);
using Backward = decltype(cpu::TypedKernels<bf16>::attention_backward);
void attend(Attention& at, const cpu::TypedKernels<bf16>& level, Forward forward, Backward backward) {
  const AttentionArgs& a = at.args;
  const Index packed = (a.kv_seq + cpu::kKeyTile - 1) / cpu::kKeyTile * cpu::kKeyTile * a.head_dim_padded;
  Scratch kt(packed), vr(packed);
  level.attention_pack(a, at.k.data(), at.v.data(), 0, a.kv_seq, kt.values.data(), vr.values.data());
  for (Index head = 0; head < a.heads; ++head)
    for (Index begin = 0; begin < a.seq; begin += cpu::kQueryTile) {
      Scratch scratch(cpu::attention_forward_scratch(a));
      forward(a, at.q.data() + head * a.head_dim, kt.values.data(), vr.values.data(), at.out.data() + head * a.head_dim,
              at.lse.data() + head * a.seq, begin, std::min(a.seq, begin + cpu::kQueryTile), scratch.values.data());
      CHECK(scratch.kept());
    }
  Scratch scratch(cpu::attention_backward_scratch(a));
  backward(a, at.dout.data(), at.q.data(), at.k.data(), at.v.data(), at.out.data(), at.lse.data(), at.dq.data(),
           at.dk.data(), at.dv.data(), scratch.values.data());
  CHECK(scratch.kept());
  CHECK(kt.kept());
  CHECK(vr.kept());
}
// Largest difference, in shares of the largest value. NaN where one of them is.
template <class T>
double difference(const std::vector<T>& a, const std::vector<T>& b) {
  double most = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto x = static_cast<double>(static_cast<float>(a[i])), y = static_cast<double>(static_cast<float>(b[i]));
    if (std::isinf(x) && x == y) continue;  // of a row that sees nothing
    if (std::isnan(x) || std::isnan(y)) return NAN;
    most = std::max(most, std::abs(x - y)), size = std::max(size, std::abs(y));
  }
  return size == 0 ? most : most / size;
}

}  // namespace

TEST_CASE("products of pairs by tiles: every size, rows of a or its columns, written or added") {
  if (!processor_can()) return;
  const std::uint64_t seed = longhaul::testing::seed(20261201);
  CAPTURE(seed);
  const Philox draw{seed, 1};
  for (const Index m : {1, 15, 16, 17, 33, 48, 64})
    for (const Index n : {16, 32, 48, 64, 128})
      for (const Index pairs : {1, 8, 15, 16, 17, 24, 32, 64})
        for (const bool by_columns : {false, true})
          for (const bool accumulate : {false, true}) {
            if (by_columns && pairs > 32) continue;
            CAPTURE(m);
            CAPTURE(n);
            CAPTURE(pairs);
            CAPTURE(by_columns);
            CAPTURE(accumulate);
            const Index rows = (m + 15) / 16 * 16, a_row = by_columns ? 1 : pairs, a_col = by_columns ? 64 : 1;
            const auto a = random_pairs(static_cast<std::size_t>(by_columns ? pairs * 64 : rows * pairs), draw, 0);
            const auto b = random_pairs(static_cast<std::size_t>(pairs * n), draw, 100'000);
            std::vector<float> c(static_cast<std::size_t>(rows * n + 16), 2.0F);
            cpu::level_emulated::multiply(m, n, pairs, a.data(), a_row, a_col, b.data(), n, c.data(), n, accumulate);
            double most = 0;
            for (Index i = 0; i < m; ++i)
              for (Index j = 0; j < n; ++j) {
                double want = accumulate ? 2.0 : 0.0;
                for (Index p = 0; p < pairs; ++p)
                  for (const int which : {0, 1})
                    want += half(a[static_cast<std::size_t>(i * a_row + p * a_col)], which) *
                            half(b[static_cast<std::size_t>(p * n + j)], which);
                most = std::max(most, std::abs(want - static_cast<double>(c[static_cast<std::size_t>(i * n + j)])));
              }
            CHECK(most < 1e-4);
            for (std::size_t i = static_cast<std::size_t>(rows * n); i < c.size(); ++i) CHECK(c[i] == 2.0F);
          }
  CHECK(EmulatedTiles::wrong.empty());
  CHECK(EmulatedTiles::tiles[0].rows == 0);  // released
}

TEST_CASE("attention by tiles gives what attention by vectors gives, both ways") {
  if (!processor_can()) return;
  const std::uint64_t seed = longhaul::testing::seed(20261202);
  CAPTURE(seed);
  const auto& level = cpu::kernels(ComputeContext(1, CpuLevel::avx512_bf16)).b16;
  struct Sizes {
    Index seq, kv_seq, group, head_dim;
    bool causal;
    Index window, document;
  };
  for (const Sizes& z :
       {Sizes{1, 1, 1, 16, true, 0, 0}, Sizes{1, 200, 1, 64, true, 0, 0}, Sizes{64, 64, 1, 64, true, 0, 0},
        Sizes{130, 130, 2, 64, true, 0, 0}, Sizes{75, 75, 1, 40, true, 0, 0}, Sizes{100, 163, 2, 80, true, 0, 0},
        Sizes{97, 51, 1, 128, false, 0, 0}, Sizes{200, 200, 1, 48, true, 33, 0}, Sizes{150, 150, 1, 64, true, 0, 47}}) {
    CAPTURE(z.seq);
    CAPTURE(z.kv_seq);
    CAPTURE(z.head_dim);
    Attention tiles = random_attention(z.seq, z.kv_seq, z.group, z.head_dim, Philox{seed, 2});
    tiles.args.causal = z.causal, tiles.args.window = z.window;
    if (z.document > 0) {
      for (Index i = 0; i < z.seq; ++i)
        tiles.first_key.push_back(static_cast<std::int32_t>(i / z.document * z.document));
      tiles.args.first_key = tiles.first_key.data();
    }
    Attention vectors = tiles;
    const int before = EmulatedTiles::configured;
    attend(tiles, level, cpu::level_emulated::forward, cpu::level_emulated::backward);
    CHECK(EmulatedTiles::configured > before);
    attend(vectors, level, level.attention_forward, level.attention_backward);
    CHECK(difference(tiles.out, vectors.out) < 0.01);
    CHECK(difference(tiles.lse, vectors.lse) < 1e-5);
    CHECK(difference(tiles.dq, vectors.dq) < 0.01);
    CHECK(difference(tiles.dk, vectors.dk) < 0.01);
    CHECK(difference(tiles.dv, vectors.dv) < 0.01);
  }
  CHECK(EmulatedTiles::wrong.empty());
}
#endif
