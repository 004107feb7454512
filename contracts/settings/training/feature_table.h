// The one table of what the engine of this version can do: for processors and for GPUs, each feature runs, runs slowly
// or is refused, and why. Planner, tuner, `size`, the reference page (docs/reference/features.md) and the engine's own
// refusals read it; tests/parallel/engine_features_test.cc walks it. That a number does not divide another one is no
// feature: contracts/plan/layout_check.h.
//
// A feature is a row here, in one of the files beside this one. To make the engine able to do what it refuses, change
// the row; whoever asked the table then proposes and accepts it.
#pragma once

#include <string>
#include <vector>

#include "contracts/settings/training/engine_case.h"

namespace longhaul {

// Models that go through the engine in ways of their own.
enum class ModelFamily {
  llama,
  mistral,  // llama with a window of attention
  gpt2,
  mixtral,
  experts,  // mixtral with what Hugging Face's has not: other scores, a bias, groups, shared experts
};
const char* to_string(ModelFamily family);

enum class FeatureState {
  runs,
  slow,     // it runs, much slower than something else there does: the note says than what
  refused,  // before memory is taken, and where it can be known before anything is submitted
  none,     // there is nothing to ask for: a setting of the other kind of device
};

struct FeatureSupport {
  FeatureState state = FeatureState::runs;
  std::string note = {};  // of a row that is not refused, what one should know
};

struct EngineFeature {
  std::string area;  // a heading of the page
  std::string name;
  std::vector<ModelFamily> families;  // that it is for: each is a row of its own where the table is walked
  FeatureSupport processor = {}, gpu = {};
  void (*ask)(EngineCase&) = nullptr;  // makes a plain case ask for it
  // Where it is refused on either: does a case ask for it, what is said, what helps, and which settings it is about
  // (the first that the user wrote is pointed at).
  bool (*is_asked)(const EngineCase&) = nullptr;
  std::string (*refusal)(const EngineCase&) = nullptr;
  std::string hint = {};
  std::vector<std::string> keys = {};

  const FeatureSupport& on(bool on_gpu) const { return on_gpu ? gpu : processor; }
};

const std::vector<EngineFeature>& engine_features();

// The smallest case of a family that every feature can be asked of: two layers, four heads, sequences of 16 tokens.
EngineCase plain_engine_case(ModelFamily family, bool gpu);
// That, asking for the feature.
EngineCase engine_case_for(const EngineFeature& feature, ModelFamily family, bool gpu);

// What a case asks for and the engine refuses; empty where it runs.
struct EngineRefusal {
  const EngineFeature* feature;
  std::string what, hint;
};
std::vector<EngineRefusal> engine_refusals(const EngineCase& asked);
// The same as one error (unsupported), all of them in it.
Status check_engine(const EngineCase& asked);
// Is there any? No allocation: searches ask it of every layout.
bool engine_refuses(const EngineCase& asked);

// docs/reference/features.md, without its heading.
std::string engine_features_markdown();

}  // namespace longhaul
