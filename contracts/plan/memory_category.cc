#include "contracts/plan/memory_category.h"

#include <algorithm>
#include <numeric>

#include "base/text/text.h"

namespace longhaul {

const char* to_string(MemoryCategory category) {
  switch (category) {
    case MemoryCategory::weights: return "weights";
    case MemoryCategory::gathered_weights: return "gathered_weights";
    case MemoryCategory::master: return "master";
    case MemoryCategory::gradients: return "gradients";
    case MemoryCategory::optimizer: return "optimizer";
    case MemoryCategory::activations: return "activations";
    case MemoryCategory::experts: return "experts";
    case MemoryCategory::attention: return "attention";
    case MemoryCategory::logits: return "logits";
    case MemoryCategory::answers: return "answers";
    case MemoryCategory::communication: return "communication";
    case MemoryCategory::messages: return "messages";
    case MemoryCategory::batches: return "batches";
    case MemoryCategory::checkpoint: return "checkpoint";
    case MemoryCategory::scratch: return "scratch";
    case MemoryCategory::process: return "process";
  }
  return "?";
}

bool lies_on_device(MemoryCategory category) {
  switch (category) {
    case MemoryCategory::messages:
    case MemoryCategory::batches:
    case MemoryCategory::checkpoint:
    case MemoryCategory::process: return false;
    default: return true;
  }
}

std::int64_t MemoryTable::total() const {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

MemoryCategory MemoryTable::largest() const {
  return static_cast<MemoryCategory>(std::max_element(bytes.begin(), bytes.end()) - bytes.begin());
}

namespace {

std::string size_text(std::int64_t bytes) {
  return human_bytes(static_cast<double>(bytes));
}

}  // namespace

std::string memory_text(const MemoryTable& planned) {
  std::string text;
  for (int i = 0; i < memory_categories; ++i) {
    const auto category = static_cast<MemoryCategory>(i);
    if (planned[category] > 0) text += format("{} {}, ", to_string(category), size_text(planned[category]));
  }
  return text + "together " + size_text(planned.total());
}

std::string memory_text(const MemoryTable& planned, const MemoryTable& held) {
  std::string text;
  for (int i = 0; i < memory_categories; ++i) {
    const auto category = static_cast<MemoryCategory>(i);
    if (planned[category] == 0 && held[category] == 0) continue;
    text +=
        format("{:<17}{:>12}{:>12}\n", to_string(category), size_text(planned[category]), size_text(held[category]));
  }
  return text + format("{:<17}{:>12}{:>12}", "together", size_text(planned.total()), size_text(held.total()));
}

}  // namespace longhaul
