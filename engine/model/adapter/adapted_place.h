// Where a rank has a matrix that an adapter changes, and what of the adapter changes it.
#pragma once

#include <cstdint>
#include <vector>

#include "contracts/model/adapter_list.h"

namespace longhaul {

struct AdaptedPlace {
  AdaptedMatrix of;
  std::int64_t begin, out, in;  // here, in the base's flat order
  std::int64_t number = 0;      // among all of the adapter's, on whatever ranks
  // In the adapter's; saved: what takes the place of the matrix; encoder: what makes it.
  const FlatParameter *a = nullptr, *b = nullptr, *factors = nullptr, *saved = nullptr;
  std::vector<const FlatParameter*> encoder;

  std::int64_t elements() const { return out * in; }
  // Those of them that are there.
  std::vector<const FlatParameter*> own() const {
    std::vector<const FlatParameter*> all = encoder;
    for (const FlatParameter* p : {a, b, factors, saved})
      if (p) all.push_back(p);
    return all;
  }
};

}  // namespace longhaul
