// Ranks that share sequences compute the attention of one rank: held against the f64 reference over the whole sequence.
#include <atomic>
#include <thread>

#include "base/system/clock.h"
#include "engine/comm/threads_communicator.h"
#include "engine/parallel/context/context_attention.h"
#include "engine/parallel/context/context_shard.h"
#include "tests/unit/engine/ops/op_check.h"

using namespace longhaul;
using namespace longhaul::op_check;

namespace {

struct WholeCase {
  reference::AttentionCase c;
  Values qkv, dout;  // [sequences, length, q + 2 kv], [.., q]
  Vector out, dqkv;
};

constexpr Index sequences = 2, heads = 4, kv_heads = 4, head_dim = 8, q_width = heads * head_dim,
                kv_width = kv_heads * head_dim, fused = q_width + 2 * kv_width;

// Rows [tokens, columns] out of wider ones.
Vector columns(const Vector& x, Index width, Index begin, Index count) {
  Vector out;
  for (std::size_t row = 0; row < x.size(); row += static_cast<std::size_t>(width))
    out.insert(out.end(), x.begin() + static_cast<Index>(row) + begin,
               x.begin() + static_cast<Index>(row) + begin + count);
  return out;
}

WholeCase whole_case(DType dtype, Index length, bool documents, Index window = 0) {
  WholeCase w{{sequences, length, heads, kv_heads, head_dim, length, 1.0 / std::sqrt(8.0), {}},
              random_values(dtype, sequences * length * fused, 21),
              random_values(dtype, sequences * length * q_width, 22),
              {},
              {}};
  w.c.window = window;
  for (Index i = 0; documents && i < sequences * length; ++i) {
    const Index document = i < length ? 37 : 75;  // other borders in every sequence, none at those of chunks
    w.c.first_key.push_back(static_cast<std::int32_t>(i % length / document * document));
  }
  const Vector q = columns(w.qkv.exact, fused, 0, q_width), k = columns(w.qkv.exact, fused, q_width, kv_width),
               v = columns(w.qkv.exact, fused, q_width + kv_width, kv_width);
  w.out = reference::attention(w.c, q, k, v).out;
  const auto g = reference::attention_backward(w.c, w.dout.exact, q, k, v);
  for (Index t = 0; t < sequences * length; ++t) {
    w.dqkv.insert(w.dqkv.end(), g.dq.begin() + t * q_width, g.dq.begin() + (t + 1) * q_width);
    w.dqkv.insert(w.dqkv.end(), g.dk.begin() + t * kv_width, g.dk.begin() + (t + 1) * kv_width);
    w.dqkv.insert(w.dqkv.end(), g.dv.begin() + t * kv_width, g.dv.begin() + (t + 1) * kv_width);
  }
  return w;
}

// The rows of a rank, by ContextShard alone.
template <class T>
std::vector<T> own_rows(const ContextShard& shard, Index length, Index width, const std::vector<T>& whole) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(sequences * length));
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int64_t>(i);
  std::vector<T> own;
  for (const std::int64_t row : shard.own(sequences, length, rows))
    own.insert(own.end(), whole.begin() + row * width, whole.begin() + (row + 1) * width);
  return own;
}

Tensor tensor_of(DType dtype, const Vector& exact) {
  Tensor tensor(dtype, {static_cast<Index>(exact.size())});
  for (std::size_t i = 0; i < exact.size(); ++i) {
    if (dtype == DType::f32)
      tensor.span<float>()[i] = static_cast<float>(exact[i]);
    else
      tensor.span<bf16>()[i] = bf16(static_cast<float>(exact[i]));
  }
  return tensor;
}

struct RankResult {
  Vector out, dqkv;
  Status status;
  std::int64_t bytes = 0;
};

