#include "engine/data/tokenizer/bpe_model.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <queue>

#include "base/text/text.h"
#include "engine/data/tokenizer/utf8.h"

namespace longhaul {
namespace {

constexpr std::uint32_t no_rank = ~std::uint32_t{0};
// Up to this many bytes a linear search for the lowest rank beats a heap.
constexpr std::size_t short_piece_bytes = 48;

std::uint64_t mix(std::uint64_t x) {
  x *= 0x9E3779B97F4A7C15ULL;
  return x ^ (x >> 32);
}
std::uint64_t pair_key(std::uint32_t left, std::uint32_t right) {
  return std::uint64_t{left} << 32 | right;
}

// Eight bytes at a time; only has to spread short words well.
std::uint64_t hash_bytes(std::string_view bytes) {
  std::uint64_t h = bytes.size() * 0xD6E8FEB86659FD93ULL;
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data() + i, 8);
    h = mix(h ^ word);
  }
  std::uint64_t tail = 0;
  std::memcpy(&tail, bytes.data() + i, bytes.size() - i);
  h = mix(h ^ tail);
  return mix(h);
}

}  // namespace

const std::vector<std::uint32_t>& byte_alphabet() {
  static const std::vector<std::uint32_t> alphabet = [] {
    // Bytes that print as themselves in Latin-1 stay; the others become U+0100, U+0101, ... in order.
    std::vector<std::uint32_t> points(256);
    std::uint32_t next = 0x100;
    for (std::uint32_t b = 0; b < 256; ++b) {
      const bool prints = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
      points[b] = prints ? b : next++;
    }
    return points;
  }();
  return alphabet;
}

std::string to_byte_alphabet(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) append_utf8(text, byte_alphabet()[static_cast<unsigned char>(c)]);
  return text;
}

std::optional<std::string> from_byte_alphabet(std::string_view text) {
  static const std::array<std::int16_t, 0x144> bytes = [] {
    std::array<std::int16_t, 0x144> table;
    table.fill(-1);
    for (std::size_t b = 0; b < 256; ++b) table[byte_alphabet()[b]] = static_cast<std::int16_t>(b);
    return table;
  }();
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = read_utf8(text, at);
    if (point.value >= bytes.size() || bytes[point.value] < 0) return std::nullopt;
    out += static_cast<char>(bytes[point.value]);
    at += point.length;
  }
  return out;
}

Result<BpeModel> BpeModel::create(std::vector<std::string> tokens, const std::vector<BpeMerge>& merges,
                                  bool ignore_merges) {
  BpeModel model;
  model.tokens_ = std::move(tokens);
  model.words_.resize(std::bit_ceil(model.tokens_.size() * 2 + 2));
  std::fill(std::begin(model.byte_ids_), std::end(model.byte_ids_), no_rank);
  for (std::size_t id = 0; id < model.tokens_.size(); ++id) {
    const std::string& bytes = model.tokens_[id];
    if (bytes.empty()) continue;
    if (bytes.size() == 1) model.byte_ids_[static_cast<unsigned char>(bytes[0])] = static_cast<std::uint32_t>(id);
    model.token_bytes_max_ = std::max(model.token_bytes_max_, bytes.size());
    const auto hash = static_cast<std::uint32_t>(hash_bytes(bytes));
    const std::size_t mask = model.words_.size() - 1;
    std::size_t at = hash & mask;
    while (model.words_[at].id >= 0) at = (at + 1) & mask;
    model.words_[at] = {hash, static_cast<std::int32_t>(id), ignore_merges || bytes.size() == 1};
  }
  for (int b = 0; b < 256; ++b)
    if (model.byte_ids_[b] == no_rank)
      return make_error(ErrorCode::unsupported, format("the vocabulary has no token for byte 0x{:02X}", b),
                        "byte-level BPE needs all 256 bytes; train with the whole byte alphabet");

  model.pairs_.resize(std::bit_ceil(merges.size() * 2 + 2));
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const BpeMerge& m = merges[rank];
    const std::uint64_t key = pair_key(m.left, m.right);
    const std::size_t mask = model.pairs_.size() - 1;
    std::size_t at = mix(key) & mask;
    while (model.pairs_[at].key != ~std::uint64_t{0} && model.pairs_[at].key != key) at = (at + 1) & mask;
    model.pairs_[at] = {key, static_cast<std::uint32_t>(rank), m.result};
  }

  // Which tokens are what merging makes of their own bytes? Those pieces need no merging later.
  if (!ignore_merges) {
    std::vector<std::int32_t> ids;
    for (WordSlot& slot : model.words_) {
      if (slot.id < 0 || slot.whole) continue;
      ids.clear();
      model.merge(model.tokens_[static_cast<std::size_t>(slot.id)], ids);
      slot.whole = ids.size() == 1 && ids[0] == slot.id;
    }
  }
  return model;
}

const BpeModel::PairSlot* BpeModel::find_pair(std::uint32_t left, std::uint32_t right) const {
  const std::uint64_t key = pair_key(left, right);
  const std::size_t mask = pairs_.size() - 1;
  for (std::size_t at = mix(key) & mask;; at = (at + 1) & mask) {
    if (pairs_[at].key == key) return &pairs_[at];
    if (pairs_[at].key == ~std::uint64_t{0}) return nullptr;
  }
}

