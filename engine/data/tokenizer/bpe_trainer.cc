#include "engine/data/tokenizer/bpe_trainer.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <queue>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "base/digest/hash.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/data/tokenizer/bpe_model.h"
#include "engine/data/tokenizer/utf8.h"

namespace longhaul {

// Open addressing over words kept one after the other in `bytes`.
struct WordCounts::Table {
  struct Word {
    std::uint64_t offset = 0;
    std::uint64_t hash = 0;
    std::uint32_t length = 0;
    std::int64_t count = 0;
  };
  std::string bytes;
  std::vector<Word> words;           // in order of first occurrence
  std::vector<std::uint32_t> slots;  // index into words + 1; 0 = empty
  std::vector<std::uint32_t> ends;

  Table() : slots(1 << 12, 0) {}
  std::string_view text(const Word& word) const { return {bytes.data() + word.offset, word.length}; }

  void add(std::string_view word, std::uint64_t hash, std::int64_t count) {
    const std::size_t mask = slots.size() - 1;
    std::size_t at = hash & mask;
    for (; slots[at] != 0; at = (at + 1) & mask) {
      Word& known = words[slots[at] - 1];
      if (known.hash == hash && text(known) == word) {
        known.count += count;
        return;
      }
    }
    words.push_back({bytes.size(), hash, static_cast<std::uint32_t>(word.size()), count});
    bytes += word;
    slots[at] = static_cast<std::uint32_t>(words.size());
    if (words.size() * 2 > slots.size()) grow();
  }
  void grow() {
    slots.assign(slots.size() * 2, 0);
    const std::size_t mask = slots.size() - 1;
    for (std::uint32_t i = 0; i < words.size(); ++i) {
      std::size_t at = words[i].hash & mask;
      while (slots[at] != 0) at = (at + 1) & mask;
      slots[at] = i + 1;
    }
  }
};

WordCounts::WordCounts() : table_(std::make_unique<Table>()) {}
WordCounts::~WordCounts() = default;
WordCounts::WordCounts(WordCounts&&) noexcept = default;
WordCounts& WordCounts::operator=(WordCounts&&) noexcept = default;
std::size_t WordCounts::distinct() const {
  return table_->words.size();
}

void WordCounts::add(std::string_view text, const Pretokenizer& pretokenizer) {
  PatternBudget budget(text.size());
  const Status split = pretokenizer.split(text, budget, table_->ends);
  LH_ASSERT(split.ok(), split.ok() ? "" : split.error().message());  // the patterns to train with are our own
  std::uint32_t begin = 0;
  for (const std::uint32_t end : table_->ends) {
    const std::string_view word = text.substr(begin, end - begin);
    table_->add(word, xxh3_64(word), 1);
    begin = end;
  }
}

void WordCounts::add(const WordCounts& other) {
  for (const Table::Word& word : other.table_->words) table_->add(other.table_->text(word), word.hash, word.count);
}

// The merge loop. Its bookkeeping is the reference's to the letter, because the order of merges hangs on it: a merged
// pair keeps what is left of its count; a queue entry holds the count it was made with and is put back with the true
// one when it comes up; pairs that a merge makes are offered once per merge, with the words that gained them.
class BpeTrainer {
 public:
  BpeTrainer(const WordCounts::Table& words, const BpeTrainerSettings& settings) : settings_(settings) {
    add_initial_tokens();
    load_words(words);
    count_pairs();
  }

  void run() {
    std::size_t reported = 0;
    while (static_cast<std::int64_t>(texts_.size()) < settings_.vocabulary && !queue_.empty()) {
      Candidate top = queue_.top();
      queue_.pop();
      const std::int64_t count = pairs_[top.pair_index].count;
      if (top.count != count) {
        top.count = count;
        queue_.push(top);
        continue;
      }
      if (top.count < 1 || top.count < settings_.min_frequency) break;
      merge(top);
      if (settings_.progress && texts_.size() >= reported + 256) {
        reported = texts_.size();
        settings_.progress(static_cast<double>(reported) / static_cast<double>(settings_.vocabulary));
      }
    }
  }

  std::string tokenizer_json() const;

 private:
  using Pair = std::uint64_t;  // left id in the high half
  struct PairState {
    Pair pair = 0;
    std::int64_t count = 0;
    std::vector<std::uint32_t> gained;  // words that gained the pair and are not yet in a queue entry
  };
  struct Candidate {
    std::int64_t count = 0;
    Pair pair = 0;
    std::uint32_t pair_index = 0;
    std::uint32_t words_index = 0;
    bool operator<(const Candidate& other) const {  // the top of the queue is the largest
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };
  struct Word {
    std::uint64_t offset = 0;
    std::uint32_t length = 0;  // in symbols
    std::int64_t count = 0;
  };

