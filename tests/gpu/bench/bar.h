// A figure beside its bar, as the suite's last table has it (scripts/gpu_suite.py).
#pragma once

#include <string>

#include "base/value/value.h"

namespace longhaul::gpu_bench {

struct Bar {
  std::string figure = {};  // "Llama-2-7B, bf16"
  std::string unit = {};    // "tokens/s"
  double least = 0;         // or the most, where at_most; 0: there is no bar, the figure stands beside its peer
  bool at_most = false;
  std::string peer = {};  // what others publish, printed beside; empty: nothing
  double value = 0;
  std::string why_not = {};  // it was not measured; empty: it was

  const char* outcome() const {
    if (!why_not.empty()) return "not measured";
    if (least == 0) return "no bar";
    return missed() ? "missed" : "met";
  }
  bool missed() const { return why_not.empty() && least != 0 && (at_most ? value > least : value < least); }
  Value to_value() const {
    Value one = Value::make_table();
    one.set("figure", figure), one.set("unit", unit), one.set("bar", least), one.set("at_most", at_most);
    one.set("peer", peer), one.set("outcome", outcome());
    if (why_not.empty())
      one.set("value", value);
    else
      one.set("why", why_not);
    return one;
  }
};

}  // namespace longhaul::gpu_bench
