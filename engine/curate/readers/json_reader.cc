#include "engine/curate/readers/document_readers.h"

namespace longhaul {

// One document a record: JSON lines, or one array.
Status read_json_records(const ReadJob& job) {
  const auto record = [&](const InputRecord& found) {
    FoundDocument document;
    document.record = found.line;
    document.bytes = found.bytes;
    document.origin = found.object.get_string("page", found.object.get_string("url"));
    document.title = found.object.get_string("title");
    document.author = found.object.get_string("author");
    document.date = found.object.get_string("date");
    document.url = found.object.get_string("url");
    document.text = found.object.get_string("text");
    job.found(std::move(document));
  };
  return read_records(job.file, job.settings.page_bytes_max.value, record, job.rejected);
}

}  // namespace longhaul
