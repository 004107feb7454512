#include "tests/support/reference/moe_reference.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>

namespace longhaul::reference {
namespace {

std::size_t at(Index i) {
  return static_cast<std::size_t>(i);
}
Index size(const Vector& v) {
  return static_cast<Index>(v.size());
}
Vector slice(const Vector& v, Index begin, Index n) {
  return {v.begin() + begin, v.begin() + begin + n};
}
double sigmoid(double z) {
  return 1.0 / (1.0 + std::exp(-z));
}
double logsumexp(const Vector& z) {
  const double top = *std::max_element(z.begin(), z.end());
  double total = 0.0;
  for (double value : z) total += std::exp(value - top);
  return top + std::log(total);
}

// Indices by value, largest first, of equal ones the lower index.
Ids by_value(const Vector& values) {
  Ids order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) { return values[at(a)] > values[at(b)]; });
  return order;
}

// How far the k-th best is from the next one, and neighbours among the first k from each other (their order is part of
// the result).
double gap_of(const Vector& values, Index k) {
  const Ids order = by_value(values);
  double gap = std::numeric_limits<double>::infinity();
  for (Index i = 0; i < k && i + 1 < size(values); ++i) {
    gap = std::min(gap, values[at(order[at(i)])] - values[at(order[at(i + 1)])]);
  }
  return gap;
}

Vector selection_values(const MoeRouter& r, const Vector& z, const Vector& bias) {
  Vector values = r.score == MoeScore::softmax_all ? softmax(r.experts, z, 1.0) : z;
  for (Index e = 0; e < r.experts; ++e) {
    if (r.score == MoeScore::sigmoid) values[at(e)] = sigmoid(z[at(e)]);
    if (!bias.empty()) values[at(e)] += bias[at(e)];
  }
  return values;
}

Vector group_values(const MoeRouter& r, const Vector& values) {
  const Index width = r.experts / r.groups;
  Vector sums;
  for (Index g = 0; g < r.groups; ++g) {
    Vector group = slice(values, g * width, width);
    std::sort(group.rbegin(), group.rend());
    double sum = 0.0;
    for (Index i = 0; i < std::min(width, r.group_best); ++i) sum += group[at(i)];
    sums.push_back(sum);
  }
  return sums;
}

// -infinity for the experts of groups that are not kept.
Vector without_other_groups(const MoeRouter& r, Vector values) {
  if (r.groups == 1) return values;
  const Ids order = by_value(group_values(r, values));
  for (Index i = r.groups_kept; i < r.groups; ++i) {
    const Index width = r.experts / r.groups, begin = order[at(i)] * width;
    std::fill_n(values.begin() + begin, width, -std::numeric_limits<double>::infinity());
  }
  return values;
}

// p of one token for the balance loss.
Vector probabilities(const MoeRouter& r, const Vector& z) {
  if (r.score != MoeScore::sigmoid) return softmax(r.experts, z, 1.0);
  Vector p;
  for (double value : z) p.push_back(sigmoid(value));
  const double sum = std::accumulate(p.begin(), p.end(), 1e-20);
  for (double& value : p) value /= sum;
  return p;
}

Vector counts_of(const MoeRouter& r, const Ids& ids) {
  Vector counts(at(r.experts), 0.0);
  for (std::int32_t id : ids) counts[at(id)] += 1.0;
  return counts;
}

void add_to(Vector& sum, Index begin, const Vector& part) {
  for (std::size_t i = 0; i < part.size(); ++i) sum[at(begin) + i] += part[i];
}

}  // namespace

Ids moe_select(const MoeRouter& r, const Vector& logits, const Vector& bias) {
  Ids ids;
  for (Index begin = 0; begin < size(logits); begin += r.experts) {
    const Vector values = selection_values(r, slice(logits, begin, r.experts), bias);
    const Ids order = by_value(without_other_groups(r, values));
    ids.insert(ids.end(), order.begin(), order.begin() + r.top_k);
  }
  return ids;
}

double moe_select_gap(const MoeRouter& r, const Vector& logits, const Vector& bias) {
  double gap = std::numeric_limits<double>::infinity();
  for (Index begin = 0; begin < size(logits); begin += r.experts) {
    const Vector values = selection_values(r, slice(logits, begin, r.experts), bias);
    gap = std::min(gap, gap_of(without_other_groups(r, values), r.top_k));
    if (r.groups > 1) gap = std::min(gap, gap_of(group_values(r, values), r.groups_kept));
  }
  return gap;
}