  static Pair make_pair_of(std::uint32_t left, std::uint32_t right) { return Pair{left} << 32 | right; }

  void add_token(std::string text) {
    if (ids_.emplace(text, static_cast<std::uint32_t>(texts_.size())).second) texts_.push_back(std::move(text));
  }

  void add_initial_tokens() {
    for (const std::string& token : settings_.special_tokens) add_token(token);
    std::vector<std::uint32_t> alphabet = byte_alphabet();
    std::sort(alphabet.begin(), alphabet.end());
    for (const std::uint32_t point : alphabet) {
      std::string text;
      append_utf8(text, point);
      add_token(text);
    }
  }

  void load_words(const WordCounts::Table& table) {
    std::uint32_t byte_ids[256];
    for (int b = 0; b < 256; ++b) byte_ids[b] = ids_.at(to_byte_alphabet(std::string(1, static_cast<char>(b))));
    symbols_.reserve(table.bytes.size());
    words_.reserve(table.words.size());
    for (const WordCounts::Table::Word& word : table.words) {
      words_.push_back({symbols_.size(), word.length, word.count});
      for (const char c : table.text(word)) symbols_.push_back(byte_ids[static_cast<unsigned char>(c)]);
    }
  }

  std::uint32_t state_of(Pair pair) {
    const auto [at, fresh] = pair_index_.try_emplace(pair, static_cast<std::uint32_t>(pairs_.size()));
    if (fresh) pairs_.push_back({pair, 0, {}});
    return at->second;
  }

  void change(Pair pair, std::int64_t by, std::uint32_t word, bool gains) {
    const std::uint32_t index = state_of(pair);
    PairState& state = pairs_[index];
    state.count += by;
    if (!gains) return;
    if (state.gained.empty()) touched_.push_back(index);
    if (state.gained.empty() || state.gained.back() != word) state.gained.push_back(word);
  }

  void count_pairs() {
    for (std::uint32_t w = 0; w < words_.size(); ++w) {
      const std::uint32_t* symbols = symbols_.data() + words_[w].offset;
      for (std::uint32_t i = 0; i + 1 < words_[w].length; ++i)
        change(make_pair_of(symbols[i], symbols[i + 1]), words_[w].count, w, true);
    }
    offer_touched();
  }

  void offer_touched() {
    for (const std::uint32_t index : touched_) {
      PairState& state = pairs_[index];
      if (state.count > 0) {
        queue_.push({state.count, state.pair, index, static_cast<std::uint32_t>(positions_.size())});
        positions_.push_back(std::move(state.gained));
      }
      state.gained = {};
    }
    touched_.clear();
  }

  void merge(const Candidate& candidate) {
    const auto left = static_cast<std::uint32_t>(candidate.pair >> 32);
    const auto right = static_cast<std::uint32_t>(candidate.pair);
    std::string text = texts_[left] + texts_[right];
    add_token(text);  // an existing token of the same text is used again
    const std::uint32_t result = ids_.at(text);
    merges_.push_back({left, right, result});
    const std::vector<std::uint32_t> words = std::move(positions_[candidate.words_index]);
    for (const std::uint32_t w : words) merge_in_word(w, left, right, result);
    offer_touched();
  }

  void merge_in_word(std::uint32_t w, std::uint32_t left, std::uint32_t right, std::uint32_t result) {
    Word& word = words_[w];
    std::uint32_t* symbols = symbols_.data() + word.offset;
    std::uint32_t write = 0;
    for (std::uint32_t read = 0; read < word.length; ++read) {
      if (symbols[read] != left || read + 1 >= word.length || symbols[read + 1] != right) {
        symbols[write++] = symbols[read];
        continue;
      }
      if (write > 0) {
        change(make_pair_of(symbols[write - 1], left), -word.count, w, false);
        change(make_pair_of(symbols[write - 1], result), word.count, w, true);
      }
      if (read + 2 < word.length) {
        change(make_pair_of(right, symbols[read + 2]), -word.count, w, false);
        change(make_pair_of(result, symbols[read + 2]), word.count, w, true);
      }
      symbols[write++] = result;
      ++read;
    }
    word.length = write;
  }

  const BpeTrainerSettings& settings_;
  std::vector<std::string> texts_;  // by id, in the byte alphabet
  std::unordered_map<std::string, std::uint32_t> ids_;
  std::vector<BpeMerge> merges_;
  std::vector<std::uint32_t> symbols_;  // of all words, one after the other
  std::vector<Word> words_;
  std::vector<PairState> pairs_;
  std::unordered_map<Pair, std::uint32_t> pair_index_;
  std::vector<std::uint32_t> touched_;
  std::priority_queue<Candidate> queue_;
  std::vector<std::vector<std::uint32_t>> positions_;  // words of a queue entry

