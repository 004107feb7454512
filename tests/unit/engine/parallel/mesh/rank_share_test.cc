#include "engine/parallel/mesh/rank_share.h"

#include <doctest/doctest.h>

#include <thread>

#include "base/text/text.h"
#include "engine/comm/threads_communicator.h"
#include "engine/parallel/mesh/mesh.h"

namespace longhaul {
namespace {

// Calls `work` on so many ranks, which are threads.
template <class Work>
void on_ranks(int ranks, const Work& work) {
  const SystemClock clock;
  const ThreadsWorld world(ranks);
  CommOptions options;
  options.clock = &clock;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      ParallelDims dims;
      dims.dp_replicate = ranks;
      const auto communicator = world.communicator(rank, 1, options);
      const auto mesh = Mesh::create(dims, *communicator, 20'000);
      if (mesh.ok()) work(rank, (*mesh)->world());
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

TEST_CASE("rank share: every rank does its part and has all results, in the order of the list") {
  for (const std::size_t count : {0U, 1U, 2U, 3U, 8U}) {
    CAPTURE(count);
    std::vector<std::vector<std::string>> texts(3);
    std::vector<std::vector<double>> values(3);
    on_ranks(3, [&](int rank, CollectiveGroup& group) {
      const RankShare share(group, count);
      std::vector<std::string> made;
      std::vector<double> numbers;
      for (const std::size_t i : share.mine()) {
        made.push_back(std::string(i, '\0') + format("{}", i));
        numbers.push_back(static_cast<double>(i) / 3);
      }
      const auto at = static_cast<std::size_t>(rank);
      texts[at] = share.gather(made).value();
      values[at] = share.gather_values(Result<std::vector<double>>(numbers)).value();
    });
    for (const auto& all : texts) {
      REQUIRE(all.size() == count);
      for (std::size_t i = 0; i < count; ++i) CHECK(all[i] == std::string(i, '\0') + format("{}", i));
    }
    for (const auto& all : values) {
      REQUIRE(all.size() == count);
      for (std::size_t i = 0; i < count; ++i) CHECK(all[i] == static_cast<double>(i) / 3);
    }
  }
}

TEST_CASE("rank share: what one rank cannot do is an error of all") {
  std::vector<std::string> said(2);
  on_ranks(2, [&](int rank, CollectiveGroup& group) {
    const RankShare share(group, 2);
    Result<std::vector<std::string>> made = std::vector<std::string>{"x"};
    if (rank == 1) made = make_error(ErrorCode::invalid_input, "row 7 is broken");
    const auto all = share.gather(made);
    if (!all.ok()) said[static_cast<std::size_t>(rank)] = all.error().message();
  });
  for (const std::string& one : said) CHECK(one.find("row 7 is broken") != std::string::npos);
}

}  // namespace longhaul
