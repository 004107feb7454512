#include "tests/support/reference/reference.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace longhaul::reference {
namespace {

std::size_t at(Index i) {
  return static_cast<std::size_t>(i);
}
Vector zeros(Index n) {
  return Vector(at(n), 0.0);
}

struct MeanAndScale {
  double mean, scale;  // 1 / sqrt(variance + eps)
};
MeanAndScale mean_and_scale(const Vector& x, Index row, Index hidden, double eps) {
  double sum = 0.0, squares = 0.0;
  for (Index i = 0; i < hidden; ++i) sum += x[at(row * hidden + i)];
  const double mean = sum / static_cast<double>(hidden);
  for (Index i = 0; i < hidden; ++i) squares += (x[at(row * hidden + i)] - mean) * (x[at(row * hidden + i)] - mean);
  return {mean, 1.0 / std::sqrt(squares / static_cast<double>(hidden) + eps)};
}

const double gelu_factor = std::sqrt(2.0 / std::acos(-1.0));
double gelu_argument(double x) {
  return gelu_factor * (x + 0.044715 * x * x * x);
}

}  // namespace

Vector gemm(Index m, Index n, Index k, bool transpose_a, bool transpose_b, double alpha, const Vector& a,
            const Vector& b, double beta, const Vector& c) {
  Vector out = zeros(m * n);
  for (Index i = 0; i < m; ++i) {
    for (Index j = 0; j < n; ++j) {
      double sum = 0.0;
      for (Index p = 0; p < k; ++p) {
        sum += a[at(transpose_a ? p * m + i : i * k + p)] * b[at(transpose_b ? j * k + p : p * n + j)];
      }
      out[at(i * n + j)] = alpha * sum + (beta == 0.0 ? 0.0 : beta * c[at(i * n + j)]);
    }
  }
  return out;
}

Vector linear(Index tokens, Index in, Index out, const Vector& x, const Vector& weight, const Vector& bias) {
  Vector y = zeros(tokens * out);
  for (Index t = 0; t < tokens; ++t) {
    for (Index o = 0; o < out; ++o) {
      double sum = bias.empty() ? 0.0 : bias[at(o)];
      for (Index i = 0; i < in; ++i) sum += x[at(t * in + i)] * weight[at(o * in + i)];
      y[at(t * out + o)] = sum;
    }
  }
  return y;
}

LinearGradient linear_backward(Index tokens, Index in, Index out, const Vector& dy, const Vector& x,
                               const Vector& weight) {
  LinearGradient g{zeros(tokens * in), zeros(out * in), zeros(out)};
  for (Index t = 0; t < tokens; ++t) {
    for (Index o = 0; o < out; ++o) {
      const double d = dy[at(t * out + o)];
      g.dbias[at(o)] += d;
      for (Index i = 0; i < in; ++i) {
        g.dx[at(t * in + i)] += d * weight[at(o * in + i)];
        g.dweight[at(o * in + i)] += d * x[at(t * in + i)];
      }
    }
  }
  return g;
}

Vector rmsnorm(Index tokens, Index hidden, double eps, const Vector& x, const Vector& weight) {
  Vector y = zeros(tokens * hidden);
  for (Index t = 0; t < tokens; ++t) {
    double squares = 0.0;
    for (Index i = 0; i < hidden; ++i) squares += x[at(t * hidden + i)] * x[at(t * hidden + i)];
    const double r = 1.0 / std::sqrt(squares / static_cast<double>(hidden) + eps);
    for (Index i = 0; i < hidden; ++i) y[at(t * hidden + i)] = weight[at(i)] * x[at(t * hidden + i)] * r;
  }
  return y;
}