  friend Result<Tokenizer> train_bpe(const WordCounts& words, const BpeTrainerSettings& settings);
};

namespace {

Value byte_level_value(bool prefix_space, bool use_regex) {
  Value value = Value::make_table();
  value.set("type", "ByteLevel");
  value.set("add_prefix_space", prefix_space);
  value.set("trim_offsets", true);
  value.set("use_regex", use_regex);
  return value;
}

Value pretokenizer_value(PretokenizerPattern pattern) {
  if (pattern == PretokenizerPattern::gpt2) return byte_level_value(false, true);
  Value regex = Value::make_table();
  regex.set("Regex", pattern_text(pattern));
  Value split = Value::make_table();
  split.set("type", "Split");
  split.set("pattern", std::move(regex));
  split.set("behavior", "Isolated");
  split.set("invert", false);
  Value value = Value::make_table();
  value.set("type", "Sequence");
  value.set("pretokenizers", ValueArray{std::move(split), byte_level_value(false, false)});
  return value;
}

Value added_token_value(std::size_t id, const std::string& content) {
  Value value = Value::make_table();
  value.set("id", id);
  value.set("content", content);
  for (const char* key : {"single_word", "lstrip", "rstrip", "normalized"}) value.set(key, false);
  value.set("special", true);
  return value;
}

}  // namespace

std::string BpeTrainer::tokenizer_json() const {
  ValueTable vocabulary;
  vocabulary.reserve(texts_.size());
  for (std::size_t id = 0; id < texts_.size(); ++id) vocabulary.push_back({texts_[id], Value(id), {}});
  ValueArray merges;
  merges.reserve(merges_.size());
  // A pair that was merged twice keeps its last place.
  std::unordered_map<Pair, std::size_t> last;
  for (std::size_t i = 0; i < merges_.size(); ++i) last[make_pair_of(merges_[i].left, merges_[i].right)] = i;
  for (std::size_t i = 0; i < merges_.size(); ++i) {
    const BpeMerge& m = merges_[i];
    if (last.at(make_pair_of(m.left, m.right)) == i)
      merges.push_back(ValueArray{Value(texts_[m.left]), Value(texts_[m.right])});
  }
  Value model = Value::make_table();
  model.set("type", "BPE");
  for (const char* key : {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"})
    model.set(key, Value());
  model.set("fuse_unk", false);
  model.set("byte_fallback", false);
  model.set("ignore_merges", false);
  model.set("vocab", std::move(vocabulary));
  model.set("merges", std::move(merges));

  Value added = Value::make_array();
  for (std::size_t id = 0; id < settings_.special_tokens.size(); ++id)
    added.push_back(added_token_value(id, settings_.special_tokens[id]));
  Value root = Value::make_table();
  root.set("version", "1.0");
  root.set("truncation", Value());
  root.set("padding", Value());
  root.set("added_tokens", std::move(added));
  root.set("normalizer", Value());
  root.set("pre_tokenizer", pretokenizer_value(settings_.pattern));
  root.set("post_processor", Value());
  root.set("decoder", byte_level_value(true, true));
  root.set("model", std::move(model));
  return to_json_pretty(root);
}

Result<Tokenizer> train_bpe(const WordCounts& words, const BpeTrainerSettings& settings) {
  const auto specials = static_cast<std::int64_t>(settings.special_tokens.size());
  std::unordered_set<std::string> seen;
  for (const std::string& token : settings.special_tokens) {
    if (token.size() < 2 || !is_valid_utf8(token))
      return make_error(ErrorCode::invalid_input,
                        format("special token '{}' is shorter than two bytes or not UTF-8", token));
    if (!seen.insert(token).second)
      return make_error(ErrorCode::invalid_input, format("special token '{}' comes twice", token));
  }
  if (settings.vocabulary < 256 + specials)
    return make_error(
        ErrorCode::invalid_input,
        format("vocabulary = {} has no room for 256 bytes and {} special tokens", settings.vocabulary, specials),
        format("use at least {}", 256 + specials));
  if (words.distinct() == 0)
    return make_error(ErrorCode::invalid_input, "there is no text to train a tokenizer on",
                      "check that the training documents are not empty");
  BpeTrainer trainer(*words.table_, settings);
  trainer.run();
  return Tokenizer::parse(trainer.tokenizer_json(), "trained tokenizer");
}

}  // namespace longhaul
