#include "engine/data/files/document_lines.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <thread>

#include "base/error/diagnostics.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json_lines.h"

namespace longhaul {
namespace {

constexpr std::size_t batch_bytes = 16 << 20;

Result<DocumentLine> read_document(const JsonLine& line, const std::string& path) {
  LH_TRY(const Value object, parse_json_row(line, path, line.text.size()));  // a document may be long
  const Value* text = object.find("text");
  if (!text) return make_error(ErrorCode::invalid_input, "'text' is missing");
  if (!text->is_string())
    return make_error(ErrorCode::invalid_input, format("'text' is {}, expected a text", text->kind_name()));
  return DocumentLine{text->as_string(), object.get_string("language", "und")};
}

}  // namespace

Status for_each_document(const std::string& path, int threads,
                         const std::function<void(const DocumentLine&, std::size_t index, int thread)>& each,
                         const std::function<Status(std::size_t batch_size, double fraction)>& done) {
  LH_TRY(const MappedFile file, MappedFile::open(path));
  const std::string_view all = file.view();
  Diagnostics problems;
  std::size_t hidden = 0;
  JsonLineReader lines(all);
  while (lines.position() < all.size()) {
    std::vector<JsonLine> rows;
    const std::size_t begin = lines.position();
    for (JsonLine line;
         lines.position() - begin < batch_bytes && rows.size() < batch_documents_max && lines.next(line);)
      rows.push_back(line);
    std::vector<std::optional<Error>> errors(rows.size());
    const auto work = [&](int thread) {
      const auto lanes = static_cast<std::size_t>(std::max(threads, 1));
      for (auto i = static_cast<std::size_t>(thread); i < rows.size(); i += lanes) {
        Result<DocumentLine> document = read_document(rows[i], path);
        if (document.ok())
          each(*document, i, thread);
        else
          errors[i] = document.error();
      }
    };
    std::vector<std::thread> workers;
    for (int thread = 1; thread < threads; ++thread) workers.emplace_back(work, thread);
    work(0);
    for (std::thread& worker : workers) worker.join();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (!errors[i]) continue;
      if (problems.size() < json_problems_shown)
        problems.add(SourcePos{path, rows[i].number, 0}, errors[i]->what);
      else
        ++hidden;
    }
    if (problems.empty()) {
      const Status status = done(rows.size(), static_cast<double>(lines.position()) / static_cast<double>(all.size()));
      LH_CHECK(status);
    }
  }
  return problems.to_status(hidden > 0 ? format("and {} more lines with errors", hidden) : "no tokens were written");
}

}  // namespace longhaul
