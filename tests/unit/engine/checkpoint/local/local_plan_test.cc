// Who gives which share of copies on nodes, and how many bytes are said about it.
#include "engine/checkpoint/local/local_plan.h"

#include <doctest/doctest.h>

#include "base/text/text.h"

using namespace longhaul;

namespace {

// What rank `owner` of `ranks` would keep of a model of 80 layers, split by tp = 8: a slice of a ninth of its tensors.
CheckpointManifest part_of(const CheckpointManifest& head, int owner, int ranks) {
  CheckpointManifest part = head;
  const int slice = owner / 8, slices = ranks / 8;
  const std::size_t tensors = head.tensors.size();
  for (std::size_t i = tensors * static_cast<std::size_t>(slice) / static_cast<std::size_t>(slices);
       i <= tensors * static_cast<std::size_t>(slice + 1) / static_cast<std::size_t>(slices) && i < tensors; ++i) {
    CheckpointEntry entry;
    entry.tensor = head.tensors[i].first;
    const std::int64_t rows = head.tensors[i].second[0] / 8;
    entry.box = {{rows * (owner % 8), 0}, {rows, head.tensors[i].second[1]}};
    entry.flat_end = rows * head.tensors[i].second[1];
    entry.file = "shard", entry.key = entry.tensor, entry.dtype = "F32", entry.xxh3 = 0x0123456789abcdef;
    part.entries.push_back(entry);
  }
  return part;
}

CheckpointManifest head_of_70b() {
  CheckpointManifest head;
  head.step = 240;
  for (const char* suffix : {"", "#exp_avg", "#exp_avg_sq"})
    for (int tensor = 0; tensor < 723; ++tensor)
      head.tensors.emplace_back(format("model.layers.{}.self_attn.q_proj.weight.{}{}", tensor / 9, tensor % 9, suffix),
                                std::vector<std::int64_t>{8192, 8192});
  return head;
}

std::vector<ShareOffer> offers_of(const std::vector<std::tuple<int, int, bool, std::string>>& shares) {
  std::vector<ShareOffer> offers;
  for (const auto& [rank, owner, is_own, save] : shares) {
    ShareOffer offer;
    offer.rank = rank, offer.owner = owner, offer.is_own = is_own, offer.save = save, offer.head = "head";
    offers.push_back(offer);
  }
  return offers;
}

}  // namespace

TEST_CASE("copies of 1,024 ranks: what is said of them does not grow with their square") {
  const CheckpointManifest head = head_of_70b();
  constexpr int ranks = 1024;
  std::size_t to_first = 0;
  // The eight owners of a slice differ in the rows of their entries: an offer is made of the manifest of one of them.
  std::vector<ShareOffer> of_slices;
  for (int owner = 0; owner < ranks; owner += 8)
    of_slices.push_back(offer_of(part_of(head, owner, ranks), "0123456789abcdef0123456789abcdef", owner, true).value());
  const auto offer_for = [&](int owner, bool is_own) {
    ShareOffer offer = of_slices[static_cast<std::size_t>(owner / 8)];
    offer.owner = owner, offer.is_own = is_own;
    for (PlanEntry& entry : offer.entries) entry.box.offset[0] = entry.box.extent[0] * (owner % 8);
    return offer;
  };
  std::vector<ShareOffer> offers;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<ShareOffer> mine = {offer_for(rank, true), offer_for((rank + ranks / 2) % ranks, false)};
    const std::string text = offers_to_text(mine);
    to_first += text.size();
    auto of_rank = offers_from_text(text, rank);
    REQUIRE(of_rank.ok());
    for (ShareOffer& offer : *of_rank) offers.push_back(std::move(offer));
  }
  const SharePlan plan = plan_shares(offers, ranks, 240);
  CHECK(plan.refused == "");
  CHECK(plan.own_copies == ranks);
  const std::string to_all = plan_to_text(plan);
  const std::string said = head_text(head);
  MESSAGE("bytes to the first rank ", to_first, ", to each of all ", to_all.size(), " and ", said.size());
  // Before: 2 x 150 KB of tensors from each of 1,024 ranks to each of them, 307 MB.
  CHECK(to_first < 4'000'000);
  CHECK(to_all.size() + said.size() < 2'500'000);
  // Eight times the ranks of the same model: entries grow with the ranks, and no faster.
  std::size_t entries = 0;
  const auto heard = plan_from_text(to_all);
  REQUIRE(heard.ok());
  for (const ShareOffer& share : heard->shares) entries += share.entries.size();
  CHECK(to_all.size() < 80 * entries + 100 * ranks);
  CHECK(head_from_text(said)->tensors.size() == head.tensors.size());
}