Vector moe_sinkhorn_plan(Index experts, const Vector& logits) {
  const Index tokens = size(logits) / experts;
  Vector plan = logits;
  for (double& value : plan) value = std::exp(value);
  double error = 1.0;
  for (int iteration = 0; iteration < 100000 && error > 1e-13; ++iteration) {
    for (Index t = 0; t < tokens; ++t) {
      double sum = 0.0;
      for (Index e = 0; e < experts; ++e) sum += plan[at(t * experts + e)];
      for (Index e = 0; e < experts; ++e) plan[at(t * experts + e)] /= sum * static_cast<double>(tokens);
    }
    error = 0.0;
    for (Index e = 0; e < experts; ++e) {
      double sum = 0.0;
      for (Index t = 0; t < tokens; ++t) sum += plan[at(t * experts + e)];
      error += std::abs(sum - 1.0 / static_cast<double>(experts));
      for (Index t = 0; t < tokens; ++t) plan[at(t * experts + e)] /= sum * static_cast<double>(experts);
    }
  }
  return plan;
}

Vector moe_gates(const MoeRouter& r, const Vector& logits, const Ids& ids) {
  Vector weights;
  for (Index t = 0; t < size(logits) / r.experts; ++t) {
    const Vector z = slice(logits, t * r.experts, r.experts);
    Vector w;
    for (Index j = 0; j < r.top_k; ++j) w.push_back(z[at(ids[at(t * r.top_k + j)])]);
    if (r.score == MoeScore::softmax_selected) w = softmax(r.top_k, w, 1.0);
    if (r.score == MoeScore::softmax_all) {
      for (double& value : w) value = std::exp(value - logsumexp(z));
    }
    if (r.score == MoeScore::sigmoid) {
      for (double& value : w) value = sigmoid(value);
      const double sum = std::accumulate(w.begin(), w.end(), 1e-20);
      for (double& value : w) value /= r.top_k > 1 ? sum : 1.0;
    }
    for (double value : w) weights.push_back(r.scaling * value);
  }
  return weights;
}

// The Jacobians written out: dw_j / dz_i.
Vector moe_gates_backward(const MoeRouter& r, const Vector& logits, const Ids& ids, const Vector& dweights) {
  Vector dlogits(logits.size(), 0.0);
  for (Index t = 0; t < size(logits) / r.experts; ++t) {
    const Vector z = slice(logits, t * r.experts, r.experts);
    const auto id = [&](Index j) { return ids[at(t * r.top_k + j)]; };
    const Vector all = softmax(r.experts, z, 1.0);
    double selected = 0.0, scores = 1e-20;
    for (Index j = 0; j < r.top_k; ++j) {
      selected += all[at(id(j))];
      scores += sigmoid(z[at(id(j))]);
    }
    for (Index j = 0; j < r.top_k; ++j) {
      const double g = dweights[at(t * r.top_k + j)] * r.scaling, s = sigmoid(z[at(id(j))]);
      double* dz = &dlogits[at(t * r.experts)];
      if (r.score == MoeScore::softmax_all) {
        for (Index e = 0; e < r.experts; ++e) dz[e] += g * all[at(id(j))] * ((e == id(j) ? 1.0 : 0.0) - all[at(e)]);
      } else if (r.score == MoeScore::softmax_selected) {
        for (Index l = 0; l < r.top_k; ++l) {
          dz[id(l)] += g * all[at(id(j))] / selected * ((l == j ? 1.0 : 0.0) - all[at(id(l))] / selected);
        }
      } else if (r.top_k == 1) {
        dz[id(j)] += g * s * (1.0 - s);
      } else {
        for (Index l = 0; l < r.top_k; ++l) {
          const double sl = sigmoid(z[at(id(l))]);
          dz[id(l)] += g * ((l == j ? 1.0 / scores : 0.0) - s / (scores * scores)) * sl * (1.0 - sl);
        }
      }
    }
  }
  return dlogits;
}

double moe_balance_loss(const MoeRouter& r, const Vector& logits, const Ids& ids, double coefficient,
                        bool hugging_face) {
  const Index tokens = size(logits) / r.experts;
  const Vector counts = counts_of(r, ids);
  const auto n = static_cast<double>(tokens), k = hugging_face ? 1.0 : static_cast<double>(r.top_k);
  double loss = 0.0;
  for (Index t = 0; t < tokens; ++t) {
    const Vector p = probabilities(r, slice(logits, t * r.experts, r.experts));
    for (Index e = 0; e < r.experts; ++e) loss += counts[at(e)] / (n * k) * p[at(e)] / n;
  }
  return coefficient * static_cast<double>(r.experts) * loss;
}

