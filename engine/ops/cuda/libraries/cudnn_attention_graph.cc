#include "engine/ops/cuda/libraries/cudnn_attention_graph.h"

namespace longhaul::cuda {
namespace {

using Tensor = CudnnGraph::Tensor;
using Dims = CudnnGraph::Dims;
constexpr cudnnDataType_t f32 = CUDNN_DATA_FLOAT, b16 = CUDNN_DATA_BFLOAT16, i32 = CUDNN_DATA_INT32;

// Tensors in the shapes of one attention.
class Shapes {
 public:
  Shapes(CudnnGraph& graph, const CudnnAttentionSizes& sizes) : g(graph), s(sizes) {}

  Dims of_q() const { return {s.batch, s.heads, s.seq, s.head_dim}; }
  Dims of_scores() const { return {s.batch, s.heads, s.seq, s.kv_seq}; }
  Dims of_rows() const { return {s.batch, s.heads, s.seq, 1}; }
  Tensor q() { return g.real(b16, of_q(), {s.q_batch_stride, s.head_dim, s.q_stride, 1}); }
  Tensor out() { return g.real(b16, of_q(), {s.out_batch_stride, s.head_dim, s.out_stride, 1}); }
  Tensor keys() {
    return g.real(b16, {s.batch, s.kv_heads, s.kv_seq, s.head_dim}, {s.kv_batch_stride, s.head_dim, s.kv_stride, 1});
  }
  Tensor keys_transposed() {
    return g.real(b16, {s.batch, s.kv_heads, s.head_dim, s.kv_seq}, {s.kv_batch_stride, s.head_dim, 1, s.kv_stride});
  }
  Tensor rows() { return g.real(f32, of_rows(), {s.heads * s.seq, s.seq, 1, 1}); }
  Tensor inner_rows() { return g.inner(f32, of_rows()); }
  Tensor scores() { return g.inner(f32, of_scores()); }
  // Scores that were transposed for a product: [kv_seq, seq], as they lie.
  Tensor transposed() {
    return g.inner(b16, {s.batch, s.heads, s.kv_seq, s.seq},
                   {s.heads * s.seq * s.kv_seq, s.seq * s.kv_seq, 1, s.kv_seq});
  }

  Tensor times(Tensor x, Tensor factor) {
    const Tensor y = scores();
    g.pointwise(CUDNN_POINTWISE_MUL, x, factor, y);
    return y;
  }
  // Query i sees keys 0 .. kv_seq - seq + i: its row, moved, is at least the column.
  Tensor masked(Tensor x, CudnnAttentionNumbers& numbers) {
    if (!s.causal) return x;
    const Tensor row = g.inner(i32, of_scores()), column = g.inner(i32, of_scores());
    g.index(2, x, row);
    g.index(3, x, column);
    Tensor last = row;
    if (s.kv_seq != s.seq) {
      numbers.kv_seq = g.number(i32), numbers.seq = g.number(i32);
      const Tensor above = g.inner(i32, of_scores());
      g.pointwise(CUDNN_POINTWISE_ADD, row, numbers.kv_seq, above, i32);
      last = g.inner(i32, of_scores());
      g.pointwise(CUDNN_POINTWISE_SUB, above, numbers.seq, last, i32);
    }
    const Tensor seen = g.inner(CUDNN_DATA_BOOLEAN, of_scores()), y = scores();
    g.pointwise(CUDNN_POINTWISE_CMP_GE, last, column, seen, CUDNN_DATA_BOOLEAN);
    numbers.masked = g.number(f32);
    g.select(x, numbers.masked, seen, y);
    return s.window == 0 ? y : within_window(y, numbers);
  }
  // Query i sees no key before kv_seq - seq + i + 1 - window: the column, moved, is beyond the row.
  Tensor within_window(Tensor x, CudnnAttentionNumbers& numbers) {
    const Tensor row = g.inner(i32, of_scores()), column = g.inner(i32, of_scores());
    g.index(2, x, row);
    g.index(3, x, column);
    numbers.reach = g.number(f32);
    const Tensor moved = g.inner(f32, of_scores());
    g.pointwise(CUDNN_POINTWISE_ADD, column, numbers.reach, moved, f32);
    const Tensor seen = g.inner(CUDNN_DATA_BOOLEAN, of_scores()), y = scores();
    g.pointwise(CUDNN_POINTWISE_CMP_GT, moved, row, seen, CUDNN_DATA_BOOLEAN);
    numbers.beyond = g.number(f32);
    g.select(x, numbers.beyond, seen, y);
    return y;
  }
  // A gradient of keys or values, which all heads of queries that read them add to.
  Tensor gradient_of_keys(Tensor transposed_scores, Tensor rows_of_queries) {
    if (s.heads == s.kv_heads) {
      const Tensor whole = keys();
      g.matmul(transposed_scores, rows_of_queries, whole);
      return whole;
    }
    const Tensor each = g.inner(b16, {s.batch, s.heads, s.kv_seq, s.head_dim});
    g.matmul(transposed_scores, rows_of_queries, each);
    const Tensor whole = keys();
    g.reduce(CUDNN_REDUCE_TENSOR_ADD, each, whole);
    return whole;
  }