TEST_CASE("copies: offers and plans say the same after their journey, and what is garbled is refused") {
  const CheckpointManifest head = head_of_70b();
  const ShareOffer offer = offer_of(part_of(head, 9, 16), "", 9, true).value();
  const std::string text = offers_to_text({offer});
  const auto back = offers_from_text(text, 4);
  REQUIRE(back.ok());
  REQUIRE(back->size() == 1);
  CHECK(back->front().rank == 4);
  CHECK(back->front().save == "");
  CHECK(back->front().head == offer.head);
  REQUIRE(back->front().entries.size() == offer.entries.size());
  for (std::size_t i = 0; i < offer.entries.size(); ++i) {
    CHECK(back->front().entries[i].tensor == offer.entries[i].tensor);
    CHECK(back->front().entries[i].box.offset == offer.entries[i].box.offset);
    CHECK(back->front().entries[i].flat_end == offer.entries[i].flat_end);
    CHECK(back->front().entries[i].xxh3 == offer.entries[i].xxh3);
  }
  ShareOffer few_digits = offer;  // digests may be small numbers
  for (std::size_t i = 0; i < few_digits.entries.size(); ++i)
    few_digits.entries[i].xxh3 = i, few_digits.entries[i].is_bf16 = i % 2 == 0;
  const auto small = offers_from_text(offers_to_text({few_digits}), 4);
  REQUIRE(small.ok());
  for (std::size_t i = 0; i < few_digits.entries.size(); ++i) {
    CHECK(small->front().entries[i].xxh3 == i);
    CHECK(small->front().entries[i].is_bf16 == (i % 2 == 0));
  }
  for (std::size_t cut : {std::size_t{1}, text.size() / 2, text.size() - 3})
    if (const auto torn = offers_from_text(text.substr(0, cut), 0); torn.ok()) CHECK(offers_to_text(*torn) != text);
  CHECK_FALSE(offers_from_text("0 1 own - head 99999999999 1", 0).ok());
  CHECK_FALSE(offers_from_text("0 -1 own - head 0", 0).ok());
  CHECK_FALSE(plan_from_text("").ok());
  CHECK(plan_from_text("refused 0 0\nno share, of two").value().refused == "no share, of two");
}

TEST_CASE("copies: shares of one save alone make a state; a complete save is found beside an older one") {
  // Rank 2 kept a share of a launch before; its partner has the new one.
  SharePlan plan = plan_shares(
      offers_of({{0, 0, true, "new"}, {1, 1, true, "new"}, {2, 2, true, "old"}, {0, 2, false, "new"}}), 3, 8);
  CHECK(plan.refused == "");
  CHECK(plan.own_copies == 2);
  CHECK(plan.partner_copies == 1);
  plan = plan_shares(offers_of({{0, 0, true, "new"}, {1, 1, true, "new"}, {2, 2, true, "old"}}), 3, 8);
  CHECK(plan.refused ==
        "copies of step 8 are of different states, that of shard-00003-of-00003.safetensors among them");
  plan = plan_shares(offers_of({{0, 0, true, "new"}, {2, 2, true, "new"}}), 3, 8);
  CHECK(plan.refused == "copies of step 8: shard-00002-of-00003.safetensors is whole on no node");
  CHECK(plan_shares({}, 1, 8).refused != "");
}

TEST_CASE("copies: what a rank needs is said in runs") {
  const std::vector<std::size_t> places = {0, 1, 2, 7, 9, 10};
  CHECK(needs_to_text(places) == "0-2,7,9-10");
  CHECK(needs_from_text("0-2,7,9-10", 11).value() == places);
  CHECK(needs_from_text("", 11)->empty());
  for (const char* text : {"0-2,7,9-11", "x", "3-1", "1-", "-1"}) CHECK_FALSE(needs_from_text(text, 11).ok());
}
