#include "engine/curate/readers/page_reader.h"

#include <chrono>

namespace longhaul {

Status read_page(const ReadJob& job, const std::function<void(std::string_view, FoundDocument&)>& extract) {
  const std::int64_t bytes_max = job.settings.page_bytes_max.value;
  LH_TRY(const std::string bytes, read_input(job.file, bytes_max));
  FoundDocument document;
  document.bytes = static_cast<std::int64_t>(bytes.size());
  document.is_too_large = document.bytes > bytes_max;
  if (!document.is_too_large) {
    const auto start = std::chrono::steady_clock::now();
    extract(bytes, document);
    document.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  job.found(std::move(document));
  return {};
}

}  // namespace longhaul