// One rank's part of it, twice with the same object: nothing may be left over from the first time.
RankResult run_rank(Mesh& mesh, ContextAttentionKind kind, DType dtype, Index length, const WholeCase& w,
                    bool overlap = true) {
  const ContextShard shard(mesh.dims().cp, mesh.at().cp);
  const ComputeContext context(1);
  ContextAttentionSizes sizes{heads, kv_heads, head_dim, sequences * length / shard.ranks(), dtype, true, overlap};
  sizes.window = w.c.window;
  MemoryAccount account;
  const auto attention = make_context_attention(kind, &mesh, sizes, &account);
  const auto first_key =
      own_rows(shard, length, 1,
               w.c.first_key.empty() ? reference::Ids(static_cast<std::size_t>(sequences * length)) : w.c.first_key);
  ContextTokens tokens{2 * sequences, shard.chunk_length(length), {}, {}};
  if (!w.c.first_key.empty()) tokens.first_key = first_key, tokens.whole_first_key = w.c.first_key;
  const Index t = tokens.tokens();
  RankResult result;
  for (int pass = 0; pass < 2; ++pass) {
    Tensor qkv = tensor_of(dtype, own_rows(shard, length, fused, w.qkv.exact));
    const Tensor dout = tensor_of(dtype, own_rows(shard, length, q_width, w.dout.exact));
    Tensor out(dtype, {t * q_width}), dqkv(dtype, {t * fused});
    std::vector<float> lse(static_cast<std::size_t>(t * heads));
    attention->forward(context, tokens, qkv, out, lse);
    attention->backward(context, tokens, dout, qkv, out, lse, dqkv);
    result.out = exact_of(out), result.dqkv = exact_of(dqkv);
  }
  result.status = attention->status();
  result.bytes = account.bytes_peak;
  return result;
}

void on_context_ranks(int cp, const std::function<void(int rank, Mesh&)>& body) {
  const SystemClock clock;
  const ThreadsWorld world(cp);
  CommOptions options;
  options.clock = &clock;
  ParallelDims dims;
  dims.cp = cp;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < cp; ++rank)
    threads.emplace_back([&, rank] {
      const auto communicator = world.communicator(rank, 1, options);
      const auto mesh = Mesh::create(dims, *communicator, 20'000);
      if (mesh.ok()) body(rank, **mesh);
    });
  for (std::thread& thread : threads) thread.join();
}

constexpr ContextAttentionKind all_kinds[] = {ContextAttentionKind::ring, ContextAttentionKind::gather,
                                              ContextAttentionKind::a2a};

}  // namespace

TEST_CASE("every chunk has one owner, and the pairs under the causal mask are distributed evenly") {
  for (const int cp : {2, 3, 4, 8}) {
    std::vector<int> owners(static_cast<std::size_t>(2 * cp));
    for (int rank = 0; rank < cp; ++rank) {
      const ContextShard shard(cp, rank);
      int pairs = 0;
      for (const int half : {0, 1}) {
        ++owners[static_cast<std::size_t>(shard.chunk(half))];
        pairs += shard.chunk(half) + 1;
      }
      CHECK(pairs == 2 * cp + 1);
    }
    CHECK(owners == std::vector<int>(owners.size(), 1));
  }
  const std::vector<int> two_sequences = {0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13, 14, 15, 16, 17};
  CHECK(ContextShard(2, 0).own(2, 8, two_sequences) == std::vector<int>{0, 1, 10, 11, 6, 7, 16, 17});
  CHECK(ContextShard(2, 1).own(2, 8, two_sequences) == std::vector<int>{2, 3, 12, 13, 4, 5, 14, 15});
  CHECK(ContextShard(2, 1).padded(9) == 12);
  const std::vector<int> of_ranks = {0, 1, 10, 11, 6, 7, 16, 17, 2, 3, 12, 13, 4, 5, 14, 15};
  std::vector<int> joined(two_sequences.size());
  ContextShard(2, 1).join<int>(2, of_ranks, joined);
  CHECK(joined == two_sequences);
}

TEST_CASE("ring, gather and a2a follow the reference over the whole sequence, with documents and without") {
  for (const DType dtype : kTypes)
    for (const int cp : {2, 4})
      for (const bool documents : {false, true}) {
        const Index length = 2 * cp * 30;
        const WholeCase w = whole_case(dtype, length, documents);
        for (const ContextAttentionKind kind : all_kinds) {
          std::vector<RankResult> results(static_cast<std::size_t>(cp));
          on_context_ranks(cp, [&](int rank, Mesh& mesh) {
            results[static_cast<std::size_t>(rank)] = run_rank(mesh, kind, dtype, length, w);
          });
          for (int rank = 0; rank < cp; ++rank) {
            const RankResult& r = results[static_cast<std::size_t>(rank)];
            const ContextShard shard(cp, rank);
            INFO("kind ", static_cast<int>(kind), " cp ", cp, " rank ", rank, " ", dtype_name(dtype), " documents ",
                 documents);
            CHECK(r.status.ok());
            CHECK(normalised_error(r.out, own_rows(shard, length, q_width, w.out)) <= tolerance(dtype));
            CHECK(normalised_error(r.dqkv, own_rows(shard, length, fused, w.dqkv)) <= 2.0 * tolerance(dtype));
          }
        }
      }
}