const BpeModel::WordSlot* BpeModel::find_word(std::string_view bytes) const {
  if (bytes.size() > token_bytes_max_) return nullptr;
  const auto hash = static_cast<std::uint32_t>(hash_bytes(bytes));
  const std::size_t mask = words_.size() - 1;
  for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
    const WordSlot& slot = words_[at];
    if (slot.id < 0) return nullptr;
    if (slot.hash == hash && tokens_[static_cast<std::size_t>(slot.id)] == bytes) return &slot;
  }
}

std::optional<std::int32_t> BpeModel::find(std::string_view bytes) const {
  const WordSlot* slot = find_word(bytes);
  if (!slot) return std::nullopt;
  return slot->id;
}

void BpeModel::merge_short(std::string_view piece, std::vector<std::int32_t>& out) const {
  std::uint32_t ids[short_piece_bytes], ranks[short_piece_bytes], results[short_piece_bytes];
  std::size_t n = piece.size();
  for (std::size_t i = 0; i < n; ++i) ids[i] = byte_ids_[static_cast<unsigned char>(piece[i])];
  // ranks[i], results[i]: of the pair (i, i + 1)
  const auto look = [&](std::size_t i) {
    const PairSlot* pair = i + 1 < n ? find_pair(ids[i], ids[i + 1]) : nullptr;
    ranks[i] = pair ? pair->rank : no_rank;
    if (pair) results[i] = pair->result;
  };
  for (std::size_t i = 0; i < n; ++i) look(i);
  while (n > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < n; ++i)
      if (ranks[i] < ranks[best]) best = i;
    if (ranks[best] == no_rank) break;
    ids[best] = results[best];
    --n;
    for (std::size_t i = best + 1; i < n; ++i) {
      ids[i] = ids[i + 1];
      ranks[i] = ranks[i + 1];
      results[i] = results[i + 1];
    }
    look(best);
    if (best > 0) look(best - 1);
  }
  for (std::size_t i = 0; i < n; ++i) out.push_back(static_cast<std::int32_t>(ids[i]));
}

void BpeModel::merge_long(std::string_view piece, std::vector<std::int32_t>& out) const {
  struct Symbol {
    std::uint32_t id, next, previous;
    bool alive;
  };
  const auto n = static_cast<std::uint32_t>(piece.size());
  std::vector<Symbol> symbols(n);
  for (std::uint32_t i = 0; i < n; ++i)
    symbols[i] = {byte_ids_[static_cast<unsigned char>(piece[i])], i + 1, i == 0 ? n : i - 1, true};
  // rank in the high half, position in the low half: the smallest is the lowest rank, then the leftmost
  std::priority_queue<std::uint64_t, std::vector<std::uint64_t>, std::greater<>> queue;
  const auto offer = [&](std::uint32_t i) {
    if (i == n || symbols[i].next == n) return;
    if (const PairSlot* pair = find_pair(symbols[i].id, symbols[symbols[i].next].id))
      queue.push(std::uint64_t{pair->rank} << 32 | i);
  };
  for (std::uint32_t i = 0; i < n; ++i) offer(i);
  while (!queue.empty()) {
    const auto rank = static_cast<std::uint32_t>(queue.top() >> 32);
    const auto i = static_cast<std::uint32_t>(queue.top());
    queue.pop();
    Symbol& symbol = symbols[i];
    if (!symbol.alive || symbol.next == n) continue;
    const std::uint32_t second = symbol.next;
    const PairSlot* pair = find_pair(symbol.id, symbols[second].id);
    if (!pair || pair->rank != rank) continue;  // the pair that was offered is gone
    symbol.id = pair->result;
    symbol.next = symbols[second].next;
    symbols[second].alive = false;
    if (symbol.next != n) symbols[symbol.next].previous = i;
    offer(symbol.previous);
    offer(i);
  }
  for (std::uint32_t i = 0; i != n; i = symbols[i].next) out.push_back(static_cast<std::int32_t>(symbols[i].id));
}

void BpeModel::merge(std::string_view piece, std::vector<std::int32_t>& out) const {
  if (piece.size() <= short_piece_bytes)
    merge_short(piece, out);
  else
    merge_long(piece, out);
}

void BpeModel::encode_piece(std::string_view piece, BpeCache* cache, std::vector<std::int32_t>& out) const {
  if (piece.empty()) return;
  if (piece.size() == 1) {
    out.push_back(static_cast<std::int32_t>(byte_ids_[static_cast<unsigned char>(piece[0])]));
    return;
  }
  if (const WordSlot* word = find_word(piece); word && word->whole) {
    out.push_back(word->id);
    return;
  }
  if (!cache || piece.size() > BpeCache::bytes_max) {
    merge(piece, out);
    return;
  }
  const std::uint64_t hash = hash_bytes(piece);
  BpeCache::Entry& entry = cache->entries_[hash % BpeCache::slots];
  if (entry.hash == hash && entry.length == piece.size() && std::memcmp(entry.bytes, piece.data(), piece.size()) == 0) {
    out.insert(out.end(), entry.ids, entry.ids + entry.count);
    return;
  }
  const std::size_t before = out.size();
  merge(piece, out);
  const std::size_t count = out.size() - before;
  if (count > BpeCache::ids_max) return;
  entry.hash = hash;
  entry.length = static_cast<std::uint8_t>(piece.size());
  entry.count = static_cast<std::uint8_t>(count);
  std::memcpy(entry.bytes, piece.data(), piece.size());
  std::copy(out.begin() + static_cast<std::ptrdiff_t>(before), out.end(), entry.ids);
}

}  // namespace longhaul
