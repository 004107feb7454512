// The bar of the culprit: of faults drawn over random layouts of a toy training, how many are named rightly, beside
// what has to be, and of standstills of a file system how many were reported as somebody's fault. Three seeds by
// default; some hundreds of draws decide nothing, for 99 % of them may be met or missed by the draw. Exit code 1 where
// a bar is missed.
//
//   culprit_bars [--faults 3000] [--standstills 200] [--seeds 3] [--seed 20260301]
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/unit/resiliency/detect/drawn_faults.h"

namespace longhaul {
namespace {

constexpr double bar = 0.99;

struct Asked {
  int faults = 3000, standstills = 200, seeds = 3;
  std::uint64_t seed = 20260301;
};

bool one_seed(const Asked& asked, std::uint64_t seed) {
  int shown = 0;
  const toy::Tally all = toy::many_faults(asked.faults, true, seed, [&](const std::string& text) {
    if (++shown <= 5) std::printf("  not named: %s\n", text.c_str());
  });
  const auto [low, high] = toy::wilson(all.named, all.faults);
  const bool met = all.named >= bar * all.faults && all.early == 0;
  std::printf(
      "seed %llu: culprit named rightly in %d of %d = %.2f %% (95 %% interval %.2f to %.2f, Wilson), bar %g %%: %s\n",
      static_cast<unsigned long long>(seed), all.named, all.faults, 100.0 * all.named / all.faults, 100 * low,
      100 * high, 100 * bar, met ? "met" : "MISSED");
  for (const auto& [kind, counts] : all.by_kind)
    std::printf("  %-28s %5d of %5d\n", kind.c_str(), counts.first, counts.second);
  std::printf("  before the fault %d, slowest %.1f s after it\n", all.early, all.slowest_s);
  std::mt19937_64 random(seed);
  int accused = 0;
  for (int i = 0; i < asked.standstills; ++i)
    if (const std::string wrong = toy::one_standstill(random); !wrong.empty())
      if (++accused <= 5) std::printf("  %s\n", wrong.c_str());
  std::printf("  %d of %d standstills of a file system were reported as a fault, bar 0: %s\n", accused,
              asked.standstills, accused == 0 ? "met" : "MISSED");
  std::fflush(stdout);
  return met && accused == 0;
}

}  // namespace
}  // namespace longhaul

int main(int argc, char** argv) {
  longhaul::Asked asked;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--faults") asked.faults = std::atoi(argv[i + 1]);
    if (option == "--standstills") asked.standstills = std::atoi(argv[i + 1]);
    if (option == "--seeds") asked.seeds = std::atoi(argv[i + 1]);
    if (option == "--seed") asked.seed = std::strtoull(argv[i + 1], nullptr, 10);
  }
  if (argc % 2 == 0 || asked.faults < 1 || asked.seeds < 1) {
    std::fprintf(stderr, "culprit_bars [--faults N] [--standstills N] [--seeds N] [--seed N]\n");
    return 2;
  }
  bool met = true;
  for (int i = 0; i < asked.seeds; ++i) met &= longhaul::one_seed(asked, asked.seed + static_cast<std::uint64_t>(i));
  return met ? 0 : 1;
}
