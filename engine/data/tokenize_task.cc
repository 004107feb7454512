#include "engine/data/tokenize_task.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "base/files/file_query.h"
#include "base/files/files.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/data/files/document_lines.h"
#include "engine/data/files/indexed_dataset.h"
#include "engine/data/template/chat.h"
#include "engine/data/template/post_processor.h"
#include "engine/data/tokenizer/bpe_trainer.h"
#include "engine/data/tokenizer/tokenizer.h"

namespace longhaul {
namespace {

struct Tally {
  std::int64_t documents = 0, tokens = 0, text_bytes = 0;  // tokens without the end-of-text tokens
  void add(const Tally& other) {
    documents += other.documents;
    tokens += other.tokens;
    text_bytes += other.text_bytes;
  }
  Value to_value() const {
    Value value = Value::make_table();
    value.set("documents", documents);
    value.set("tokens", tokens);
    value.set("text_bytes", text_bytes);
    value.set("bytes_per_token", tokens > 0 ? static_cast<double>(text_bytes) / static_cast<double>(tokens) : 0.0);
    return value;
  }
};

class TokenizeTask {
 public:
  TokenizeTask(const TokenizeInputs& inputs, const TokenizeSettings& settings, const std::string& out, int threads,
               const TokenizeProgress& progress)
      : inputs_(inputs), settings_(settings), out_(out), threads_(std::max(threads, 1)), progress_(progress) {}

  Result<Value> run() {
    const std::string documents = join_path(inputs_.corpus, "documents.jsonl");
    const std::string heldout = join_path(inputs_.corpus, "heldout.jsonl");
    if (!file_exists(documents))
      return make_error(ErrorCode::not_found, format("{} is missing", documents),
                        "the corpus is a folder as the stage kind curate makes it");
    LH_TRY(Tokenizer tokenizer, inputs_.tokenizer.empty() ? train(documents) : load_tokenizer());
    LH_TRY(end_of_text_, tokenizer.require_special(settings_.end_of_text));
    LH_TRY(around_, PostProcessor::create(tokenizer, inputs_.tokenizer));
    LH_CHECK(tokenizer.save(join_path(out_, "tokenizer.json")));
    LH_CHECK(write_companions(tokenizer));

    Value stats = Value::make_table();
    stats.set("vocab_size", tokenizer.vocab_size());
    stats.set("tokenizer", inputs_.tokenizer.empty() ? "trained" : "given");
    LH_TRY(const Value train_stats, encode_file(tokenizer, documents, "train", false));
    if (train_stats.get_integer("documents") == 0)
      return make_error(ErrorCode::invalid_input, documents + " has no documents",
                        "curate kept nothing: see its report");
    stats.set("train", train_stats);
    LH_TRY(const bool has_heldout, is_there(heldout));
    if (has_heldout) {
      LH_TRY(Value heldout_stats, encode_file(tokenizer, heldout, "heldout", true));
      stats.set("heldout", std::move(heldout_stats));
    }
    LH_CHECK(write_file_atomic(join_path(out_, "stats.json"), to_json_pretty(stats)));
    return stats;
  }

 private:
  void report(std::string_view what, double fraction) const {
    if (progress_) progress_(what, fraction);
  }

  // A folder that was given keeps what it says of its chat template and special tokens.
  Status write_companions(const Tokenizer& tokenizer) const {
    const std::string path = join_path(out_, "tokenizer_config.json");
    if (is_directory(inputs_.tokenizer)) {
      for (const char* name : {"tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja",
                               "chat_template.json", "generation_config.json"}) {
        const std::string from = join_path(inputs_.tokenizer, name);
        LH_TRY(const bool there, is_there(from));
        if (!there) continue;
        LH_TRY(const std::string text, read_file(from));
        LH_CHECK(write_file_atomic(join_path(out_, name), text));
      }
    }
    LH_TRY(const bool given, is_there(path));
    if (given) return {};
    return write_file_atomic(path, to_json_pretty(tokenizer_config(tokenizer, settings_.end_of_text)));
  }

  Result<Tokenizer> load_tokenizer() const {
    const std::string path =
        is_directory(inputs_.tokenizer) ? join_path(inputs_.tokenizer, "tokenizer.json") : inputs_.tokenizer;
    return Tokenizer::load(path);
  }

