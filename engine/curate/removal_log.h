// Which documents a curation has removed, in which step and why: counted in the waterfall, a line each for people.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "engine/curate/examine.h"
#include "engine/curate/waterfall.h"

namespace longhaul {

class RemovalLog {
 public:
  // The step that the next calls are about; `documents` and `bytes` go in.
  void begin(std::string step, std::int64_t documents, std::int64_t bytes);
  void end(std::int64_t documents, std::int64_t bytes, double seconds) { waterfall_.end(documents, bytes, seconds); }
  // What goes for this reason without a line: text of documents that stay, records that are none.
  void count(const std::string& reason, std::int64_t documents, std::int64_t bytes) {
    waterfall_.removed(reason, documents, bytes);
  }
  // The line alone, where bytes are counted otherwise.
  void note(const CurateDocument& document, const std::string& reason, const std::string& detail);
  // A document with all of its text.
  void remove(const CurateDocument& document, const std::string& reason, const std::string& detail);

  bool has(const CurateDocument& document) const { return gone_.contains(document.id); }
  const std::vector<WaterfallStep>& steps() const { return waterfall_.steps(); }
  const std::string& lines() const { return lines_; }  // removed.jsonl

 private:
  Waterfall waterfall_;
  std::unordered_set<std::string> gone_;  // ids
  std::string lines_;
};

}  // namespace longhaul
