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

void choose_end(const std::map<std::string, std::int64_t>& page_bytes, HeldoutChoice& choice) {
  for (const auto& [page, bytes] : page_bytes)
    if (choice.cut_page.empty() || bytes > page_bytes.at(choice.cut_page)) choice.cut_page = page;
  choice.cut_bytes = std::max(choice.wanted, std::min(heldout_end_least, page_bytes.at(choice.cut_page) / 2));
  choice.taken = choice.cut_bytes;
}

std::string note_on(const HeldoutChoice& choice, std::size_t pages) {
  const auto bytes = [](std::int64_t count) { return human_bytes(static_cast<double>(count)); };
  if (!choice.cut_page.empty())
    return format(
        "no page of {} is as small as half of the text: the last {} of {} are held out, a text like the one that is "
        "trained on; figures on it say little about other texts; give more pages, or heldout_bytes = 0 for none",
        pages, bytes(choice.cut_bytes), choice.cut_page);
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
  if (choice.key.empty() && choice.taken == 0 && choice.all > 0) choose_end(page_bytes, choice);
  choice.note = note_on(choice, page_bytes.size());
  return choice;
}

std::size_t begin_of_heldout_end(std::string_view text, std::int64_t wanted) {
  const std::size_t middle = (text.size() + 1) / 2;
  const std::size_t target =
      text.size() - std::min(text.size(), static_cast<std::size_t>(std::max<std::int64_t>(wanted, 0)));
  for (const std::string_view mark : {std::string_view("\n\n"), std::string_view("\n"), std::string_view(" ")}) {
    const std::size_t found = text.rfind(mark, target);
    if (found != std::string_view::npos && found >= middle) return found + mark.size();
  }
  std::size_t at = std::max(target, middle);
  while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) ++at;
  return at;
}

}  // namespace longhaul
