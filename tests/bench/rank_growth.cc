// What is reported of the ranks of a large training, in bytes and seconds: whatever every rank says and one rank
// gathers, what every rank is sent, and what a lead writes and looks at. Nothing of it may grow with the square of the
// ranks: eight times as many ranks of the same model may cost at most ten times as many bytes, and each piece of work
// at most two seconds at 8,192. Exit code 1 where a bar is missed.
//
//   rank_growth [--few 1024] [--many 8192] [--seconds 2]
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/system/clock.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "contracts/records/launch.h"
#include "engine/checkpoint/global/checkpoint_share.h"
#include "engine/checkpoint/local/local_plan.h"
#include "resiliency/detect/hang/hang_detector.h"
#include "worker/lead/failover/lead_state.h"

namespace longhaul {
namespace {

constexpr double bytes_bar = 10;  // for eight times the ranks

struct Cost {
  double bytes = 0, seconds = 0;
};
struct Row {
  const char* name;
  std::function<Cost(int ranks)> cost;
};

double seconds_of(const std::function<void()>& work) {
  const SystemClock clock;
  const std::int64_t begun = clock.monotonic_ns();
  work();
  return static_cast<double>(clock.monotonic_ns() - begun) * 1e-9;
}

// A model of 70 billion weights: 723 tensors, masters and two moments of each.
CheckpointManifest head_of_70b() {
  CheckpointManifest head;
  head.step = 240;
  for (const char* suffix : {"", "#exp_avg", "#exp_avg_sq"})
    for (int tensor = 0; tensor < 723; ++tensor)
      head.tensors.emplace_back(format("model.layers.{}.self_attn.q_proj.weight.{}{}", tensor / 9, tensor % 9, suffix),
                                std::vector<std::int64_t>{8192, 8192});
  return head;
}

// Eight ranks share the rows of each tensor; the tensors are divided in runs that need not end with a tensor.
std::vector<CheckpointEntry> entries_of(const CheckpointManifest& head, int owner, int ranks) {
  std::vector<CheckpointEntry> entries;
  const std::size_t tensors = head.tensors.size(), slice = static_cast<std::size_t>(owner / 8),
                    slices = static_cast<std::size_t>(ranks / 8);
  for (std::size_t i = tensors * slice / slices; i <= tensors * (slice + 1) / slices && i < tensors; ++i) {
    CheckpointEntry entry;
    entry.tensor = head.tensors[i].first;
    const std::int64_t rows = head.tensors[i].second[0] / 8;
    entry.box = {{rows * (owner % 8), 0}, {rows, head.tensors[i].second[1]}};
    entry.flat_end = rows * head.tensors[i].second[1];
    entry.file = format("shard-{:05d}-of-{:05d}.safetensors", owner + 1, ranks);
    entry.key = entry.tensor, entry.dtype = "F32", entry.xxh3 = 0x0123456789abcdef;
    entries.push_back(entry);
  }
  return entries;
}

CheckpointManifest part_of(const CheckpointManifest& head, int owner, int ranks) {
  CheckpointManifest part = head;
  part.entries = entries_of(head, owner, ranks);
  return part;
}

// Every rank makes two of its own, with the digest of a head of all tensors; here that is made once.
std::vector<std::string> offers_of(const CheckpointManifest& head, int ranks) {
  const std::string digest = offer_of(part_of(head, 0, ranks), "", 0, true).value().head;
  std::map<std::string, std::int64_t> places;
  for (std::size_t i = 0; i < head.tensors.size(); ++i)
    places.emplace(head.tensors[i].first, static_cast<std::int64_t>(i));
  const auto offered = [&](int owner, bool is_own) {
    ShareOffer offer;
    offer.owner = owner, offer.is_own = is_own, offer.save = "0123456789abcdef0123456789abcdef", offer.head = digest;
    for (const CheckpointEntry& entry : entries_of(head, owner, ranks))
      offer.entries.push_back(
          {places.at(entry.tensor), entry.box, entry.flat_begin, entry.flat_end, false, entry.xxh3});
    return offer;
  };
  std::vector<std::string> texts;
  for (int rank = 0; rank < ranks; ++rank)
    texts.push_back(offers_to_text({offered(rank, true), offered((rank + ranks / 2) % ranks, false)}));
  return texts;
}

SharePlan plan_of(const std::vector<std::string>& texts) {
  std::vector<ShareOffer> offers;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    std::vector<ShareOffer> of_rank = offers_from_text(texts[rank], static_cast<int>(rank)).value();
    for (ShareOffer& offer : of_rank) offers.push_back(std::move(offer));
  }
  return plan_shares(std::move(offers), static_cast<int>(texts.size()), 240);
}

double bytes_of(const std::vector<std::string>& texts) {
  double bytes = 0;
  for (const std::string& text : texts) bytes += static_cast<double>(text.size());
  return bytes;
}

// To the first rank, which makes the plan of a restart from copies.
Cost copies_offered(int ranks) {
  const std::vector<std::string> texts = offers_of(head_of_70b(), ranks);
  return {bytes_of(texts), seconds_of([&] { (void)plan_of(texts); })};
}

// To each rank, which reads it.
Cost copies_planned(int ranks) {
  const CheckpointManifest head = head_of_70b();
  const std::string plan = plan_to_text(plan_of(offers_of(head, ranks)));
  return {static_cast<double>(plan.size() + head_text(head).size()),
          seconds_of([&] { (void)plan_from_text(plan).ok(); })};
}

// A checkpoint's votes to the first rank, and the manifest that it makes of them.
Cost votes_of_a_save(int ranks) {
  CheckpointManifest manifest = head_of_70b();
  std::vector<std::string> votes;
  for (int rank = 0; rank < ranks; ++rank) votes.push_back(entries_to_text(entries_of(manifest, rank, ranks)));
  const double seconds = seconds_of([&] {
    for (const std::string& vote : votes) {
      std::vector<CheckpointEntry> entries = entries_from_text(vote).value();
      for (CheckpointEntry& entry : entries) manifest.entries.push_back(std::move(entry));
    }
    (void)to_json_pretty(checkpoint_to_value(manifest));
  });
  return {bytes_of(votes), seconds};
}

Launch launch_of(int ranks) {
  Launch launch;
  launch.ranks = ranks;
  for (int host = 0; host < ranks / 8; ++host) launch.hosts.push_back(format("node{:05d}", host));
  for (int rank = 0; rank < ranks; ++rank) launch.rank_host.push_back(rank / 8);
  return launch;
}

// launch.toml, which every rank reads.
Cost launch_file(int ranks) {
  const Launch launch = launch_of(ranks);
  std::string text;
  const double seconds = seconds_of([&] {
    text = to_json(launch_to_value(launch));
    const Value value = parse_json(text, "launch").value();
    (void)launch_from_value(value).ok();
  });
  return {static_cast<double>(text.size()), seconds};
}

// What a lead reports to its standby after each fault.
Cost standby_state(int ranks) {
  LeadState state;
  state.launch = launch_of(ranks);
  state.hosts = HostPool(state.launch.hosts, ranks / 8);
  std::string text;
  const double seconds = seconds_of([&] {
    text = to_json(lead_state_to_value(state, 0, 0));
    const Value value = parse_json(text, "state").value();
    (void)lead_state_from_value(value).ok();
  });
  return {static_cast<double>(text.size()), seconds};
}

// One look of the lead at ranks that all stand still, who waits for whom; bytes: of the pages.
Cost look_at_pages(int ranks) {
  std::vector<RankObservation> seen(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    RankObservation& one = seen[static_cast<std::size_t>(rank)];
    one.rank = rank, one.host = format("node{:05d}", rank / 8), one.seen = true;
    one.process = ProcessState::running;
    one.beat.rank = rank, one.beat.step = 7, one.beat.section = "micro_batch";
    for (const int group : {rank / 8, rank % 1024, 0}) one.beat.communicators.push_back({format("c@{}", group), 9, 9});
  }
  HangDetector detector({});
  detector.new_launch(0);
  (void)detector.observe(100, seen);
  const double seconds = seconds_of([&] { (void)detector.observe(3'100, seen); });
  return {static_cast<double>(ranks) * sizeof(BeatPageLayout), seconds};
}

int run(int few, int many, double seconds_bar) {
  const std::vector<Row> rows = {
      {"copies: offered to the first rank", copies_offered},
      {"copies: the plan to each rank", copies_planned},
      {"save: votes to the first rank", votes_of_a_save},
      {"launch.toml", launch_file},
      {"state to the standby", standby_state},
      {"a look at all pages", look_at_pages},
  };
  std::printf("%-36s %14s %14s %7s %12s %12s\n", "", format("{} ranks", few).c_str(), format("{} ranks", many).c_str(),
              "times", "s", "s");
  bool met = true;
  for (const Row& row : rows) {
    const Cost before = row.cost(few), after = row.cost(many);
    const double times = after.bytes / before.bytes, ranks_times = static_cast<double>(many) / few;
    const bool good = times <= bytes_bar * ranks_times / 8 && after.seconds <= seconds_bar;
    std::printf("%-36s %12.0f B %12.0f B %7.2f %12.4f %12.4f   %s\n", row.name, before.bytes, after.bytes, times,
                before.seconds, after.seconds, good ? "met" : "MISSED");
    met &= good;
  }
  std::printf("bars: bytes at most %g times for eight times the ranks, %g s for each\n", bytes_bar, seconds_bar);
  return met ? 0 : 1;
}

}  // namespace
}  // namespace longhaul

int main(int argc, char** argv) {
  int few = 1024, many = 8192;
  double seconds = 2;  // of a piece of work
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--few") few = std::atoi(argv[i + 1]);
    if (option == "--many") many = std::atoi(argv[i + 1]);
    if (option == "--seconds") seconds = std::atof(argv[i + 1]);
  }
  if (argc % 2 == 0 || few < 8 || many <= few || few % 8 != 0 || many % 8 != 0) {
    std::fprintf(stderr, "rank_growth [--few N] [--many N] [--seconds S]: multiples of 8\n");
    return 2;
  }
  return longhaul::run(few, many, seconds);
}