  CudnnGraph& g;
  const CudnnAttentionSizes& s;
};

}  // namespace

CudnnAttentionForward add_attention_forward(CudnnGraph& g, const CudnnAttentionSizes& sizes, bool lse) {
  Shapes shapes(g, sizes);
  CudnnAttentionForward a;
  a.q = shapes.q(), a.k = shapes.keys_transposed();
  const Tensor product = shapes.scores();
  g.matmul(a.q, a.k, product);
  a.numbers.scale = g.number(f32);
  const Tensor scores = shapes.masked(shapes.times(product, a.numbers.scale), a.numbers);
  const Tensor largest = shapes.inner_rows(), shifted = shapes.scores(), weights = shapes.scores();
  g.reduce(CUDNN_REDUCE_TENSOR_MAX, scores, largest);
  g.pointwise(CUDNN_POINTWISE_SUB, scores, largest, shifted);
  g.pointwise(CUDNN_POINTWISE_EXP, shifted, weights);
  const Tensor sum = shapes.inner_rows(), log = shapes.inner_rows();
  g.reduce(CUDNN_REDUCE_TENSOR_ADD, weights, sum);
  // The logarithm is a part of the pattern whether anybody keeps it or not.
  g.pointwise(CUDNN_POINTWISE_LOG, sum, log);
  const Tensor stats = lse ? shapes.rows() : shapes.inner_rows();
  g.pointwise(CUDNN_POINTWISE_ADD, largest, log, stats);
  if (lse) a.lse = stats;
  const Tensor shares = g.inner(b16, shapes.of_scores());
  g.pointwise(CUDNN_POINTWISE_DIV, weights, sum, shares);
  a.v = shapes.keys(), a.out = shapes.out();
  g.matmul(shares, a.v, a.out);
  return a;
}

CudnnAttentionBackward add_attention_backward(CudnnGraph& g, const CudnnAttentionSizes& sizes, bool deterministic) {
  Shapes shapes(g, sizes);
  const CudnnAttentionSizes& s = sizes;
  CudnnAttentionBackward a;
  a.dout = shapes.out(), a.out = shapes.out();
  const Tensor products =
      g.inner(f32, shapes.of_q(), {s.heads * s.seq * s.head_dim, s.seq * s.head_dim, s.heads * s.head_dim, 1});
  const Tensor sums = shapes.inner_rows();
  g.pointwise(CUDNN_POINTWISE_MUL, a.dout, a.out, products);
  g.reduce(CUDNN_REDUCE_TENSOR_ADD, products, sums);
  a.one = g.number(f32), a.delta = shapes.rows();
  g.pointwise(CUDNN_POINTWISE_MUL, sums, a.one, a.delta);

  a.q = shapes.q(), a.k = shapes.keys_transposed();
  const Tensor product = shapes.scores();
  g.matmul(a.q, a.k, product);
  a.numbers.scale = g.number(f32);
  const Tensor scaled = shapes.times(product, a.numbers.scale);
  a.lse = shapes.rows();
  const Tensor shifted = shapes.scores();
  g.pointwise(CUDNN_POINTWISE_SUB, scaled, a.lse, shifted);
  const Tensor scores = shapes.masked(shifted, a.numbers), shares = shapes.scores();
  g.pointwise(CUDNN_POINTWISE_EXP, scores, shares);
  const Tensor shares_transposed = shapes.transposed();
  g.reshape(shares, shares_transposed);
  a.dv = shapes.gradient_of_keys(shares_transposed, a.dout);

  a.v = shapes.keys_transposed();
  const Tensor dshares = shapes.scores(), difference = shapes.scores();
  g.matmul(a.dout, a.v, dshares);
  g.pointwise(CUDNN_POINTWISE_SUB, dshares, a.delta, difference);
  const Tensor dscores = shapes.times(shapes.times(difference, shares), a.numbers.scale);
  const Tensor dscores_transposed = shapes.transposed();
  g.reshape(dscores, dscores_transposed);
  a.dk = shapes.gradient_of_keys(dscores_transposed, a.q);

  const Tensor keys =
      g.inner(f32, {s.batch, s.kv_heads, s.kv_seq, s.head_dim}, {s.kv_batch_stride, s.head_dim, s.kv_stride, 1});
  g.reshape(a.k, keys);
  if (deterministic) {
    a.dq = shapes.q();
    g.matmul(dscores, keys, a.dq);
    return a;
  }
  a.dq_sum = g.real(f32, shapes.of_q(), {s.heads * s.seq * s.head_dim, s.seq * s.head_dim, s.head_dim, 1});
  g.matmul(dscores, keys, a.dq_sum);
  a.dq = shapes.q();
  g.pointwise(CUDNN_POINTWISE_IDENTITY, a.dq_sum, a.dq);
  return a;
}

}  // namespace longhaul::cuda
