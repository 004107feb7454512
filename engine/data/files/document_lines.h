// Reads a JSON Lines file of documents in batches of bounded size, parsed on several threads, in file order.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/error/result.h"

namespace longhaul {

inline constexpr std::size_t batch_documents_max = 8192;

struct DocumentLine {
  std::string text;
  std::string language;  // "und" where the line has none
};

// Calls `each(document, index within the batch < batch_documents_max, thread)` on `threads` threads for every document
// of a batch, then `done(batch size, fraction of the file read)` on the calling thread, batch after batch. Problems of
// lines are gathered (at most 20 shown) and returned at the end of the file; nothing is done for those lines. An error
// of `done` ends it.
Status for_each_document(const std::string& path, int threads,
                         const std::function<void(const DocumentLine&, std::size_t index, int thread)>& each,
                         const std::function<Status(std::size_t batch_size, double fraction)>& done);

}  // namespace longhaul