Vector moe_balance_loss_backward(const MoeRouter& r, const Vector& logits, const Ids& ids, double coefficient,
                                 bool hugging_face) {
  const Index tokens = size(logits) / r.experts;
  const Vector counts = counts_of(r, ids);
  const auto n = static_cast<double>(tokens), k = hugging_face ? 1.0 : static_cast<double>(r.top_k);
  Vector dlogits(logits.size(), 0.0);
  for (Index t = 0; t < tokens; ++t) {
    const Vector z = slice(logits, t * r.experts, r.experts), p = probabilities(r, z);
    double sum = 1e-20;  // of the sigmoids
    for (double value : z) sum += sigmoid(value);
    for (Index e = 0; e < r.experts; ++e) {
      const double g = coefficient * static_cast<double>(r.experts) * counts[at(e)] / (n * k * n);
      for (Index i = 0; i < r.experts; ++i) {
        const double s = sigmoid(z[at(i)]), same = i == e ? 1.0 : 0.0;
        const double slope =
            r.score == MoeScore::sigmoid ? (same - p[at(e)]) / sum * s * (1.0 - s) : p[at(e)] * (same - p[at(i)]);
        dlogits[at(t * r.experts + i)] += g * slope;
      }
    }
  }
  return dlogits;
}

double moe_z_loss(Index experts, const Vector& logits, double coefficient) {
  const Index tokens = size(logits) / experts;
  double sum = 0.0;
  for (Index begin = 0; begin < size(logits); begin += experts) {
    sum += std::pow(logsumexp(slice(logits, begin, experts)), 2.0);
  }
  return coefficient * sum / static_cast<double>(tokens);
}

Vector moe_z_loss_backward(Index experts, const Vector& logits, double coefficient) {
  const Index tokens = size(logits) / experts;
  Vector dlogits = softmax(experts, logits, 1.0);
  for (Index i = 0; i < size(logits); ++i) {
    const double lse = logsumexp(slice(logits, i / experts * experts, experts));
    dlogits[at(i)] *= 2.0 * coefficient * lse / static_cast<double>(tokens);
  }
  return dlogits;
}

Ids moe_kept(Index experts, Index top_k, const Ids& ids, const Vector& weights, Index capacity, bool by_probability) {
  Ids kept(ids.size(), 0);
  for (Index e = 0; e < experts; ++e) {
    Vector order;  // larger goes first
    Ids slots;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] != e) continue;
      const Index token = static_cast<Index>(i) / top_k;
      slots.push_back(static_cast<std::int32_t>(i));
      order.push_back(by_probability ? weights[i] : -static_cast<double>(token));
    }
    const Ids best = by_value(order);
    for (Index i = 0; i < std::min(size(order), capacity); ++i) kept[at(slots[at(best[at(i)])])] = 1;
  }
  return kept;
}

namespace {

// One expert on one token, and its gradient.
struct Mlp {
  Index hidden, ffn;
  Vector gate, up, down;
};
struct MlpGradient {
  Vector dx, dgate, dup, ddown;
};
Mlp expert_of(const MoeLayer& l, Index e) {
  const Index n = l.ffn * l.hidden;
  return {l.hidden, l.ffn, slice(l.gate, e * n, n), slice(l.up, e * n, n), slice(l.down, e * n, n)};
}
Mlp shared_of(const MoeLayer& l) {
  return {l.hidden, l.shared_ffn, l.shared_gate, l.shared_up, l.shared_down};
}
Vector run(const Mlp& m, const Vector& x) {
  const Vector inner = swiglu(linear(1, m.hidden, m.ffn, x, m.gate, {}), linear(1, m.hidden, m.ffn, x, m.up, {}));
  return linear(1, m.ffn, m.hidden, inner, m.down, {});
}
MlpGradient run_backward(const Mlp& m, const Vector& x, const Vector& dout) {
  const Vector g = linear(1, m.hidden, m.ffn, x, m.gate, {}), u = linear(1, m.hidden, m.ffn, x, m.up, {});
  const LinearGradient down = linear_backward(1, m.ffn, m.hidden, dout, swiglu(g, u), m.down);
  const SwiGluGradient inner = swiglu_backward(down.dx, g, u);
  const LinearGradient gate = linear_backward(1, m.hidden, m.ffn, inner.dgate, x, m.gate);
  const LinearGradient up = linear_backward(1, m.hidden, m.ffn, inner.dup, x, m.up);
  MlpGradient result{gate.dx, gate.dweight, up.dweight, down.dweight};
  add_to(result.dx, 0, up.dx);
  return result;
}

}  // namespace

