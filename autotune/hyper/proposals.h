// Which configuration to try next.
//
//   spread  points of an additive quasi-random sequence, R_d (Roberts 2018, "The unreasonable effectiveness of
//           quasirandom sequences": the i-th point is frac(shift + i / phi^j), phi the positive root of x^(d+1) = x +
//           1), shifted by the seed (Cranley & Patterson 1976). In one dimension it is the golden-ratio sequence:
//           however many points there are, they are spread evenly. No table is needed, unlike for Sobol's.
//   tpe     Bergstra et al. 2011, section 4: the best configurations so far have one density l, the others another
//           density g; of points drawn from l the one with the largest l / g is tried. Both are products of kernels in
//           all dimensions at once (Falkner et al. 2018, 1807.01774), because rate and batch size hang together. Both
//           have the kernels of the good ones: with wide kernels of its own g is flat around them, and the same place
//           is tried again and again.
//           Trials are ordered by the topmost rung that they finished and by the metric there; all rungs count so, and
//           metrics of different rungs are never compared. Failures and what still runs are among the others.
//
// A Gaussian process was not taken: it wants metrics of one scale, which rungs do not give, a kernel for lists, and a
// factorisation that grows with the cube of the trials; with the few tens of trials of such a search the two find
// equally good points.
//
// A space with no more configurations than there are trials is tried whole, in an order drawn by the seed. No
// configuration is proposed twice.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "autotune/hyper/search_space.h"
#include "autotune/hyper/trial_history.h"

namespace longhaul::hyper {

struct Proposal {
  Value settings;
  std::string why;  // "spread", "tpe: 4 good of 22"
};

// For trial number `index`, which is not in the history. The same arguments give the same proposal. nullopt: every
// configuration that can be found is in the history already.
std::optional<Proposal> propose(const HyperSearchSettings& settings, const std::vector<Trial>& history, int index);

// Point `index` of the sequence, in [0, 1)^dims.
std::vector<double> spread_point(std::uint64_t seed, std::size_t dims, std::int64_t index);

}  // namespace longhaul::hyper
