#include "engine/curate/heldout_pages.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/digest/hash.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

void decide_amount(const CurateSettings& settings, HeldoutChoice& choice) {
  const auto share = static_cast<std::int64_t>(settings.heldout_fraction * static_cast<double>(choice.all));
  if (settings.heldout_fraction > 0 && share >= settings.heldout_bytes) {
    choice.wanted = share;
    choice.key = format("heldout_fraction = {:g}", settings.heldout_fraction);
  } else if (settings.heldout_bytes >= 0) {
    choice.wanted = settings.heldout_bytes;
    choice.key = format("heldout_bytes = {}", settings.heldout_bytes);
  } else {
    choice.wanted = std::min(heldout_bytes_most, choice.all / heldout_part_of_text);
  }
}

std::string note_on(const HeldoutChoice& choice, std::size_t pages) {
  const auto bytes = [](std::int64_t count) { return human_bytes(static_cast<double>(count)); };
  if (choice.taken == 0 && choice.wanted > 0)
    return format(
        "nothing is held out: no page of {} is as small as half of the text; give more pages, or say "
        "heldout_bytes",
        pages);
  if (2 * choice.taken > choice.all)
    return format("{} holds out {} of {}, more than is left to train on; lower it, or give more pages", choice.key,
                  bytes(choice.taken), bytes(choice.all));
  return {};
}

}  // namespace

HeldoutChoice choose_heldout_pages(const std::map<std::string, std::int64_t>& page_bytes,
                                   const CurateSettings& settings) {
  HeldoutChoice choice;
  std::vector<std::pair<std::uint64_t, std::string>> order;
  for (const auto& [page, bytes] : page_bytes) {
    choice.all += bytes;
    order.emplace_back(xxh3_64(page, static_cast<std::uint64_t>(settings.seed)), page);
  }
  std::sort(order.begin(), order.end());
  decide_amount(settings, choice);
  for (const auto& [hash, page] : order) {
    if (choice.taken >= choice.wanted) break;
    const std::int64_t bytes = page_bytes.at(page);
    if (choice.key.empty() && 2 * (choice.taken + bytes) > choice.all) continue;
    choice.taken += bytes;
    choice.pages.insert(page);
  }
  choice.note = note_on(choice, page_bytes.size());
  return choice;
}

}  // namespace longhaul