MoeLayerResult moe_layer(const MoeLayer& l, const Vector& x, const Ids& ids, const Ids& kept) {
  const MoeRouter& r = l.router;
  const Index tokens = size(x) / l.hidden;
  MoeLayerResult result{linear(tokens, l.hidden, r.experts, x, l.router_weight, {}), Vector(x.size(), 0.0), 0.0};
  const Vector weights = moe_gates(r, result.logits, ids);
  for (Index t = 0; t < tokens; ++t) {
    const Vector xt = slice(x, t * l.hidden, l.hidden);
    for (Index slot = t * r.top_k; slot < (t + 1) * r.top_k; ++slot) {
      if (kept[at(slot)] == 0) continue;
      Vector y = run(expert_of(l, ids[at(slot)]), xt);
      for (double& value : y) value *= weights[at(slot)];
      add_to(result.out, t * l.hidden, y);
    }
    if (l.shared_ffn > 0) add_to(result.out, t * l.hidden, run(shared_of(l), xt));
  }
  result.auxiliary_loss = moe_balance_loss(r, result.logits, ids, l.balance_coefficient, false) +
                          moe_z_loss(r.experts, result.logits, l.z_coefficient);
  return result;
}

MoeLayerGradient moe_layer_backward(const MoeLayer& l, const Vector& x, const Ids& ids, const Ids& kept,
                                    const Vector& dout) {
  const MoeRouter& r = l.router;
  const Index tokens = size(x) / l.hidden, n = l.ffn * l.hidden;
  const Vector logits = linear(tokens, l.hidden, r.experts, x, l.router_weight, {});
  const Vector weights = moe_gates(r, logits, ids);
  MoeLayerGradient g{Vector(x.size(), 0.0),           Vector(l.router_weight.size(), 0.0),
                     Vector(l.gate.size(), 0.0),      Vector(l.up.size(), 0.0),
                     Vector(l.down.size(), 0.0),      Vector(l.shared_gate.size(), 0.0),
                     Vector(l.shared_up.size(), 0.0), Vector(l.shared_down.size(), 0.0)};
  Vector dweights(weights.size(), 0.0);
  for (Index t = 0; t < tokens; ++t) {
    const Vector xt = slice(x, t * l.hidden, l.hidden), d = slice(dout, t * l.hidden, l.hidden);
    for (Index slot = t * r.top_k; slot < (t + 1) * r.top_k; ++slot) {
      if (kept[at(slot)] == 0) continue;
      const Mlp expert = expert_of(l, ids[at(slot)]);
      const Vector y = run(expert, xt);
      dweights[at(slot)] = std::inner_product(y.begin(), y.end(), d.begin(), 0.0);
      Vector dy = d;
      for (double& value : dy) value *= weights[at(slot)];
      const MlpGradient m = run_backward(expert, xt, dy);
      add_to(g.dx, t * l.hidden, m.dx);
      add_to(g.dgate, ids[at(slot)] * n, m.dgate);
      add_to(g.dup, ids[at(slot)] * n, m.dup);
      add_to(g.ddown, ids[at(slot)] * n, m.ddown);
    }
    if (l.shared_ffn == 0) continue;
    const MlpGradient m = run_backward(shared_of(l), xt, d);
    add_to(g.dx, t * l.hidden, m.dx);
    add_to(g.dshared_gate, 0, m.dgate);
    add_to(g.dshared_up, 0, m.dup);
    add_to(g.dshared_down, 0, m.ddown);
  }
  Vector dlogits = moe_gates_backward(r, logits, ids, dweights);
  add_to(dlogits, 0, moe_balance_loss_backward(r, logits, ids, l.balance_coefficient, false));
  add_to(dlogits, 0, moe_z_loss_backward(r.experts, logits, l.z_coefficient));
  const LinearGradient router = linear_backward(tokens, l.hidden, r.experts, dlogits, x, l.router_weight);
  add_to(g.dx, 0, router.dx);
  g.drouter_weight = router.dweight;
  return g;
}

}  // namespace longhaul::reference
