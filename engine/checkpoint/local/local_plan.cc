#include "engine/checkpoint/local/local_plan.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <unordered_map>

#include "base/digest/hash.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "engine/checkpoint/global/checkpoint_share.h"

namespace longhaul {
namespace {

constexpr std::int64_t dims_max = 8, entries_max = std::int64_t{1} << 32;

Error garbled(const char* what) {
  return make_error(ErrorCode::corrupt, format("what a rank says of its copies is garbled: {}", what));
}

// Tokens of a text, one after the other.
class Tokens {
 public:
  explicit Tokens(std::string_view text) : rest_(text) {}
  bool ended() {
    skip();
    return rest_.empty();
  }
  std::string_view next() {
    skip();
    const std::size_t end = std::min(rest_.size(), rest_.find_first_of(" \n"));
    const std::string_view token = rest_.substr(0, end);
    rest_.remove_prefix(end);
    return token;
  }
  template <class Number>
  bool number(Number& value, Number least, Number most, int base = 10) {
    const std::string_view token = next();
    const auto read = std::from_chars(token.data(), token.data() + token.size(), value, base);
    return read.ec == std::errc() && read.ptr == token.data() + token.size() && value >= least && value <= most;
  }

 private:
  void skip() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\n')) rest_.remove_prefix(1);
  }
  std::string_view rest_;
};

void add_number(std::string& text, std::int64_t value) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  text.append(digits, end).push_back(' ');
}

void add_share(std::string& text, const ShareOffer& share) {
  text += format("{} {} {} {} {} {}\n", share.rank, share.owner, share.is_own ? "own" : "partner",
                 share.save.empty() ? "-" : share.save, share.head, share.entries.size());
  for (const PlanEntry& entry : share.entries) {
    add_number(text, entry.tensor);
    add_number(text, static_cast<std::int64_t>(entry.box.extent.size()));
    for (const std::int64_t offset : entry.box.offset) add_number(text, offset);
    for (const std::int64_t extent : entry.box.extent) add_number(text, extent);
    add_number(text, entry.flat_begin);
    add_number(text, entry.flat_end);
    text += format("{}{:x}\n", entry.is_bf16 ? "b" : "f", entry.xxh3);
  }
}

bool read_entry(Tokens& tokens, PlanEntry& entry) {
  constexpr std::int64_t most = std::int64_t{1} << 50;
  std::int64_t dims = 0;
  if (!tokens.number<std::int64_t>(entry.tensor, 0, entries_max) || !tokens.number<std::int64_t>(dims, 0, dims_max))
    return false;
  for (auto* numbers : {&entry.box.offset, &entry.box.extent}) {
    numbers->resize(static_cast<std::size_t>(dims));
    for (std::int64_t& number : *numbers)
      if (!tokens.number<std::int64_t>(number, 0, most)) return false;
  }
  if (!tokens.number<std::int64_t>(entry.flat_begin, 0, most) ||
      !tokens.number<std::int64_t>(entry.flat_end, entry.flat_begin, most))
    return false;
  const std::string_view digest = tokens.next();
  if (digest.size() < 2 || (digest.front() != 'b' && digest.front() != 'f')) return false;
  entry.is_bf16 = digest.front() == 'b';
  const auto read = std::from_chars(digest.data() + 1, digest.data() + digest.size(), entry.xxh3, 16);
  return read.ec == std::errc() && read.ptr == digest.data() + digest.size();
}

Result<std::vector<ShareOffer>> shares_from(Tokens& tokens) {
  std::vector<ShareOffer> shares;
  while (!tokens.ended()) {
    ShareOffer share;
    std::int64_t entries = 0;
    if (!tokens.number<int>(share.rank, 0, 1 << 30) || !tokens.number<int>(share.owner, 0, 1 << 30))
      return garbled("a share of nobody");
    share.is_own = tokens.next() == "own";
    share.save = tokens.next();
    if (share.save == "-") share.save.clear();
    share.head = tokens.next();
    if (!tokens.number<std::int64_t>(entries, 0, entries_max)) return garbled("a number of entries");
    for (std::int64_t i = 0; i < entries; ++i)
      if (share.entries.emplace_back(); !read_entry(tokens, share.entries.back())) return garbled("an entry");
    shares.push_back(std::move(share));
  }
  return shares;
}

}  // namespace

std::string head_text(CheckpointManifest part) {
  part.entries.clear();
  return to_json(checkpoint_to_value(part));
}

Result<CheckpointManifest> head_from_text(const std::string& text) {
  LH_TRY(const Value value, parse_json(text, "the head of copies"));
  return checkpoint_from_value(value);
}

