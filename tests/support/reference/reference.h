// Every operation in f64, as loops that read like the formula: what the fast code is held against. Formulas and their
// sources stand in the headers of engine/ops, of which none is included here, so that an error in them is not repeated.
// Slow on purpose; matrices are row-major vectors.
#pragma once

#include <cstdint>
#include <vector>

namespace longhaul::reference {

using Vector = std::vector<double>;
using Ids = std::vector<std::int32_t>;
using Index = std::int64_t;

// C[m, n] = alpha op(A) op(B) + beta C
Vector gemm(Index m, Index n, Index k, bool transpose_a, bool transpose_b, double alpha, const Vector& a,
            const Vector& b, double beta, const Vector& c);

struct LinearGradient {
  Vector dx, dweight, dbias;
};
Vector linear(Index tokens, Index in, Index out, const Vector& x, const Vector& weight, const Vector& bias);
LinearGradient linear_backward(Index tokens, Index in, Index out, const Vector& dy, const Vector& x,
                               const Vector& weight);

struct NormGradient {
  Vector dx, dweight;
};
Vector rmsnorm(Index tokens, Index hidden, double eps, const Vector& x, const Vector& weight);
NormGradient rmsnorm_backward(Index tokens, Index hidden, double eps, const Vector& dy, const Vector& x,
                              const Vector& weight);

struct LayerNormGradient {
  Vector dx, dweight, dbias;
};
Vector layernorm(Index tokens, Index hidden, double eps, const Vector& x, const Vector& weight, const Vector& bias);
LayerNormGradient layernorm_backward(Index tokens, Index hidden, double eps, const Vector& dy, const Vector& x,
                                     const Vector& weight);

Vector gelu(const Vector& x);
Vector gelu_backward(const Vector& dy, const Vector& x);

// frequencies [head_dim / 2]; the gradient is the same with inverse = true.
Vector rope(Index tokens, Index heads, Index head_dim, const Vector& frequencies, const Ids& positions, const Vector& x,
            bool inverse);

struct SwiGluGradient {
  Vector dgate, dup;
};
Vector swiglu(const Vector& gate, const Vector& up);
SwiGluGradient swiglu_backward(const Vector& dout, const Vector& gate, const Vector& up);

Vector embedding(Index hidden, const Ids& ids, const Vector& table);
Vector embedding_backward(Index vocab, Index hidden, const Ids& ids, const Vector& dout);

struct AttentionCase {
  Index batch = 1, seq = 1, heads = 1, kv_heads = 1, head_dim = 1, kv_seq = 1;
  double scale = 1.0;
  Ids first_key;  // [batch, seq], or empty
  bool causal = true;
  Index window = 0;  // with causal alone; 0: none
};
struct AttentionResult {
  Vector out, lse;
};
struct AttentionGradient {
  Vector dq, dk, dv;
};
AttentionResult attention(const AttentionCase& c, const Vector& q, const Vector& k, const Vector& v);
AttentionGradient attention_backward(const AttentionCase& c, const Vector& dout, const Vector& q, const Vector& k,
                                     const Vector& v);

// targets of -1 are ignored.
Vector cross_entropy(Index vocab, const Vector& logits, const Ids& targets);
Vector cross_entropy_backward(Index vocab, const Vector& logits, const Ids& targets, const Vector& weights);

struct AdamWState {
  Vector p, m, v;
};
AdamWState adamw(AdamWState state, const Vector& grad, double lr, double beta1, double beta2, double eps, double decay,
                 Index step);

Vector softmax(Index columns, const Vector& logits, double temperature);

}  // namespace longhaul::reference
