// Who gives what, when a step is put together from copies on nodes (local_set.h). Every rank offers the shares that it
// has verified to the first one, which makes one plan for all; nothing here grows with the square of the ranks. What
// all shares have in common (the step, the tensors with their shapes: the head) travels once, from one rank; an offer
// names it by a digest, and its entries name tensors by their place in it. Pure: texts in, texts out.
//
//   every rank   offers_to_text     -> first rank    bytes: about 60 for each entry of its shares
//   first rank   plan_to_text       -> all           bytes: about 60 for each entry of all shares, once
//   one rank     the head           -> all           bytes: about 60 for each tensor
//   every rank   needs_to_text      -> first rank -> all    bytes: about 10 for each run of entries that a rank needs
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "contracts/records/checkpoint_format.h"

namespace longhaul {

struct PlanEntry {
  std::int64_t tensor = 0;  // place in the head's list
  Box box;
  std::int64_t flat_begin = 0, flat_end = 0;
  bool is_bf16 = false;
  std::uint64_t xxh3 = 0;
};

// A share that a rank has verified.
struct ShareOffer {
  int rank = 0, owner = 0;
  bool is_own = false;  // its owner's own copy
  std::string save;     // the id of its save
  std::string head;     // digest of head_text, without `extra`
  std::vector<PlanEntry> entries;
};

// The manifest of a share without entries, as text; but for `extra` the same for all shares of a save. That of the
// first owner counts, as in a checkpoint.
std::string head_text(CheckpointManifest part);
Result<CheckpointManifest> head_from_text(const std::string& text);
// invalid: an entry of no tensor of the manifest.
Result<ShareOffer> offer_of(const CheckpointManifest& part, const std::string& save, int owner, bool is_own);

std::string offers_to_text(const std::vector<ShareOffer>& offers);
// `rank`: that has sent them.
Result<std::vector<ShareOffer>> offers_from_text(const std::string& text, int rank);

// One share for every owner, all of one save.
struct SharePlan {
  std::string refused;  // why there is none; "": there is
  std::vector<ShareOffer> shares;
  int own_copies = 0, partner_copies = 0;
};
// Own copies come first, then lower ranks. Of several saves the one that the most owners have is taken if it is
// complete, else the next: copies that a node kept from a launch before are no part of it.
SharePlan plan_shares(std::vector<ShareOffer> offers, int owners, std::int64_t step);
std::string plan_to_text(const SharePlan& plan);
Result<SharePlan> plan_from_text(const std::string& text);

// Places of entries, ascending, as runs: "0-41,57".
std::string needs_to_text(const std::vector<std::size_t>& places);
Result<std::vector<std::size_t>> needs_from_text(const std::string& text, std::size_t entries);

}  // namespace longhaul