Result<ShareOffer> offer_of(const CheckpointManifest& part, const std::string& save, int owner, bool is_own) {
  ShareOffer offer;
  offer.owner = owner, offer.is_own = is_own, offer.save = save;
  CheckpointManifest head = part;
  head.extra = Value::make_table();  // may hold what a rank alone knows
  offer.head = xxh3_128_hex(head_text(std::move(head)));
  std::unordered_map<std::string, std::int64_t> places;
  for (std::size_t i = 0; i < part.tensors.size(); ++i)
    places.emplace(part.tensors[i].first, static_cast<std::int64_t>(i));
  for (const CheckpointEntry& entry : part.entries) {
    const auto place = places.find(entry.tensor);
    if (place == places.end() || entry.box.extent.size() > static_cast<std::size_t>(dims_max))
      return make_error(ErrorCode::corrupt, format("{} is of no tensor of its manifest", entry.key));
    offer.entries.push_back({place->second, entry.box, entry.flat_begin, entry.flat_end,
                             entry.dtype == stored_dtype(DType::bf16), entry.xxh3});
  }
  return offer;
}

std::string offers_to_text(const std::vector<ShareOffer>& offers) {
  std::string text;
  for (const ShareOffer& offer : offers) add_share(text, offer);
  return text;
}

Result<std::vector<ShareOffer>> offers_from_text(const std::string& text, int rank) {
  Tokens tokens(text);
  LH_TRY(std::vector<ShareOffer> offers, shares_from(tokens));
  for (ShareOffer& offer : offers) offer.rank = rank;
  return offers;
}

SharePlan plan_shares(std::vector<ShareOffer> offers, int owners, std::int64_t step) {
  SharePlan plan;
  std::ranges::stable_sort(offers, {}, [](const ShareOffer& offer) { return std::pair(!offer.is_own, offer.rank); });
  using State = std::pair<std::string, std::string>;  // save, head
  std::map<State, std::map<int, const ShareOffer*>> by_state;
  for (const ShareOffer& offer : offers) by_state[{offer.save, offer.head}].emplace(offer.owner, &offer);
  const std::map<int, const ShareOffer*>* fullest = nullptr;
  for (const auto& [state, shares] : by_state)
    if (!fullest || shares.size() > fullest->size()) fullest = &shares;
  for (int owner = 0; owner < owners; ++owner) {
    if (fullest && fullest->contains(owner)) continue;
    const std::string file = shard_file_name(owner, owners);
    const bool of_another = std::ranges::any_of(offers, [&](const ShareOffer& offer) { return offer.owner == owner; });
    plan.refused = of_another ? format("copies of step {} are of different states, that of {} among them", step, file)
                              : format("copies of step {}: {} is whole on no node", step, file);
    return plan;
  }
  if (!fullest) return plan;
  for (const auto& [owner, share] : *fullest) {
    (share->is_own ? plan.own_copies : plan.partner_copies) += 1;
    plan.shares.push_back(*share);
  }
  return plan;
}

std::string plan_to_text(const SharePlan& plan) {
  std::string text =
      format("{} {} {}\n", plan.refused.empty() ? "plan" : "refused", plan.own_copies, plan.partner_copies);
  if (!plan.refused.empty()) return text + plan.refused;
  return text + offers_to_text(plan.shares);
}

Result<SharePlan> plan_from_text(const std::string& text) {
  SharePlan plan;
  const std::size_t end = std::min(text.size(), text.find('\n'));
  Tokens first(std::string_view(text).substr(0, end)), rest(std::string_view(text).substr(end));
  const bool refused = first.next() == "refused";
  if (!first.number<int>(plan.own_copies, 0, 1 << 30) || !first.number<int>(plan.partner_copies, 0, 1 << 30))
    return garbled("a plan");
  if (refused)
    plan.refused = text.substr(std::min(text.size(), end + 1));
  else {
    LH_TRY(plan.shares, shares_from(rest));
  }
  return plan;
}

std::string needs_to_text(const std::vector<std::size_t>& places) {
  std::string text;
  for (std::size_t i = 0; i < places.size();) {
    std::size_t last = i;
    while (last + 1 < places.size() && places[last + 1] == places[last] + 1) ++last;
    text += format("{}{}", text.empty() ? "" : ",", places[i]);
    if (last > i) text += format("-{}", places[last]);
    i = last + 1;
  }
  return text;
}

Result<std::vector<std::size_t>> needs_from_text(const std::string& text, std::size_t entries) {
  std::vector<std::size_t> places;
  for (const std::string& run : split(text, ',')) {
    if (run.empty()) continue;
    std::size_t first = 0, last = 0;
    const char* const end = run.data() + run.size();
    auto read = std::from_chars(run.data(), end, first);
    last = first;
    if (read.ec == std::errc() && read.ptr != end && *read.ptr == '-') read = std::from_chars(read.ptr + 1, end, last);
    if (read.ec != std::errc() || read.ptr != end || last < first || last >= entries)
      return garbled("a run of entries");
    for (std::size_t place = first; place <= last; ++place) places.push_back(place);
  }
  return places;
}

}  // namespace longhaul
