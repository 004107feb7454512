#pragma once

#include "contracts/schema/field_table.h"

namespace longhaul {

// What goes on between ranks while they compute. Results do not depend on it.
struct OverlapSettings {
  bool gradients = true;  // sums over the data-parallel ranks start while the backward pass goes on
  bool weights = true;    // ZeRO: weights are gathered while others are in use
  bool pipeline = true;   // messages between stages travel while others are computed
  bool context = true;    // cp_attention = "ring": the next keys come while those at hand are used
  bool tensor = true;     // tp: rows travel while others are computed
  bool experts = true;    // rows travel to experts and back while others are computed
};
const FieldTable<OverlapSettings>& overlap_fields();

}  // namespace longhaul