NormGradient rmsnorm_backward(Index tokens, Index hidden, double eps, const Vector& dy, const Vector& x,
                              const Vector& weight) {
  NormGradient g{zeros(tokens * hidden), zeros(hidden)};
  for (Index t = 0; t < tokens; ++t) {
    double squares = 0.0;
    for (Index i = 0; i < hidden; ++i) squares += x[at(t * hidden + i)] * x[at(t * hidden + i)];
    const double r = 1.0 / std::sqrt(squares / static_cast<double>(hidden) + eps);
    double mean = 0.0;  // of g n
    for (Index i = 0; i < hidden; ++i) mean += dy[at(t * hidden + i)] * weight[at(i)] * x[at(t * hidden + i)] * r;
    mean /= static_cast<double>(hidden);
    for (Index i = 0; i < hidden; ++i) {
      const double n = x[at(t * hidden + i)] * r;
      g.dx[at(t * hidden + i)] = r * (dy[at(t * hidden + i)] * weight[at(i)] - n * mean);
      g.dweight[at(i)] += dy[at(t * hidden + i)] * n;
    }
  }
  return g;
}

Vector rope(Index tokens, Index heads, Index head_dim, const Vector& frequencies, const Ids& positions, const Vector& x,
            bool inverse) {
  Vector y = x;
  const Index half = head_dim / 2;
  for (Index t = 0; t < tokens; ++t) {
    for (Index head = 0; head < heads; ++head) {
      const Index base = (t * heads + head) * head_dim;
      for (Index j = 0; j < half; ++j) {
        const double angle = (inverse ? -1.0 : 1.0) * positions[at(t)] * frequencies[at(j)];
        const double a = x[at(base + j)], b = x[at(base + j + half)];
        y[at(base + j)] = a * std::cos(angle) - b * std::sin(angle);
        y[at(base + j + half)] = b * std::cos(angle) + a * std::sin(angle);
      }
    }
  }
  return y;
}

Vector layernorm(Index tokens, Index hidden, double eps, const Vector& x, const Vector& weight, const Vector& bias) {
  Vector y(x.size());
  for (Index t = 0; t < tokens; ++t) {
    const auto [mean, s] = mean_and_scale(x, t, hidden, eps);
    for (Index i = 0; i < hidden; ++i)
      y[at(t * hidden + i)] = (x[at(t * hidden + i)] - mean) * s * weight[at(i)] + bias[at(i)];
  }
  return y;
}

LayerNormGradient layernorm_backward(Index tokens, Index hidden, double eps, const Vector& dy, const Vector& x,
                                     const Vector& weight) {
  LayerNormGradient g{Vector(x.size()), Vector(weight.size(), 0.0), Vector(weight.size(), 0.0)};
  const auto n = static_cast<double>(hidden);
  for (Index t = 0; t < tokens; ++t) {
    const auto [mean, s] = mean_and_scale(x, t, hidden, eps);
    double sum = 0.0, dot = 0.0;
    for (Index i = 0; i < hidden; ++i) {
      const double normed = (x[at(t * hidden + i)] - mean) * s, d = dy[at(t * hidden + i)];
      sum += d * weight[at(i)];
      dot += d * weight[at(i)] * normed;
      g.dweight[at(i)] += d * normed;
      g.dbias[at(i)] += d;
    }
    for (Index i = 0; i < hidden; ++i) {
      const double normed = (x[at(t * hidden + i)] - mean) * s;
      g.dx[at(t * hidden + i)] = s * (dy[at(t * hidden + i)] * weight[at(i)] - sum / n - normed * dot / n);
    }
  }
  return g;
}

Vector gelu(const Vector& x) {
  Vector y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = 0.5 * x[i] * (1.0 + std::tanh(gelu_argument(x[i])));
  return y;
}

Vector gelu_backward(const Vector& dy, const Vector& x) {
  Vector dx(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double tanh = std::tanh(gelu_argument(x[i]));
    const double slope = gelu_factor * (1.0 + 3.0 * 0.044715 * x[i] * x[i]);
    dx[i] = dy[i] * (0.5 * (1.0 + tanh) + 0.5 * x[i] * (1.0 - tanh * tanh) * slope);
  }
  return dx;
}

