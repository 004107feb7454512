#include "engine/curate/corpus_files.h"

#include <algorithm>
#include <map>

#include "base/text/text.h"
#include "base/value/json.h"

namespace longhaul {
namespace {

void append_document(std::string& lines, const CurateDocument& document) {
  Value value = Value::make_table();
  value.set("id", document.id);
  value.set("source", document.source);
  value.set("page", document.page);
  value.set("language", document.language);
  value.set("title", document.title);
  const auto set_known = [&](const char* key, const std::string& text) {
    if (!text.empty()) value.set(key, text);
  };
  set_known("author", document.author);
  set_known("date", document.date);
  set_known("url", document.url);
  value.set("text", document.text);
  lines += to_json(value) + "\n";
}

void append_rejected(std::string& lines, const RejectedRecord& r) {
  Value value = Value::make_table();
  value.set("file", r.file);
  value.set("line", r.line);
  value.set("reason", r.reason);
  value.set("detail", r.detail);
  value.set("bytes", r.bytes);
  value.set("start", r.start);
  lines += to_json(value) + "\n";
}

}  // namespace

std::string document_lines(const std::vector<CurateDocument>& documents) {
  std::string lines;
  for (const CurateDocument& document : documents) append_document(lines, document);
  return lines;
}

std::string rejected_lines(const std::vector<RejectedRecord>& rejected) {
  std::string lines;
  for (const RejectedRecord& record : rejected) append_rejected(lines, record);
  return lines;
}

std::string rejected_text(const RejectedRecord& r) {
  const std::string place = r.line > 0 ? format("{}:{}", r.file, r.line) : r.file;
  return format("{}: {}: {}{}", place, r.reason, r.detail, r.start.empty() ? "" : format(" ({})", r.start));
}

std::int64_t text_bytes(const std::vector<CurateDocument>& documents) {
  std::int64_t bytes = 0;
  for (const CurateDocument& document : documents) bytes += static_cast<std::int64_t>(document.text.size());
  return bytes;
}

std::vector<LanguageShare> language_shares(const std::vector<CurateDocument>& training,
                                           const std::vector<CurateDocument>& heldout) {
  std::map<std::string, LanguageShare> languages;
  for (const auto* documents : {&training, &heldout})
    for (const CurateDocument& document : *documents) {
      const auto bytes = static_cast<std::int64_t>(document.text.size());
      LanguageShare& share = languages[document.language];
      share.language = document.language;
      ++share.documents;
      share.bytes += bytes;
      if (documents == &training) continue;
      ++share.heldout_documents;
      share.heldout_bytes += bytes;
    }
  std::vector<LanguageShare> shares;
  for (const auto& [code, share] : languages) shares.push_back(share);
  std::stable_sort(shares.begin(), shares.end(),
                   [](const LanguageShare& a, const LanguageShare& b) { return a.bytes > b.bytes; });
  return shares;
}

}  // namespace longhaul
