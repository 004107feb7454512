#include "engine/curate/readers/document_readers.h"

#include <algorithm>

namespace longhaul {

const std::vector<DocumentReader>& document_readers() {
  static const std::vector<DocumentReader> readers = {
      {{"html", {".html", ".htm", ".xhtml"}, true}, read_html},
      {{"text", {".txt", ".text", ".md"}}, read_plain_text},
      {{"json", {".jsonl", ".ndjson", ".json"}}, read_json_records},
      {{"columns",
        {".parquet", ".arrow", ".feather"},
        false,
        "columns of Parquet and Arrow are not read; write the file as JSON lines"},
       nullptr},
  };
  return readers;
}

const DocumentTypes& document_types() {
  static const DocumentTypes types = [] {
    DocumentTypes all;
    for (const DocumentReader& reader : document_readers()) all.push_back(&reader.type);
    return all;
  }();
  return types;
}

const DocumentReader& reader_of(const DocumentType& type) {
  const std::vector<DocumentReader>& readers = document_readers();
  const auto found = std::ranges::find_if(readers, [&](const DocumentReader& one) { return &one.type == &type; });
  LH_ASSERT(found != readers.end(), std::string(type.name));
  return *found;
}

}  // namespace longhaul