Vector swiglu(const Vector& gate, const Vector& up) {
  Vector out(gate.size());
  for (std::size_t i = 0; i < gate.size(); ++i) out[i] = gate[i] / (1.0 + std::exp(-gate[i])) * up[i];
  return out;
}

SwiGluGradient swiglu_backward(const Vector& dout, const Vector& gate, const Vector& up) {
  SwiGluGradient g{Vector(gate.size()), Vector(gate.size())};
  for (std::size_t i = 0; i < gate.size(); ++i) {
    const double s = 1.0 / (1.0 + std::exp(-gate[i]));
    g.dup[i] = dout[i] * gate[i] * s;
    g.dgate[i] = dout[i] * up[i] * s * (1.0 + gate[i] * (1.0 - s));
  }
  return g;
}

Vector embedding(Index hidden, const Ids& ids, const Vector& table) {
  Vector out;
  for (std::int32_t id : ids) {
    for (Index i = 0; i < hidden; ++i) out.push_back(table[at(id * hidden + i)]);
  }
  return out;
}

Vector embedding_backward(Index vocab, Index hidden, const Ids& ids, const Vector& dout) {
  Vector dtable = zeros(vocab * hidden);
  for (std::size_t t = 0; t < ids.size(); ++t) {
    for (Index i = 0; i < hidden; ++i) dtable[at(ids[t] * hidden + i)] += dout[t * at(hidden) + at(i)];
  }
  return dtable;
}

namespace {

// Softmax weights of one query over the keys [first, last]; also its log-sum-exp.
struct Row {
  Index first, last;
  Vector p;
  double lse;
};
Row attention_row(const AttentionCase& c, Index batch, Index head, Index i, const Vector& q, const Vector& k) {
  const Index d = c.head_dim, kv_head = head / (c.heads / c.kv_heads);
  Row row{c.first_key.empty() ? 0 : c.first_key[at(batch * c.seq + i)], c.causal ? c.kv_seq - c.seq + i : c.kv_seq - 1,
          zeros(c.kv_seq), 0.0};
  if (c.window > 0) row.first = std::max(row.first, row.last + 1 - c.window);
  double top = -std::numeric_limits<double>::infinity();
  for (Index j = row.first; j <= row.last; ++j) {
    double score = 0.0;
    for (Index e = 0; e < d; ++e) {
      score += q[at(((batch * c.seq + i) * c.heads + head) * d + e)] *
               k[at(((batch * c.kv_seq + j) * c.kv_heads + kv_head) * d + e)];
    }
    row.p[at(j)] = score * c.scale;
    top = std::max(top, row.p[at(j)]);
  }
  double total = 0.0;
  for (Index j = row.first; j <= row.last; ++j) total += row.p[at(j)] = std::exp(row.p[at(j)] - top);
  for (Index j = row.first; j <= row.last; ++j) row.p[at(j)] /= total;
  row.lse = top + std::log(total);  // -infinity where no key is seen
  return row;
}

}  // namespace

AttentionResult attention(const AttentionCase& c, const Vector& q, const Vector& k, const Vector& v) {
  const Index d = c.head_dim, group = c.heads / c.kv_heads;
  AttentionResult r{zeros(c.batch * c.seq * c.heads * d), zeros(c.batch * c.heads * c.seq)};
  for (Index b = 0; b < c.batch; ++b) {
    for (Index head = 0; head < c.heads; ++head) {
      for (Index i = 0; i < c.seq; ++i) {
        const Row row = attention_row(c, b, head, i, q, k);
        r.lse[at((b * c.heads + head) * c.seq + i)] = row.lse;
        for (Index j = row.first; j <= row.last; ++j) {
          for (Index e = 0; e < d; ++e) {
            r.out[at(((b * c.seq + i) * c.heads + head) * d + e)] +=
                row.p[at(j)] * v[at(((b * c.kv_seq + j) * c.kv_heads + head / group) * d + e)];
          }
        }
      }
    }
  }
  return r;
}

