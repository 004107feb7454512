#include "engine/tasks/common/heldout_documents.h"

#include "base/files/file_query.h"
#include "base/files/file_retry.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "engine/data/files/indexed_dataset.h"
#include "engine/data/tokenizer/tokenizer.h"

namespace longhaul {

Result<std::vector<std::string>> heldout_documents(const std::string& folder) {
  const std::string file = join_path(folder, "heldout.txt");
  LH_TRY(std::string text, read_file(file));
  if (text.empty())
    return make_error(ErrorCode::invalid_input, file + " is empty: nothing of the corpus was held out",
                      "give more documents, or a corpus with heldout.jsonl; a curate stage without heldout_bytes and "
                      "heldout_fraction holds some out");
  LH_TRY(const bool has_index, retried({}, [&] { return is_there(join_path(folder, "heldout.idx")); }));
  if (!has_index) return std::vector<std::string>{std::move(text)};
  LH_TRY(const IndexedDataset dataset, IndexedDataset::open(join_path(folder, "heldout")));
  LH_TRY(const Tokenizer tokenizer, Tokenizer::load(join_path(folder, "tokenizer.json")));
  std::vector<std::string> documents;
  std::size_t at = 0;
  for (std::int64_t i = 0; i < dataset.documents(); ++i) {
    std::string one = tokenizer.decode(dataset.read_document(i), true);
    if (text.compare(at, one.size(), one) != 0 || text.substr(at + one.size(), 1) != "\n")
      return make_error(ErrorCode::invalid_input,
                        format("document {} of {} is not what {} says from byte {} on", i + 1,
                               join_path(folder, "heldout.bin"), file, at),
                        "they belong to different tokenizations, or the tokenizer changes the text: tokenize again");
    at += one.size() + 1;
    if (!one.empty()) documents.push_back(std::move(one));
  }
  if (at != text.size() || documents.empty())
    return make_error(ErrorCode::invalid_input,
                      format("{} holds {} bytes more than the {} documents of heldout.bin", file, text.size() - at,
                             dataset.documents()),
                      "tokenize again");
  return documents;
}

}  // namespace longhaul
