// What every backend of Communicator promises, as checks that any test program can run on its ranks. A check returns
// what is wrong, in words; nothing means it holds. Each runs on all ranks at once, in an epoch of its own.
#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/digest/philox.h"
#include "base/text/text.h"
#include "engine/comm/communicator.h"
#include "engine/comm/tree_sum.h"
#include "resiliency/beat/heartbeat_page.h"
#include "tests/support/patience.h"
#include "tests/support/scratch.h"

namespace longhaul::comm_contract {

using Failures = std::vector<std::string>;

struct Rank {
  int rank = 0, size = 1;
  std::function<Result<std::unique_ptr<Communicator>>(std::uint64_t epoch, const CommOptions&)> make;
  std::uint64_t next_epoch = 1;

  std::unique_ptr<Communicator> communicator(std::int64_t timeout_ms = 20'000, const std::atomic<bool>* abort = nullptr,
                                             HeartbeatPage* beat = nullptr, const Clock* clock = nullptr) {
    static const SystemClock system;
    CommOptions options;
    options.clock = clock ? clock : &system;
    options.timeout_ms = timeout_ms;
    options.abort = abort;
    options.beat = beat;
    return std::move(make(next_epoch++, options)).value();
  }
};

inline void expect(Failures& failures, bool holds, const std::string& what) {
  if (!holds) failures.push_back(what);
}
inline void expect_ok(Failures& failures, const Status& status, const std::string& what) {
  if (!status) failures.push_back(what + ": " + status.error().message());
}

// Values of unlike size, so that another order of summing gives other bits.
inline std::vector<float> term(int rank, std::size_t n, std::uint64_t seed) {
  std::vector<float> values;
  const Philox philox{seed, static_cast<std::uint64_t>(rank)};
  for (std::size_t i = 0; i < n; ++i) {
    values.push_back(static_cast<float>(philox.normal(i) * std::pow(10.0, static_cast<double>(i % 7) - 3.0)));
  }
  return values;
}
inline std::vector<float> expected_sum(int size, std::size_t n, std::uint64_t seed) {
  std::vector<std::vector<float>> terms;
  std::vector<const float*> pointers;
  for (int r = 0; r < size; ++r) terms.push_back(term(r, n, seed));
  for (const auto& t : terms) pointers.push_back(t.data());
  std::vector<float> total(n);
  tree_sum(pointers, total);
  return total;
}

// Sums of small and big arrays, bit for bit the tree sum. `plant` spoils one element of rank 1's share: the check must
// say so.
inline Failures check_sums(Rank& me, bool plant = false) {
  Failures failures;
  const auto comm = me.communicator();
  for (std::size_t n : {std::size_t{1}, std::size_t{17}, std::size_t{20'003}}) {
    std::vector<float> data = term(me.rank, n, n);
    if (plant && me.rank == 1 % me.size) data[n / 2] += 1.0F;
    expect_ok(failures, comm->wait(comm->all_reduce_sum(data)), "all_reduce_sum");
    expect(failures, data == expected_sum(me.size, n, n), format("all_reduce_sum of {} is not the tree sum", n));
    data = term(me.rank, n, n);
    expect_ok(failures, comm->wait(comm->all_reduce_max(data)), "all_reduce_max");
    std::vector<float> largest = term(0, n, n);
    for (int r = 1; r < me.size; ++r) {
      const auto other = term(r, n, n);
      for (std::size_t i = 0; i < n; ++i) largest[i] = std::max(largest[i], other[i]);
    }
    expect(failures, data == largest, format("all_reduce_max of {}", n));
    const auto rows = static_cast<std::size_t>(me.size);
    std::vector<float> wide = term(me.rank, n * rows, n + 1), row(n);
    expect_ok(failures, comm->wait(comm->reduce_scatter_sum(wide, row)), "reduce_scatter_sum");
    const auto total = expected_sum(me.size, n * rows, n + 1);
    expect(failures, std::memcmp(row.data(), total.data() + n * static_cast<std::size_t>(me.rank), n * 4) == 0,
           format("reduce_scatter_sum of {}", n));
  }
  return failures;
}

inline Failures check_moves(Rank& me) {
  Failures failures;
  const auto comm = me.communicator();
  const auto size = static_cast<std::size_t>(me.size), own = static_cast<std::size_t>(me.rank);
  for (std::size_t n : {std::size_t{1}, std::size_t{300}, std::size_t{70'001}}) {
    const auto value = [n](std::size_t from, std::size_t to, std::size_t i) {
      return static_cast<std::int32_t>(from * 1'000'003 + to * 1'009 + i * 7 + n);
    };
    std::vector<std::int32_t> in(n * size), out(n * size), gathered(n * size), news(n);
    for (std::size_t to = 0; to < size; ++to) {
      for (std::size_t i = 0; i < n; ++i) in[to * n + i] = value(own, to, i);
    }
    expect_ok(failures,
              comm->wait(comm->all_to_all(std::as_bytes(std::span(in)), std::as_writable_bytes(std::span(out)))),
              "all_to_all");
    expect_ok(failures,
              comm->wait(
                  comm->all_gather(std::as_bytes(std::span(in).first(n)), std::as_writable_bytes(std::span(gathered)))),
              "all_gather");
    bool moved = true, all = true;
    for (std::size_t from = 0; from < size; ++from) {
      for (std::size_t i = 0; i < n; ++i) {
        moved = moved && out[from * n + i] == value(from, own, i);
        all = all && gathered[from * n + i] == value(from, 0, i);
      }
    }
    expect(failures, moved, format("all_to_all of {}", n));
    expect(failures, all, format("all_gather of {}", n));
    const int root = me.size - 1;
    for (std::size_t i = 0; i < n; ++i) news[i] = me.rank == root ? value(9, 9, i) : -1;
    expect_ok(failures, comm->wait(comm->broadcast(std::as_writable_bytes(std::span(news)), root)), "broadcast");
    bool same = true;
    for (std::size_t i = 0; i < n; ++i) same = same && news[i] == value(9, 9, i);
    expect(failures, same, format("broadcast of {}", n));
  }
  expect_ok(failures, comm->wait(comm->barrier()), "barrier");
  expect(failures, comm->counters().enqueued == 10 && comm->counters().completed == 10,
         format("counters: {} enqueued, {} completed, 10 expected", comm->counters().enqueued.load(),
                comm->counters().completed.load()));
  return failures;
}

// Rows of every size from none to many; then one rank that sends less than the other expects: an error, no hang.
inline Failures check_unlike_rows(Rank& me) {
  Failures failures;
  const auto comm = me.communicator();
  const auto size = static_cast<std::size_t>(me.size), own = static_cast<std::size_t>(me.rank);
  for (const std::size_t unit : {std::size_t{0}, std::size_t{1}, std::size_t{5'003}}) {
    const auto count = [unit](std::size_t from, std::size_t to) { return (3 * from + 2 * to) % 5 * unit; };
    const auto value = [](std::size_t from, std::size_t to, std::size_t i) {
      return static_cast<std::int32_t>(from * 1'000'003 + to * 1'009 + i * 7);
    };
    std::vector<std::int32_t> in, want;
    std::vector<std::size_t> in_bytes, out_bytes;
    for (std::size_t other = 0; other < size; ++other) {
      for (std::size_t i = 0; i < count(own, other); ++i) in.push_back(value(own, other, i));
      for (std::size_t i = 0; i < count(other, own); ++i) want.push_back(value(other, own, i));
      in_bytes.push_back(count(own, other) * sizeof(std::int32_t));
      out_bytes.push_back(count(other, own) * sizeof(std::int32_t));
    }
    std::vector<std::int32_t> out(want.size(), -1);
    expect_ok(failures,
              comm->wait(comm->all_to_all_v(std::as_bytes(std::span(in)), in_bytes,
                                            std::as_writable_bytes(std::span(out)), out_bytes)),
              "all_to_all_v");
    expect(failures, out == want, format("all_to_all_v of units of {}", unit));
  }
  if (me.size == 1) return failures;
  std::vector<std::byte> in(size * 4), out(size * 4);
  std::vector<std::size_t> in_bytes(size, 4), out_bytes(size, 4);
  if (me.rank == 0) in_bytes[1] = 3, in.resize(in.size() - 1);
  const Status wrong = comm->wait(comm->all_to_all_v(in, in_bytes, out, out_bytes), 2'000);
  if (me.rank == 1) expect(failures, !wrong.ok(), "3 bytes came where 4 were expected, and nobody said so");
  return failures;
}

// A ring of messages in order, two tags, and several operations in flight at once.
inline Failures check_messages(Rank& me) {
  Failures failures;
  const auto comm = me.communicator();
  const int next = (me.rank + 1) % me.size, previous = (me.rank + me.size - 1) % me.size;
  if (me.size > 1) {
    std::vector<float> first(1000, static_cast<float>(me.rank)), second(3, static_cast<float>(me.rank) + 0.5F);
    std::vector<float> got_first(1000), got_second(3);
    Request r2 = comm->recv(std::as_writable_bytes(std::span(got_second)), previous, 9);
    Request r1 = comm->recv(std::as_writable_bytes(std::span(got_first)), previous, 4);
    Request s1 = comm->send(std::as_bytes(std::span(first)), next, 4);
    Request s2 = comm->send(std::as_bytes(std::span(second)), next, 9);
    expect_ok(failures, comm->wait(std::move(r1)), "recv 4");
    expect_ok(failures, comm->wait(std::move(r2)), "recv 9");
    expect_ok(failures, comm->wait(std::move(s1)), "send 4");
    expect_ok(failures, comm->wait(std::move(s2)), "send 9");
    expect(failures, got_first[999] == static_cast<float>(previous), "message of tag 4");
    expect(failures, got_second[2] == static_cast<float>(previous) + 0.5F, "message of tag 9");
  }
  if (me.size > 1) {  // of one tag, in the order in which they were asked for, whichever is looked at first
    std::vector<float> early(500), late(500), given(1000);
    for (std::size_t i = 0; i < given.size(); ++i) given[i] = static_cast<float>(i) + static_cast<float>(me.rank) / 8;
    std::vector<float> want = given;
    for (float& value : want) value += static_cast<float>(previous - me.rank) / 8;
    Request r1 = comm->recv(std::as_writable_bytes(std::span(early)), previous, 5);
    Request r2 = comm->recv(std::as_writable_bytes(std::span(late)), previous, 5);
    Request s1 = comm->send(std::as_bytes(std::span(given).first(500)), next, 5);
    Request s2 = comm->send(std::as_bytes(std::span(given).last(500)), next, 5);
    expect_ok(failures, comm->wait(std::move(r2)), "the later recv 5");
    expect(failures, std::equal(late.begin(), late.end(), want.begin() + 500), "the later message of tag 5");
    expect_ok(failures, comm->wait(std::move(r1)), "the earlier recv 5");
    expect(failures, std::equal(early.begin(), early.end(), want.begin()), "the earlier message of tag 5");
    expect_ok(failures, comm->wait(std::move(s1)), "send 5");
    expect_ok(failures, comm->wait(std::move(s2)), "send 5");
  }
  std::vector<std::vector<float>> data;
  std::vector<Request> requests;
  for (std::uint64_t i = 0; i < 8; ++i) data.push_back(term(me.rank, 5'000, i));
  for (auto& d : data) requests.push_back(comm->all_reduce_sum(d));
  for (std::size_t i = 8; i-- > 0;) {  // waited for in another order than started
    expect_ok(failures, comm->wait(std::move(requests[i])), "one of eight in flight");
    expect(failures, data[i] == expected_sum(me.size, 5'000, i), format("sum {} of eight in flight", i));
  }
  return failures;
}

// Halves of the world and pairs across them work apart, without a message to make them.
// Rows that go round, each turn a tag's next exchange, several under way at once; empty ones too.
inline Failures check_exchanges(Rank& me) {
  Failures failures;
  if (me.size < 2) return failures;
  const auto comm = me.communicator();
  const auto value = [](int from, int to) { return static_cast<float>(100 * from + to); };
  std::vector<std::vector<float>> given, taken;
  std::vector<Request> requests;
  for (int turn = 1; turn < me.size; ++turn) {
    const int to = (me.rank + turn) % me.size, from = (me.rank - turn + me.size) % me.size;
    const auto n = static_cast<std::size_t>(turn % 3 == 2 ? 0 : 1000 * turn);
    given.emplace_back(n, value(me.rank, to)), taken.emplace_back(n, -1.0F);
    requests.push_back(comm->exchange(std::as_bytes(std::span<const float>(given.back())), to,
                                      std::as_writable_bytes(std::span(taken.back())), from, 6));
  }
  for (int turn = 1; turn < me.size; ++turn) {
    const auto i = static_cast<std::size_t>(turn - 1);
    expect_ok(failures, comm->wait(std::move(requests[i])), "an exchange");
    const int from = (me.rank - turn + me.size) % me.size;
    expect(failures, taken[i] == std::vector<float>(given[i].size(), value(from, me.rank)), "what an exchange brought");
  }
  return failures;
}

inline Failures check_subgroups(Rank& me) {
  Failures failures;
  const auto world = me.communicator();
  const auto sum_over = [&](int axis, const std::vector<int>& ranks, const char* name) {
    const auto comm = world->subgroup(axis, name, ranks);
    std::vector<float> data = {static_cast<float>(1 << me.rank)};
    expect_ok(failures, comm->wait(comm->all_reduce_sum(data)), name);
    int want = 0;
    for (int r : ranks) want += 1 << r;
    expect(failures, data[0] == static_cast<float>(want), format("sum over {}: {} instead of {}", name, data[0], want));
    expect(failures, ranks[static_cast<std::size_t>(comm->rank())] == me.rank, format("rank within {}", name));
  };
  std::vector<int> alike, backwards;
  for (int r = me.rank % 2; r < me.size; r += 2) alike.push_back(r);
  for (int r = me.size - 1; r >= 0; --r) backwards.push_back(r);
  sum_over(1, alike, "ranks of my parity");
  sum_over(2, backwards, "the world backwards");
  sum_over(1, alike, "ranks of my parity, again");
  expect_ok(failures, world->wait(world->barrier()), "barrier");
  sum_over(0, alike, "ranks of my parity, in the world's place");  // last: nothing is started in the world any more
  return failures;
}

// The gradients of 8 micro-batches, on 1, 2, 4, ... ranks: the same bits.
inline Failures check_regrouping(Rank& me) {
  Failures failures;
  const auto comm = me.communicator();
  constexpr int micro_batches = 8;
  if (micro_batches % me.size != 0) return failures;
  const int local = micro_batches / me.size;
  TreeAccumulator accumulator(3'001);
  for (int i = 0; i < local; ++i) accumulator.add(term(me.rank * local + i, 3'001, 77));
  std::vector<float> sum(3'001);
  accumulator.finish(sum);
  expect_ok(failures, comm->wait(comm->all_reduce_sum(sum)), "all_reduce_sum");
  expect(failures, sum == expected_sum(micro_batches, 3'001, 77), "regrouped micro-batches give other bits");
  return failures;
}

// The last rank does not come: the others learn it in time, with its name, and all go on in the next epoch.
inline Failures check_missing_rank(Rank& me) {
  Failures failures;
  if (me.size == 1) return failures;
  const SystemClock clock;
  const auto comm = me.communicator();
  std::vector<float> data(50'000, 1.0F);
  if (me.rank != me.size - 1) {
    const std::int64_t begin = clock.monotonic_ns();
    const Status status = comm->wait(comm->all_reduce_sum(data), 150 + 1 * me.rank);
    const std::int64_t ms = (clock.monotonic_ns() - begin) / 1'000'000;
    expect(failures, !status.ok(), "a collective without its last rank succeeded");
    expect(failures, ms < testing::patience_ms(5'000), format("it took {} ms to notice", ms));
    if (!status) {
      const std::string& what = status.error().what;
      const bool timed_out = status.error().code == ErrorCode::timeout;
      expect(failures, timed_out || status.error().code == ErrorCode::aborted, what);
      if (timed_out) {
        expect(failures, what.find(format("rank {}", me.size - 1)) != std::string::npos,
               "does not name the rank: " + what);
        expect(failures, what.find("all_reduce_sum number 0 of world") != std::string::npos,
               "does not name it: " + what);
      }
    }
    expect(failures, comm->broken(), "a communicator that timed out must be broken");
    const Status later = comm->wait(comm->barrier(), 5'000);
    expect(failures, !later.ok() && later.error().code == ErrorCode::aborted,
           "a broken communicator must refuse at once");
  } else {
    SystemClock().sleep_ms(600);
  }
  const auto fresh = me.communicator();
  data.assign(50'000, 1.0F);
  expect_ok(failures, fresh->wait(fresh->all_reduce_sum(data)), "the next epoch");
  expect(failures, data[49'999] == static_cast<float>(me.size), "the next epoch's sum");
  return failures;
}

// Every rank waits for something that never comes; its abort flag ends the wait long before the deadline.
inline Failures check_abort(Rank& me) {
  Failures failures;
  if (me.size == 1) return failures;
  const SystemClock clock;
  std::atomic<bool> abort{false};
  const auto comm = me.communicator(60'000, &abort);
  std::vector<float> never(4);
  Request request = comm->recv(std::as_writable_bytes(std::span(never)), (me.rank + 1) % me.size, 3);
  const std::int64_t begin = clock.monotonic_ns();
  bool ended = false;
  while (!ended && clock.monotonic_ns() - begin < 10'000'000'000) {
    if (clock.monotonic_ns() - begin > 30'000'000) abort = true;
    const Result<bool> done = comm->test(request);
    ended = !done.ok();
    if (ended) expect(failures, done.error().code == ErrorCode::aborted, done.error().what);
    if (!ended) sched_yield();
  }
  expect(failures, ended, "the abort flag did not end the wait");
  const auto fresh = me.communicator();
  expect_ok(failures, fresh->wait(fresh->barrier()), "barrier of the next epoch");
  return failures;
}

// Looks at the page whenever the communicator asks for the time, which it does while it waits.
class WatchingClock final : public Clock {
 public:
  explicit WatchingClock(const HeartbeatPage& page) : page_(page) {}
  std::int64_t wall_ms() const override { return system_.wall_ms(); }
  std::int64_t monotonic_ns() const override {
    if (const BeatSnapshot now = page_.snapshot(); now.waits_in >= 0 && now.polls > 0) seen = now;
    return system_.monotonic_ns();
  }
  void sleep_ms(std::int64_t ms) override { system_.sleep_ms(ms); }
  mutable std::optional<BeatSnapshot> seen;

 private:
  const HeartbeatPage& page_;
  SystemClock system_;
};

// What a page shows of a wait that lasts: in which group, for whose message, and that it is being polled.
inline Failures check_heartbeat(Rank& me) {
  Failures failures;
  const testing::Scratch folder;
  HeartbeatPage page = HeartbeatPage::create(folder.file("beat"), me.rank).value();
  WatchingClock clock(page);
  const auto world = me.communicator(20'000, nullptr, &page, &clock);
  std::vector<int> backwards;
  for (int r = me.size - 1; r >= 0; --r) backwards.push_back(r);
  const auto other = world->subgroup(2, "dp", backwards);
  // The first rank comes last; once more where another one was so late that it did not have to wait.
  std::uint64_t meetings = 0;
  const auto watch = [&](int waits_for, const std::function<Status()>& meet) {
    bool missed = true;
    for (int attempt = 0; missed && attempt < 20; ++attempt) {
      clock.seen.reset();
      if (me.rank == 0) SystemClock().sleep_ms(30 << std::min(attempt, 5));
      expect_ok(failures, meet(), "a wait that is watched");
      const std::optional<BeatSnapshot> seen = clock.seen;
      std::vector<float> somebody = {me.rank > 0 && !seen ? 1.0F : 0.0F};
      expect_ok(failures, world->wait(world->all_reduce_max(somebody)), "all_reduce_max");
      missed = somebody[0] > 0;
      if (missed || me.rank == 0) continue;
      const std::string in = seen->communicators[static_cast<std::size_t>(seen->waits_in)].name;
      expect(failures, in == "dp@0" && seen->waits_for == waits_for,
             format("the page shows a wait in {} for {}; dp@0 for {} expected", in, seen->waits_for, waits_for));
    }
    expect(failures, !missed, "no wait was ever shown");
  };
  watch(-1, [&] { return ++meetings, other->wait(other->barrier()); });
  std::vector<std::byte> word(8);
  watch(0, [&]() -> Status {
    if (me.rank > 0) return other->wait(other->recv(word, me.size - 1, 1));
    for (int r = 1; r < me.size; ++r) LH_CHECK(other->wait(other->send(word, me.size - 1 - r, 1)));
    return {};
  });
  const BeatSnapshot after = page.snapshot();
  expect(failures, after.waits_in == beat_waits_nowhere, "a wait that is over is still shown");
  expect(failures, after.communicators.size() == 2 && after.communicators[0].name == "world", "names of groups");
  expect(failures, after.communicators[1].enqueued == meetings && after.communicators[1].completed == meetings,
         "collectives are counted, messages are not");
  const auto fresh = me.communicator(20'000, nullptr, &page, &clock);
  expect(failures, page.snapshot().communicators[0].enqueued == 0, "a new epoch counts from 0");
  return failures;
}

// An order to go on in a later epoch ends the waits of this one, at every rank; that epoch's own go on.
inline Failures check_newest_epoch(Rank& me) {
  Failures failures;
  if (me.size == 1) return failures;
  static const SystemClock clock;
  std::atomic<std::int64_t> newest{0};
  CommOptions options;
  options.clock = &clock;
  options.timeout_ms = 20'000;
  options.newest_epoch = &newest;
  const std::uint64_t epoch = me.next_epoch++;
  const auto comm = std::move(me.make(epoch, options)).value();
  newest = static_cast<std::int64_t>(epoch);
  std::vector<float> data(50'000, 1.0F), never(4);
  expect_ok(failures, comm->wait(comm->all_reduce_sum(data)), "given its own epoch");
  // The first rank does not come; the others stand in the collective when the order reaches them.
  const bool late = me.rank == 0;
  std::optional<Request> receive;
  if (late) receive = comm->recv(std::as_writable_bytes(std::span(never)), 1, 3);
  const std::int64_t begin = clock.monotonic_ns();
  std::thread order([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    newest = static_cast<std::int64_t>(epoch) + 1;
  });
  const Status left = late ? comm->wait(std::move(*receive)) : comm->wait(comm->all_reduce_sum(data));
  order.join();
  expect(failures, !left.ok() && left.error().code == ErrorCode::aborted, "a wait of an earlier epoch went on");
  expect(failures, clock.monotonic_ns() - begin < 10'000'000'000, "it took its deadline");
  for (int later = 0; later < 3; ++later) {
    const auto fresh = std::move(me.make(me.next_epoch++, options)).value();
    data.assign(50'000, 1.0F);
    newest = static_cast<std::int64_t>(me.next_epoch) - 1;
    expect_ok(failures, fresh->wait(fresh->all_reduce_sum(data)), "the epoch that was ordered");
    expect(failures, data[49'999] == static_cast<float>(me.size), "its sum");
  }
  return failures;
}

struct Check {
  const char* name;
  std::function<Failures(Rank&)> run;
};
inline std::vector<Check> checks() {
  return {{"sums", [](Rank& me) { return check_sums(me); }},
          {"moves", check_moves},
          {"unlike rows", check_unlike_rows},
          {"messages", check_messages},
          {"exchanges", check_exchanges},
          {"subgroups", check_subgroups},
          {"regrouping", check_regrouping},
          {"missing rank", check_missing_rank},
          {"abort", check_abort},
          {"heartbeat", check_heartbeat},
          {"newest epoch", check_newest_epoch}};
}

}  // namespace longhaul::comm_contract
