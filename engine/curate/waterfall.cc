#include "engine/curate/waterfall.h"

#include <algorithm>

#include "base/text/text.h"

namespace longhaul {

void Waterfall::begin(std::string step, std::int64_t documents, std::int64_t bytes) {
  steps_.emplace_back();
  steps_.back().step = std::move(step);
  steps_.back().documents_in = documents;
  steps_.back().bytes_in = bytes;
}

void Waterfall::removed(const std::string& reason, std::int64_t documents, std::int64_t bytes) {
  auto& reasons = steps_.back().reasons;
  auto entry =
      std::find_if(reasons.begin(), reasons.end(), [&](const WaterfallReason& r) { return r.reason == reason; });
  if (entry == reasons.end()) entry = reasons.insert(reasons.end(), WaterfallReason{reason, 0, 0});
  entry->documents += documents;
  entry->bytes += bytes;
}

void Waterfall::end(std::int64_t documents, std::int64_t bytes, double seconds) {
  WaterfallStep& step = steps_.back();
  step.documents_out = documents;
  step.bytes_out = bytes;
  step.seconds = seconds;
  std::stable_sort(step.reasons.begin(), step.reasons.end(), [](const WaterfallReason& a, const WaterfallReason& b) {
    return std::pair(a.documents, a.bytes) > std::pair(b.documents, b.bytes);
  });
}

Value to_value(const std::vector<WaterfallStep>& steps) {
  Value array = Value::make_array();
  for (const WaterfallStep& step : steps) {
    Value reasons = Value::make_array();
    for (const WaterfallReason& reason : step.reasons) {
      Value entry = Value::make_table();
      entry.set("reason", reason.reason);
      entry.set("documents", reason.documents);
      entry.set("bytes", reason.bytes);
      reasons.push_back(std::move(entry));
    }
    Value entry = Value::make_table();
    entry.set("step", step.step);
    entry.set("documents_in", step.documents_in);
    entry.set("documents_out", step.documents_out);
    entry.set("bytes_in", step.bytes_in);
    entry.set("bytes_out", step.bytes_out);
    entry.set("seconds", step.seconds);
    entry.set("reasons", std::move(reasons));
    array.push_back(std::move(entry));
  }
  return array;
}

Value to_value(const std::vector<LanguageShare>& languages,
               const std::map<std::string, std::map<std::string, std::int64_t>>& rules_left_out) {
  Value array = Value::make_array();
  for (const LanguageShare& language : languages) {
    Value entry = Value::make_table();
    entry.set("language", language.language);
    entry.set("documents", language.documents);
    entry.set("bytes", language.bytes);
    entry.set("heldout_documents", language.heldout_documents);
    entry.set("heldout_bytes", language.heldout_bytes);
    if (const auto rules = rules_left_out.find(language.language); rules != rules_left_out.end()) {
      Value left_out = Value::make_table();
      for (const auto& [rule, documents] : rules->second) left_out.set(rule, documents);
      entry.set("rules_left_out", std::move(left_out));
    }
    array.push_back(std::move(entry));
  }
  return array;
}

Error empty_corpus_error(const std::vector<WaterfallStep>& steps, const std::string& heldout_key) {
  const WaterfallStep* worst = nullptr;
  const auto loss = [](const WaterfallStep& step) { return step.documents_in - step.documents_out; };
  for (const WaterfallStep& step : steps) {
    if (!worst || loss(step) > loss(*worst)) worst = &step;
  }
  std::string what = format("no document is left of {}", steps.empty() ? 0 : steps.front().documents_in);
  if (!worst || loss(*worst) == 0)
    return make_error(ErrorCode::invalid_input, what + ": the inputs hold none", "name other inputs");
  what += format(": step {} removed {}", worst->step, loss(*worst));
  std::string reason;
  if (!worst->reasons.empty()) {
    reason = worst->reasons.front().reason;
    what += format(", {} of them for {}", worst->reasons.front().documents, reason);
  }
  std::string hint = "look into removed.jsonl for each document's figures";
  if (worst->step == "language") {
    hint = "name the languages of the inputs in `languages`, or lower `language_score_min`; " + hint;
  } else if (worst->step == "document_rules" || worst->step == "line_rules") {
    hint = format("relax {}.{}, or give {} documents; ", worst->step, reason,
                  ends_with(reason, "_max") ? "other" : "longer") +
           hint;
  } else if (worst->step == "clean" || worst->step == "extract" || worst->step == "read") {
    hint = "are these pages with text, not pictures or scripts? " + hint;
  } else if (worst->step == "split") {
    hint = (heldout_key.empty() ? std::string() : "lower " + heldout_key + ", or ") + "give more pages";
  }
  return make_error(ErrorCode::invalid_input, std::move(what), std::move(hint));
}

}  // namespace longhaul
