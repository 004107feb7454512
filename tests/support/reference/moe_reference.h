// A mixture of experts in f64, token by token, without permutation: what the operations of moe_*.h are held against.
// Formulas and their sources stand in those headers.
#pragma once

#include "tests/support/reference/reference.h"

namespace longhaul::reference {

enum class MoeScore { softmax_selected, softmax_all, sigmoid };

struct MoeRouter {
  Index experts = 1, top_k = 1;
  MoeScore score = MoeScore::softmax_selected;
  double scaling = 1.0;
  Index groups = 1, groups_kept = 1, group_best = 2;
};

// ids [tokens, top_k] by selection value (logit, softmax or sigmoid, plus bias unless it is empty), best first.
Ids moe_select(const MoeRouter& r, const Vector& logits, const Vector& bias);
// The smallest distance, over all tokens, between the values (experts and, with groups, groups) that selection
// compares: below it a rounding may select otherwise.
double moe_select_gap(const MoeRouter& r, const Vector& logits, const Vector& bias);

// The plan of Sinkhorn, iterated until rows and columns have their sums to 1e-13: [tokens, experts], eps = 0.
Vector moe_sinkhorn_plan(Index experts, const Vector& logits);

Vector moe_gates(const MoeRouter& r, const Vector& logits, const Ids& ids);
Vector moe_gates_backward(const MoeRouter& r, const Vector& logits, const Ids& ids, const Vector& dweights);

// coefficient E sum_e (counts[e] / (T k)) (P[e] / T), k = 1 for Hugging Face's definition. Counts from ids (top_k a
// token).
double moe_balance_loss(const MoeRouter& r, const Vector& logits, const Ids& ids, double coefficient,
                        bool hugging_face);
Vector moe_balance_loss_backward(const MoeRouter& r, const Vector& logits, const Ids& ids, double coefficient,
                                 bool hugging_face);
double moe_z_loss(Index experts, const Vector& logits, double coefficient);
Vector moe_z_loss_backward(Index experts, const Vector& logits, double coefficient);

// Which slots stay under a capacity: 1 or 0, [tokens, top_k].
Ids moe_kept(Index experts, Index top_k, const Ids& ids, const Vector& weights, Index capacity, bool by_probability);

// One layer: out[t] = sum over kept slots of w y_e(x[t]) + shared(x[t]), y_e(x) = down_e(silu(gate_e x) * (up_e x)).
struct MoeLayer {
  MoeRouter router;
  Index hidden = 1, ffn = 1, shared_ffn = 0;  // 0: no shared expert
  Vector router_weight;                       // [experts, hidden]
  Vector gate, up;                            // [experts, ffn, hidden]
  Vector down;                                // [experts, hidden, ffn]
  Vector shared_gate, shared_up;              // [shared_ffn, hidden]
  Vector shared_down;                         // [hidden, shared_ffn]
  double balance_coefficient = 0.0, z_coefficient = 0.0;
};
struct MoeLayerResult {
  Vector logits, out;
  double auxiliary_loss = 0.0;
};
struct MoeLayerGradient {
  Vector dx, drouter_weight, dgate, dup, ddown, dshared_gate, dshared_up, dshared_down;
};
// ids and kept are given: they are not differentiated. The gradient is that of sum(dout out) + auxiliary_loss.
MoeLayerResult moe_layer(const MoeLayer& layer, const Vector& x, const Ids& ids, const Ids& kept);
MoeLayerGradient moe_layer_backward(const MoeLayer& layer, const Vector& x, const Ids& ids, const Ids& kept,
                                    const Vector& dout);

}  // namespace longhaul::reference
