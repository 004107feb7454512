#include "engine/curate/extract/charset.h"
#include "engine/curate/readers/page_reader.h"
#include "engine/curate/readers/text_parts.h"

namespace longhaul {

// The whole file is the text, Markdown included; of more words than a document may have it is several documents of one
// page.
Status read_plain_text(const ReadJob& job) {
  const std::function<void(FoundDocument)> found = [&](FoundDocument document) {
    const auto words_max = static_cast<std::int64_t>(job.settings.document_rules.words_max);
    const std::vector<std::string_view> parts = text_parts(document.text, words_max);
    if (parts.size() < 2) return job.found(std::move(document));
    std::int64_t bytes_left = document.bytes;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      FoundDocument part;
      part.record = static_cast<std::int64_t>(i) + 1;
      part.origin = job.file.source;
      part.title = document.title;
      part.text = std::string(parts[i]);
      part.bytes = i + 1 == parts.size() ? bytes_left : document.bytes / static_cast<std::int64_t>(parts.size());
      part.seconds = document.seconds / static_cast<double>(parts.size());
      bytes_left -= part.bytes;
      job.found(std::move(part));
    }
  };
  return read_page(
      {job.file, job.settings, job.repeated, found, job.rejected},
      [](std::string_view bytes, FoundDocument& document) { document.text = decode_bytes(bytes, false).text; });
}

}  // namespace longhaul
