#include "engine/curate/extract/charset.h"
#include "engine/curate/readers/page_reader.h"

namespace longhaul {

// The whole file is the text, Markdown included.
Status read_plain_text(const ReadJob& job) {
  return read_page(
      job, [](std::string_view bytes, FoundDocument& document) { document.text = decode_bytes(bytes, false).text; });
}

}  // namespace longhaul
