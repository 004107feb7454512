// Rows that are gathered and summed piece by piece, on ranks that are threads, against the collectives.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <thread>

#include "base/digest/philox.h"
#include "base/system/clock.h"
#include "engine/comm/threads_communicator.h"
#include "engine/parallel/tensor/row_gather.h"
#include "engine/parallel/tensor/row_sum.h"

using namespace longhaul;

namespace {

void on_row_ranks(int ranks, const std::function<void(Communicator&)>& body) {
  const SystemClock clock;
  const ThreadsWorld world(ranks);
  CommOptions options;
  options.clock = &clock;
  options.timeout_ms = 20'000;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] { body(*world.communicator(rank, 1, options)); });
  for (std::thread& thread : threads) thread.join();
}

std::vector<float> addend_of_rank(int rank, std::size_t n) {
  std::vector<float> values;
  for (std::size_t i = 0; i < n; ++i)
    values.push_back(static_cast<float>(Philox{5, static_cast<std::uint64_t>(rank)}.normal(i)));
  return values;
}

}  // namespace

TEST_CASE("rows: a sum that is given piece by piece has the bits of one collective, cut in any way") {
  constexpr std::int64_t columns = 5;
  for (const int ranks : {2, 3, 4})
    for (const bool sequence : {false, true})
      for (const bool overlap : {false, true})
        for (const RowPieces sizes : {RowPieces{1, 1}, RowPieces{1, 3}, RowPieces{2, 100}}) {
          CAPTURE(ranks);
          CAPTURE(sequence);
          CAPTURE(overlap);
          const std::int64_t tokens = 7 * ranks;
          std::atomic<int> good{0};
          on_row_ranks(ranks, [&](Communicator& group) {
            const ComputeContext context(1);
            const auto size = static_cast<std::size_t>(tokens * columns);
            std::vector<float> want = addend_of_rank(group.rank(), size);
            if (!group.wait(group.all_reduce_sum(want)).ok()) return;
            const std::int64_t rows = sequence ? tokens / ranks : tokens, first = sequence ? group.rank() * rows : 0;
            const std::vector<float> addend = addend_of_rank(group.rank(), size);
            std::vector<float> partial(size, NAN), landing(size), out(static_cast<std::size_t>(rows * columns));
            RowSum sum(&group, sequence, 1, 20'000);
            bool right = true;
            for (int round = 0; round < 2; ++round) {
              const std::vector<RowRange> pieces = sum.pieces(tokens, sizes);
              std::vector<int> seen(static_cast<std::size_t>(tokens));
              sum.start(View(partial.data(), Shape{tokens, columns}), View(landing.data(), Shape{tokens, columns}),
                        tokens, columns, View(out.data(), Shape{rows, columns}), pieces, overlap);
              for (const RowRange& piece : pieces) {
                std::copy(addend.begin() + piece.begin * columns, addend.begin() + piece.end * columns,
                          partial.begin() + piece.begin * columns);
                for (std::int64_t row = piece.begin; row < piece.end; ++row) ++seen[static_cast<std::size_t>(row)];
                sum.give();
              }
              sum.finish(context);
              right &= sum.status().ok() && std::equal(out.begin(), out.end(), want.begin() + first * columns);
              right &= std::ranges::all_of(seen, [](int times) { return times == 1; });
              if (sequence) right &= pieces.back().end == first + rows;  // the own ones go nowhere
            }
            good += right;
          });
          CHECK(good == ranks);
        }
}

TEST_CASE("rows: those of every rank come, this one's first, then from the neighbour before") {
  constexpr std::int64_t rows = 3, columns = 4;
  for (const int ranks : {2, 3, 5})
    for (const bool overlap : {false, true}) {
      CAPTURE(ranks);
      CAPTURE(overlap);
      std::atomic<int> good{0};
      on_row_ranks(ranks, [&](Communicator& group) {
        const ComputeContext context(1);
        RowGather gather(&group, 2, 20'000), other(&group, 3, 20'000);
        bool right = true;
        for (int round = 0; round < 2; ++round) {
          const std::vector<float> own = addend_of_rank(group.rank() + 10 * round, rows * columns);
          std::vector<float> all(static_cast<std::size_t>(ranks * rows * columns), NAN), ahead(all);
          gather.start(context, ConstView(own.data(), Shape{rows, columns}), rows, columns, View(all), overlap);
          other.start(context, ConstView(own.data(), Shape{rows, columns}), rows, columns, View(ahead), overlap);
          for (int turn = 0; turn < ranks; ++turn) {
            gather.wait(turn);
            const int from = gather.rank_of(turn);
            right &= from == (group.rank() - turn + ranks) % ranks;
            const std::vector<float> want = addend_of_rank(from + 10 * round, rows * columns);
            right &= std::equal(want.begin(), want.end(), all.begin() + from * rows * columns);
          }
          gather.finish();
          other.finish();
          right &= gather.status().ok() && other.status().ok() && !gather.under_way() && all == ahead;
        }
        good += right;
      });
      CHECK(good == ranks);
    }
}

TEST_CASE("rows: a rank that leaves is an error of those that wait for it, and nothing more is done") {
  std::atomic<int> good{0};
  on_row_ranks(2, [&](Communicator& group) {
    const ComputeContext context(1);
    if (group.rank() == 1) {
      const Request dropped = group.recv({}, 0, 9);  // never sent: dropping it breaks the communicator
      ++good;
      return;
    }
    std::vector<float> partial(8, 1.0F), landing(8), out(4);
    RowSum sum(&group, true, 1, 20'000);
    sum.start(View(partial.data(), Shape{4, 2}), View(landing), 4, 2, View(out.data(), Shape{2, 2}),
              sum.pieces(4, {1, 1}), true);
    sum.give(), sum.give();
    sum.finish(context);
    RowGather gather(&group, 2, 20'000);
    std::vector<float> all(8);
    gather.start(context, ConstView(out.data(), Shape{2, 2}), 2, 2, View(all), true);
    gather.finish();
    good += !sum.status().ok() && !gather.status().ok();
  });
  CHECK(good == 2);
}