  Result<Tokenizer> train(const std::string& documents) const {
    BpeTrainerSettings trainer;
    trainer.vocabulary = settings_.vocabulary;
    trainer.min_frequency = settings_.min_frequency;
    LH_TRY(trainer.pattern, parse_pretokenizer_pattern(settings_.pattern));
    trainer.special_tokens = special_tokens();
    trainer.progress = [this](double fraction) { report("learning the vocabulary", fraction); };

    LH_TRY(const Pretokenizer pretokenizer, Pretokenizer::create({pattern_text(trainer.pattern)}));
    std::vector<WordCounts> counts(static_cast<std::size_t>(threads_));
    const Status counted = for_each_document(
        documents, threads_,
        [&](const DocumentLine& document, std::size_t, int thread) {
          counts[static_cast<std::size_t>(thread)].add(document.text, pretokenizer);
        },
        [&](std::size_t, double fraction) {
          report("counting words", fraction);
          return Status();
        });
    LH_CHECK(counted);
    for (std::size_t i = 1; i < counts.size(); ++i) counts[0].add(counts[i]);
    if (counts[0].distinct() == 0)
      return make_error(ErrorCode::invalid_input, documents + " has no text to learn a vocabulary from",
                        "curate kept nothing: see its report");
    return train_bpe(counts[0], trainer);
  }

  // End of text first, then the chat form's, then the user's; each once.
  std::vector<std::string> special_tokens() const {
    std::vector<std::string> tokens = {settings_.end_of_text};
    const std::vector<std::string> chat = default_special_tokens();
    for (const auto* more : {&chat, &settings_.special_tokens})
      for (const std::string& token : *more)
        if (std::find(tokens.begin(), tokens.end(), token) == tokens.end()) tokens.push_back(token);
    return tokens;
  }

  Result<Value> encode_file(const Tokenizer& tokenizer, const std::string& path, const std::string& name,
                            bool keep_text) const {
    LH_TRY(auto writer, IndexedDatasetWriter::create(join_path(out_, name), token_type_for(tokenizer.vocab_size())));
    std::vector<EncodeScratch> scratch(static_cast<std::size_t>(threads_));
    std::vector<std::map<std::string, Tally>> tallies(static_cast<std::size_t>(threads_));
    std::vector<std::vector<std::int32_t>> ids;  // per document of the batch
    std::vector<std::string> texts;
    std::vector<std::optional<Error>> problems(static_cast<std::size_t>(threads_));  // the first of each thread
    std::size_t written = 0;                                                         // documents of earlier batches
    std::string whole_text;
    const auto encode = [&](const DocumentLine& document, std::size_t index, int thread) {
      std::vector<std::int32_t>& out = ids[index];
      out.clear();
      const auto lane = static_cast<std::size_t>(thread);
      out = around_.before();
      const Status encoded = tokenizer.encode(document.text, false, scratch[lane], out);
      if (!encoded.ok() && !problems[lane])
        problems[lane] = encoded.error().with_context(format("{}, document {}", path, written + index + 1));
      tallies[lane][document.language].add(
          {1, static_cast<std::int64_t>(out.size()), static_cast<std::int64_t>(document.text.size())});
      for (const std::int32_t id : around_.behind())
        if (id != end_of_text_) out.push_back(id);
      out.push_back(end_of_text_);
      if (keep_text) texts[index] = document.text;
    };
    const auto write = [&](std::size_t batch_size, double fraction) -> Status {
      for (const std::optional<Error>& problem : problems)
        if (problem) return *problem;
      written += batch_size;
      for (std::size_t i = 0; i < batch_size; ++i) {
        LH_CHECK(writer.add_document(ids[i]));
        if (keep_text) whole_text += texts[i] + "\n";
      }
      report("encoding " + name, fraction);
      return {};
    };
    ids.resize(batch_documents_max);
    texts.resize(keep_text ? batch_documents_max : 0);
    const Status encoded = for_each_document(path, threads_, encode, write);
    LH_CHECK(encoded);
    LH_CHECK(writer.finish());
    if (keep_text) LH_CHECK(write_file_atomic(join_path(out_, name + ".txt"), whole_text));

    std::map<std::string, Tally> languages;
    Tally all;
    for (const auto& lane : tallies)
      for (const auto& [language, tally] : lane) languages[language].add(tally);
    Value by_language = Value::make_table();
    for (const auto& [language, tally] : languages) {
      all.add(tally);
      by_language.set(language, tally.to_value());
    }
    Value stats = all.to_value();
    stats.set("tokens_with_end_of_text", writer.tokens());
    stats.set("languages", std::move(by_language));
    return stats;
  }

  const TokenizeInputs& inputs_;
  const TokenizeSettings& settings_;
  const std::string& out_;
  int threads_ = 1;
  const TokenizeProgress& progress_;
  std::int32_t end_of_text_ = 0;
  PostProcessor around_;  // of a tokenizer that was given
};

}  // namespace

Result<Value> tokenize_corpus(const TokenizeInputs& inputs, const TokenizeSettings& settings, const std::string& out,
                              int threads, const TokenizeProgress& progress) {
  return TokenizeTask(inputs, settings, out, threads, progress).run();
}

}  // namespace longhaul
