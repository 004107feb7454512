// Room engine/tasks/rows
// The command `longhaul-engine data-check`: reads its options, prints what engine/data/rows found.
// It decides nothing about rows.
//
// longhaul-engine data-check: what a file of tuning data is, for `longhaul data check`.
#pragma once

#include <string>

#include "base/error/result.h"

namespace longhaul {

struct DataCheckRequest {
  std::string file;             // JSON Lines
  std::string model;            // its folder; "": no lengths, no rows shown
  std::string ignore;           // keys with commas between
  std::string stage;            // sft or align; "": as the first row
  std::string sequence_length;  // a number; "": none
  bool json = false;
};
// Results go to stdout, progress to stderr when it is a terminal. invalid_input: a row at least is refused.
Status print_data_check(const DataCheckRequest& request);

}  // namespace longhaul