AttentionGradient attention_backward(const AttentionCase& c, const Vector& dout, const Vector& q, const Vector& k,
                                     const Vector& v) {
  const Index d = c.head_dim, group = c.heads / c.kv_heads;
  AttentionGradient g{zeros(static_cast<Index>(q.size())), zeros(static_cast<Index>(k.size())),
                      zeros(static_cast<Index>(v.size()))};
  for (Index b = 0; b < c.batch; ++b) {
    for (Index head = 0; head < c.heads; ++head) {
      for (Index i = 0; i < c.seq; ++i) {
        const Row row = attention_row(c, b, head, i, q, k);
        const Index at_q = ((b * c.seq + i) * c.heads + head) * d;
        const auto at_kv = [&](Index j) { return ((b * c.kv_seq + j) * c.kv_heads + head / group) * d; };
        Vector dp = zeros(c.kv_seq);
        double mean = 0.0;  // sum over keys of P dP
        for (Index j = row.first; j <= row.last; ++j) {
          for (Index e = 0; e < d; ++e) {
            g.dv[at(at_kv(j) + e)] += row.p[at(j)] * dout[at(at_q + e)];
            dp[at(j)] += dout[at(at_q + e)] * v[at(at_kv(j) + e)];
          }
          mean += row.p[at(j)] * dp[at(j)];
        }
        for (Index j = row.first; j <= row.last; ++j) {
          const double ds = row.p[at(j)] * (dp[at(j)] - mean) * c.scale;
          for (Index e = 0; e < d; ++e) {
            g.dq[at(at_q + e)] += ds * k[at(at_kv(j) + e)];
            g.dk[at(at_kv(j) + e)] += ds * q[at(at_q + e)];
          }
        }
      }
    }
  }
  return g;
}

Vector softmax(Index columns, const Vector& logits, double temperature) {
  Vector p = logits;
  for (Index begin = 0; begin < static_cast<Index>(p.size()); begin += columns) {
    const auto first = p.begin() + begin, last = first + columns;
    const double top = *std::max_element(first, last);
    double total = 0.0;
    for (auto z = first; z != last; ++z) total += * z = std::exp((*z - top) / temperature);
    for (auto z = first; z != last; ++z) *z /= total;
  }
  return p;
}

Vector cross_entropy(Index vocab, const Vector& logits, const Ids& targets) {
  const Vector p = softmax(vocab, logits, 1.0);
  Vector loss(targets.size(), 0.0);
  for (std::size_t t = 0; t < targets.size(); ++t) {
    if (targets[t] >= 0) loss[t] = -std::log(p[t * at(vocab) + at(targets[t])]);
  }
  return loss;
}

Vector cross_entropy_backward(Index vocab, const Vector& logits, const Ids& targets, const Vector& weights) {
  Vector d = softmax(vocab, logits, 1.0);
  for (std::size_t t = 0; t < targets.size(); ++t) {
    for (std::size_t j = 0; j < at(vocab); ++j) {
      double& z = d[t * at(vocab) + j];
      z = targets[t] < 0 ? 0.0 : weights[t] * (z - (j == at(targets[t]) ? 1.0 : 0.0));
    }
  }
  return d;
}

AdamWState adamw(AdamWState s, const Vector& grad, double lr, double beta1, double beta2, double eps, double decay,
                 Index step) {
  const double t = static_cast<double>(step);
  for (std::size_t i = 0; i < grad.size(); ++i) {
    s.p[i] *= 1.0 - lr * decay;
    s.m[i] = beta1 * s.m[i] + (1.0 - beta1) * grad[i];
    s.v[i] = beta2 * s.v[i] + (1.0 - beta2) * grad[i] * grad[i];
    const double m_hat = s.m[i] / (1.0 - std::pow(beta1, t)), v_hat = s.v[i] / (1.0 - std::pow(beta2, t));
    s.p[i] -= lr * m_hat / (std::sqrt(v_hat) + eps);
  }
  return s;
}

}  // namespace longhaul::reference
