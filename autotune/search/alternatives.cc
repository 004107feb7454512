#include "autotune/search/alternatives.h"

#include <array>
#include <vector>

#include "autotune/search/layout_search.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

struct Class {
  const char* name;
  bool (*holds)(const TrainingLayout&, const Cluster&);
};

constexpr std::array<Class, alternative_classes> classes = {{
    {"data parallelism alone",
     [](const TrainingLayout& l, const Cluster&) {
       return l.dims.tp == 1 && l.dims.pp == 1 && l.dims.cp == 1 && l.dims.zero < 3;
     }},
    {"ZeRO 3 alone (FSDP)",
     [](const TrainingLayout& l, const Cluster&) {
       return l.dims.tp == 1 && l.dims.pp == 1 && l.dims.cp == 1 && l.dims.zero == 3;
     }},
    {"no pipeline", [](const TrainingLayout& l, const Cluster&) { return l.dims.pp == 1; }},
    {"no tensor parallelism", [](const TrainingLayout& l, const Cluster&) { return l.dims.tp == 1; }},
    {"tensor parallelism over a whole domain of fast links",
     [](const TrainingLayout& l, const Cluster& c) { return l.dims.tp == c.domain && c.domain > 1; }},
    {"tensor parallelism beyond fast links",
     [](const TrainingLayout& l, const Cluster& c) { return l.dims.tp > c.domain; }},
    {"plain 1F1B without virtual stages",
     [](const TrainingLayout& l, const Cluster&) { return l.dims.pp > 1 && l.schedule == PipelineKind::one_f_one_b; }},
    {"nothing recomputed", [](const TrainingLayout& l, const Cluster&) { return !l.recompute.any(); }},
    {"every layer recomputed",
     [](const TrainingLayout& l, const Cluster&) { return l.recompute.block && l.recompute.layers == 0; }},
}};

}  // namespace

const char* alternative_name(int which) {
  return classes[static_cast<std::size_t>(which)].name;
}

unsigned classes_of(const TrainingLayout& layout, const Cluster& cluster) {
  unsigned bits = 0;
  for (std::size_t i = 0; i < classes.size(); ++i)
    if (classes[i].holds(layout, cluster)) bits |= 1U << i;
  return bits;
}

std::string verdict_on(const Alternative& a, const RankedLayout& winner) {
  if (!a.possible) return "is not possible here: nothing divides that way";
  if (!a.fastest) return format("needs {} more memory per GPU than there is", human_bytes(a.missing));
  const double slower = a.fastest->seconds() / winner.seconds();
  if (a.fastest->layout.dims == winner.layout.dims && slower <= 1 + 1e-9) return "is the winner";
  int most = 0;
  double more = 0;
  for (int part = 0; part < step_parts; ++part) {
    const double grown =
        a.fastest->time.parts[static_cast<std::size_t>(part)] - winner.time.parts[static_cast<std::size_t>(part)];
    if (grown > more) more = grown, most = part;
  }
  std::string text = format("{:.2f} times as long ({:.3f} s)", slower, a.fastest->seconds());
  if (more > 0) text += format(": {:.3f} s more of {}", more, to_string(static_cast<StepPart>(most)));
  return text;
}

}  // namespace longhaul
