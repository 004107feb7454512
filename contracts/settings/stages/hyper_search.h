// The settings of a search for hyperparameters: which settings vary and over what, and how much may be spent.
//
//   trials = 16
//   max_steps = 2000
//   [space."optimizer.lr"]
//   min = 1e-4
//   max = 1e-2
//   scale = "log"
//   [space."optimizer.lr_schedule"]
//   values = ["constant", "wsd"]
//
// A parameter is a dotted path into the settings of the stage that is tuned, or params.NAME of the workflow. What is
// done with all this: autotune/hyper/. A `search` stage of a workflow has these keys, and those at the end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "contracts/schema/field_table.h"

namespace longhaul {

// One parameter: a range or a list of values, never both.
struct HyperParameter {
  std::string name;              // "optimizer.lr", "params.dropout"
  double min = 0, max = 0;       // inclusive; of a range
  std::string scale = "linear";  // linear | log
  double step = 0;               // of a linear range, counted from min; 0: continuous
  bool integer = false;          // of a range: min, max and step were written as whole numbers
  ValueArray values;             // not empty: a list, in the order written
  bool is_list() const { return !values.empty(); }
  bool operator==(const HyperParameter&) const = default;
};
const FieldTable<HyperParameter>& hyper_range_fields();

struct HyperSearchSettings {
  std::string method = "rounds";     // rounds | asha: autotune/hyper/halving.h
  std::string proposals = "spread";  // spread | tpe: autotune/hyper/proposals.h
  std::string metric = "heldout_loss";
  std::string mode = "min";    // min | max
  int trials = 16;             // configurations
  int eta = 4;                 // one in eta goes on to the next rung
  int finalists = 2;           // trained to the end, at least
  std::int64_t min_steps = 0;  // of the first rung, at least; 0: max_steps / 16
  std::int64_t max_steps = 0;  // of the last rung: a whole training
  int first = 0;               // tpe: spread before the first proposal by model; 0: 4 and 2 per parameter
  int brackets = 1;            // rounds: so many halvings one after the other, trials distributed evenly
  int losses_max = 3;          // a trial whose host was lost so often is given up
  int at_once = 4;             // asha: places, of one trial each
  std::int64_t seed = 0;
  std::vector<HyperParameter> space;
  bool operator==(const HyperSearchSettings&) const = default;
};
const FieldTable<HyperSearchSettings>& hyper_search_fields();  // all but the space

// Reads the keys above from `written`; `where` names the section in messages. Everything that is wrong goes to the
// diagnostics, each with the parameter's name. Paths may be written in quotes, or as tables in tables.
// `needs_max_steps`: false where a planner completes what is read here: max_steps may be 0 then, and the space empty.
HyperSearchSettings parse_hyper_search(const Value& written, const std::string& where, Diagnostics& diagnostics,
                                       const std::vector<std::string>& ignored = {}, bool needs_max_steps = true);
// Where a parameter was written in the table `space`, with whatever dots; `otherwise` if it is not there.
SourcePos place_of_parameter(const Value& space, const std::string& name, const SourcePos& otherwise);
// In files of our own.
Value hyper_search_to_value(const HyperSearchSettings& settings);

inline constexpr const char* search_kind_name = "search";
// Keys of a `search` stage beside these: the stage that is tuned; settings of it that trials have instead of its own.
inline constexpr const char* search_for_key = "for";
inline constexpr const char* search_trial_key = "trial";
inline constexpr const char* search_space_key = "space";
// Where the planner leaves what the trials are of, and for params.NAME of the space the paths of the settings that it
// stands for. Part of the key.
inline constexpr const char* search_target_key = "target";
inline constexpr const char* search_params_key = "stands_for";

// Holds the space to the settings that it varies: `fields` describe the tuned stage (StageKind::fields), `params` are
// the workflow's. Found are unknown names, wrong types, values out of bounds, and settings that the search itself sets.
// A range becomes one of whole numbers where the setting is one, and continuous where it is not, however it was
// written. `place` is where the stage stands in the user's file.
void check_hyper_space(std::vector<HyperParameter>& space, const std::vector<FieldInfo>& fields, const Value& params,
                       const std::string& where, Diagnostics& diagnostics, const SourcePos& place = {});

}  // namespace longhaul