TEST_CASE("a sliding window over ranks: within a chunk, over several, beyond documents, and shorter than any") {
  const Index length = 2 * 4 * 20;
  for (const bool documents : {false, true})
    for (const Index window : {1, 7, 20, 45, 130, 1000}) {
      const WholeCase w = whole_case(DType::f32, length, documents, window);
      for (const ContextAttentionKind kind : all_kinds)
        for (const int cp : {2, 4}) {
          std::vector<RankResult> results(static_cast<std::size_t>(cp));
          on_context_ranks(cp, [&](int rank, Mesh& mesh) {
            results[static_cast<std::size_t>(rank)] = run_rank(mesh, kind, DType::f32, length, w);
          });
          for (int rank = 0; rank < cp; ++rank) {
            const RankResult& r = results[static_cast<std::size_t>(rank)];
            const ContextShard shard(cp, rank);
            INFO("kind ", static_cast<int>(kind), " cp ", cp, " rank ", rank, " window ", window);
            CHECK(r.status.ok());
            CHECK(normalised_error(r.out, own_rows(shard, length, q_width, w.out)) <= tolerance(DType::f32));
            CHECK(normalised_error(r.dqkv, own_rows(shard, length, fused, w.dqkv)) <= 2.0 * tolerance(DType::f32));
          }
        }
    }
}

TEST_CASE("the ring gives the same bits whether its messages wait or not") {
  const Index length = 2 * 4 * 20;
  const WholeCase w = whole_case(DType::bf16, length, true);
  std::vector<RankResult> waiting(4), overlapped(4);
  on_context_ranks(4, [&](int rank, Mesh& mesh) {
    const auto at = static_cast<std::size_t>(rank);
    overlapped[at] = run_rank(mesh, ContextAttentionKind::ring, DType::bf16, length, w);
    waiting[at] = run_rank(mesh, ContextAttentionKind::ring, DType::bf16, length, w, false);
  });
  for (std::size_t rank = 0; rank < 4; ++rank) {
    CHECK(waiting[rank].out == overlapped[rank].out);
    CHECK(waiting[rank].dqkv == overlapped[rank].dqkv);
    CHECK_FALSE(waiting[rank].out.empty());
  }
}

TEST_CASE("the ring's memory does not grow with cp; what is gathered does") {
  const auto bytes = [](ContextAttentionKind kind, int cp) {
    const Index length = 2 * cp * 8;
    const WholeCase w = whole_case(DType::f32, length, false);
    std::atomic<std::int64_t> held{0};
    on_context_ranks(cp, [&](int, Mesh& mesh) { held = run_rank(mesh, kind, DType::f32, length, w).bytes; });
    return held.load();
  };
  CHECK(bytes(ContextAttentionKind::ring, 2) == bytes(ContextAttentionKind::ring, 4));
  CHECK(bytes(ContextAttentionKind::gather, 2) < bytes(ContextAttentionKind::gather, 4));
}

TEST_CASE("a rank that does not come to the ring ends the others with its name, at once") {
  const Index length = 2 * 2 * 8;
  const WholeCase w = whole_case(DType::f32, length, false);
  for (const ContextAttentionKind kind : all_kinds) {
    Status status;
    on_context_ranks(2, [&](int rank, Mesh& mesh) {
      if (rank == 1) {  // leaves: an operation of the group is given up
        [[maybe_unused]] const Request given_up = mesh.context_communicator()->barrier();
        return;
      }
      status = run_rank(mesh, kind, DType::f32, length, w).status;
    });
    REQUIRE_FALSE(status.ok());
  }
}

TEST_CASE("the implementations' names") {
  CHECK(*context_attention_kind("gather") == ContextAttentionKind::gather);
  CHECK(context_attention_kind("p2p").error().message().find("p2p") != std::string::npos);
}
