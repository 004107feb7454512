// How good a model of N parameters gets by D tokens, and which N and D are best for a given amount of computation.
//
// L(N, D) = E + A / N^alpha + B / D^beta, nats per token (Hoffmann et al. 2022, 2203.15556, equation 10). With
// C = 6 N D floating-point operations the least loss is at (ibid., equation 4)
//   N = G (C / 6)^a, D = (C / 6)^b / G,  a = beta / (alpha + beta), b = alpha / (alpha + beta),
//   G = (alpha A / (beta B))^(1 / (alpha + beta)).
//
// Two sets of constants: `published` as printed in that paper, and `corrected` by Besiroglu et al. 2024 (2404.10102),
// who fitted the paper's own data again and found that the printed ones fit it badly and contradict its other two
// methods. The corrected ones are the default: they agree with the rule of some 20 tokens per parameter that all later
// users of the paper go by, the published ones ask for several times as many at large budgets. Either was fitted to
// dense models of 70 M to 16 B parameters on one corpus (MassiveText): the loss is not that of other data, the ratio
// roughly holds. Models that are to be used much are better trained longer than optimal (Sardana et al. 2024,
// 2401.00448).
#pragma once

namespace longhaul::hyper {

struct ScalingLaw {
  const char* name = "";
  double e = 0, a = 0, b = 0, alpha = 0, beta = 0;
  // Parameters and tokens > 0.
  double loss(double parameters, double tokens) const;
};
inline constexpr ScalingLaw chinchilla_corrected{"corrected", 1.8172, 482.01, 2085.43, 0.3478, 0.3658};

struct ComputeOptimal {
  double parameters = 0, tokens = 0, loss = 0;
  double tokens_per_parameter() const { return tokens / parameters; }
};
// For `flops` > 0 in all: the model's own, without what is computed again.
ComputeOptimal compute_optimal(double flops, const ScalingLaw& law = chinchilla_corrected);

}  // namespace longhaul::hyper
