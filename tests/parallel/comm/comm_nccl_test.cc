// The contract of Communicator on the NCCL backend: the code that a GPU runs, over a library that stands in for NCCL
// (tests/support/emulated_gpu/fake_nccl.cc) and emulated GPUs; ranks are threads.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "base/system/shared_library.h"
#include "engine/comm/nccl/nccl_communicator.h"
#include "engine/comm/nccl/nccl_meeting.h"
#include "engine/comm/threads_communicator.h"
#include "engine/core/tensor/tensor.h"
#include "engine/ops/cuda/common/tree_rows.h"
#include "engine/ops/cuda/loss/digest_kernels.h"
#include "tests/parallel/comm/comm_contract.h"
#include "tests/support/emulated_gpu/emulated_device.h"
#include "tests/support/emulated_gpu/on_device_communicator.h"

using namespace longhaul;
using namespace longhaul::comm_contract;

namespace {

const std::string fake_path = std::string(LONGHAUL_BINARY_DIR) + "/bin/liblonghaul_fake_nccl.so";

// Keeps the fake loaded, and makes a rank of it misbehave as long as this lives.
class Misbehaving {
 public:
  Misbehaving(const char* what, int rank) : what_(what) { set_rank(rank); }
  ~Misbehaving() { set_rank(-1); }
  Misbehaving(const Misbehaving&) = delete;
  Misbehaving& operator=(const Misbehaving&) = delete;

 private:
  void set_rank(int rank) const {
    static const SharedLibrary fake = SharedLibrary::open(std::span(&fake_path, 1)).value();
    void (*misbehave)(const char*, int) = nullptr;
    REQUIRE(fake.find("fake_nccl_misbehave", misbehave));
    misbehave(what_, rank);
  }
  const char* what_;
};

const NcclKernels kernels{cuda::tree_rows, cuda::write_word, cuda::digest_parts, cuda::digest_partials};

enum class DataOn { host, device };

struct Wanted {
  DataOn data = DataOn::device;
  NcclOptions options = {};
  Rendezvous* rendezvous = nullptr;  // null: one of its own
};

Failures run_on_nccl(int size, const std::function<Failures(Rank&, NcclRuntime&)>& check, Wanted wanted = {}) {
  wanted.options.library = fake_path;
  ThreadsRendezvous threads_rendezvous;
  Rendezvous& rendezvous = wanted.rendezvous != nullptr ? *wanted.rendezvous : threads_rendezvous;
  std::mutex mutex;
  Failures all;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      longhaul::testing::EmulatedDevice device;
      auto started = NcclRuntime::start(device, kernels, rendezvous, rank, size, wanted.options);
      Failures own;
      if (!started) {
        own.push_back(started.error().message());
      } else {
        NcclRuntime& runtime = **started;
        Rank me{rank, size, {}};
        me.make = [&](std::uint64_t epoch, const CommOptions& options) -> Result<std::unique_ptr<Communicator>> {
          LH_TRY(std::unique_ptr<Communicator> made, runtime.world(epoch, options));
          if (wanted.data == DataOn::host) return made;
          return longhaul::testing::make_on_device_communicator(device, std::move(made));
        };
        own = check(me, runtime);
      }
      const std::lock_guard lock(mutex);
      for (const std::string& f : own) all.push_back(format("rank {} of {}: {}", rank, size, f));
    });
  }
  for (std::thread& thread : threads) thread.join();
  return all;
}

void check_contract(std::initializer_list<int> sizes, const Wanted& wanted) {
  for (int size : sizes) {
    for (const Check& check : checks()) {
      const Failures failures = run_on_nccl(size, [&](Rank& me, NcclRuntime&) { return check.run(me); }, wanted);
      const std::string first = failures.empty() ? "" : failures[0];
      INFO(check.name, " on ", size, " ranks: ", first);
      CHECK(failures.empty());
    }
  }
}

// Whether one of the failures has this in it; prints them where none has.
bool has_failure(const Failures& failures, const std::string& what) {
  for (const std::string& failure : failures)
    if (failure.find(what) != std::string::npos) return true;
  for (const std::string& failure : failures) MESSAGE(failure);
  return false;
}

}  // namespace

TEST_CASE("nccl: the contract of Communicator holds for data on a device on 1, 2, 3, 4 and 8 ranks") {
  check_contract({1, 2, 3, 4, 8}, {});
}

TEST_CASE("nccl: the contract of Communicator holds for data of the host") {
  check_contract({1, 2, 3}, {DataOn::host, {}});
}

TEST_CASE("nccl: one wrong element of one rank turns the check of the sums red on every rank") {
  const Failures failures = run_on_nccl(4, [](Rank& me, NcclRuntime&) { return check_sums(me, true); });
  CHECK(failures.size() == 3 * 4);
}

TEST_CASE("nccl: its own sums are near those along the tree, and do not pretend to be them") {
  Wanted wanted;
  wanted.options.sums = NcclSums::fastest;
  const Failures failures = run_on_nccl(
      3,
      [](Rank& me, NcclRuntime&) {
        Failures out;
        const auto comm = me.communicator();
        const std::size_t n = 5'003;
        std::vector<float> data = term(me.rank, n, 5), wide = term(me.rank, 3 * n, 6), row(n);
        expect_ok(out, comm->wait(comm->all_reduce_sum(data)), "all_reduce_sum");
        expect_ok(out, comm->wait(comm->reduce_scatter_sum(wide, row)), "reduce_scatter_sum");
        const std::vector<float> sum = expected_sum(3, n, 5), wide_sum = expected_sum(3, 3 * n, 6);
        bool near = true;
        for (std::size_t i = 0; i < n; ++i) {
          const float want = wide_sum[n * static_cast<std::size_t>(me.rank) + i];
          near = near && std::abs(data[i] - sum[i]) <= 1e-3F + 1e-5F * std::abs(sum[i]) &&
                 std::abs(row[i] - want) <= 1e-3F + 1e-5F * std::abs(want);
        }
        expect(out, near, "the sums are not near");
        expect(out, data != sum, "the fake adds in the tree's order: it shows nothing");
        ContributionRecord record{ContributionChecksum::words, {}, {}, {}};
        const Status checked = comm->wait(comm->all_reduce_sum(data, &record));
        expect(out, !checked.ok() && checked.error().code == ErrorCode::unsupported, "a record of an unknown sum");
        return out;
      },
      wanted);
  CHECK_MESSAGE(failures.empty(), (failures.empty() ? "" : failures[0]));
}

TEST_CASE("nccl: what each rank gave to a sum is on record, as with the other backends") {
  for (const std::size_t n : {std::size_t{40}, std::size_t{20'003}}) {
    const Failures failures = run_on_nccl(3, [n](Rank& me, NcclRuntime&) {
      Failures out;
      const auto comm = me.communicator();
      std::vector<float> data = term(me.rank, n, 3);
      const auto given = [&](int rank) {
        const std::vector<float> values = term(rank, n, 3);
        return contribution_checksums(CollectiveKind::all_reduce_sum, std::as_bytes(std::span(values)), me.size,
                                      ContributionChecksum::words);
      };
      ContributionRecord record{ContributionChecksum::words, {}, {}, {}};
      expect_ok(out, comm->wait(comm->all_reduce_sum(data, &record)), "all_reduce_sum");
      expect(out, record.sent == given(me.rank), "what it took up");
      for (int r = 0; r < me.size; ++r)
        expect(out,
               record.received.size() == 3 &&
                   record.received[static_cast<std::size_t>(r)] == given(r)[static_cast<std::size_t>(me.rank)],
               format("what came from rank {}", r));
      return out;
    });
    CHECK_MESSAGE(failures.empty(), (failures.empty() ? "" : failures[0]));
  }
}

TEST_CASE(
    "nccl: a rank whose initialisation does not end, or that does not come, ends at a deadline, and the next epoch "
    "works") {
  for (const char* what : {"init", "hang"}) {
    std::atomic<int> met{0};
    std::atomic<bool> behaves{false};
    auto misbehaving = std::make_unique<Misbehaving>(what, 1);
    const Failures failures = run_on_nccl(3, [&](Rank& me, NcclRuntime&) {
      Failures out;
      {
        const auto comm = me.communicator();
        std::vector<float> data(100, 1.0F);
        const Status status = comm->wait(comm->all_reduce_sum(data), 300);
        expect(out, !status.ok() && status.error().code == ErrorCode::timeout, "it did not end at its deadline");
        if (!status.ok())
          expect(out,
                 status.error().what.find("all_reduce_sum number 0 of world (epoch 1) at rank") != std::string::npos,
                 status.error().what);
      }
      if (++met == 3) misbehaving.reset(), behaves = true;
      while (!behaves) sched_yield();
      const auto fresh = me.communicator();
      std::vector<float> data(100, 1.0F);
      expect_ok(out, fresh->wait(fresh->all_reduce_sum(data)), "the next epoch");
      expect(out, data[99] == 3.0F, "its sum");
      return out;
    });
    INFO(what);
    CHECK_MESSAGE(failures.empty(), (failures.empty() ? "" : failures[0]));
  }
}

TEST_CASE("nccl: an error of NCCL's own names the call, and what NCCL says of it") {
  const Misbehaving misbehaving("error", 0);
  const Failures failures = run_on_nccl(2, [](Rank& me, NcclRuntime&) {
    const auto comm = me.communicator(2'000);
    std::vector<float> data(100, 1.0F);
    const Status status = comm->wait(comm->all_reduce_sum(data));
    return Failures{status.ok() ? "nothing" : status.error().what};
  });
  CHECK(has_failure(failures, "remote process exited"));
  CHECK(has_failure(failures, "another rank is gone, says the fake"));
  CHECK(has_failure(failures, "all_reduce_sum number 0 of world (epoch 1) at rank 0 of 2: nccl"));
}

TEST_CASE("nccl: a communicator that cannot be aborted in time costs the process, and is waited for no longer") {
  const Misbehaving misbehaving("abort", 1);
  Wanted wanted;
  wanted.data = DataOn::host;  // what lies on the device may still be written
  wanted.options.leave_ms = 100;
  const Failures failures = run_on_nccl(
      2,
      [](Rank& me, NcclRuntime& runtime) {
        Failures out;
        const SystemClock clock;
        {
          const auto comm = me.communicator();
          std::vector<float> data(100, 1.0F);
          if (me.rank == 0) expect_ok(out, comm->wait(comm->barrier()), "the first barrier");
          if (me.rank == 0) return out;
          expect_ok(out, comm->wait(comm->barrier()), "the first barrier");
          const Status status = comm->wait(comm->all_reduce_sum(data), 200);
          expect(out, !status.ok(), "a sum without its other rank");
        }
        CommOptions options;
        options.clock = &clock;
        const auto next = runtime.world(2, options);
        expect(out, !next.ok() && next.error().code == ErrorCode::unavailable, "it goes on as if nothing were");
        if (!next.ok()) expect(out, next.error().what.find("within 100 ms") != std::string::npos, next.error().what);
        SystemClock().sleep_ms(1'500);  // until the abort has ended, as this process goes on
        return out;
      },
      wanted);
  CHECK_MESSAGE(failures.empty(), (failures.empty() ? "" : failures[0]));
}

TEST_CASE("nccl: the device counts what is completed on the heartbeat page before anyone looks") {
  const Failures failures = run_on_nccl(2, [](Rank& me, NcclRuntime& runtime) {
    Failures out;
    const longhaul::testing::Scratch folder;
    HeartbeatPage page = HeartbeatPage::create(folder.file("beat"), me.rank).value();
    const auto comm = me.communicator(20'000, nullptr, &page);
    expect_ok(out, comm->wait(comm->barrier()), "barrier");
    std::vector<float> one(10, 1.0F), two(10, 1.0F);
    Request first = comm->all_reduce_sum(one), second = comm->all_reduce_sum(two);
    // Only the second is looked at: the first is completed all the same.
    expect_ok(out, comm->wait(std::move(second)), "the second");
    const BeatSnapshot seen = page.snapshot();
    expect(out, seen.communicators[0].enqueued == 3 && seen.communicators[0].completed == 3,
           format("{} enqueued, {} completed", seen.communicators[0].enqueued, seen.communicators[0].completed));
    expect(out, comm->counters().completed == 2, "the rank has looked at two");
    expect_ok(out, comm->wait(std::move(first)), "the first");
    expect(out, page.snapshot().communicators[0].completed == 3, "counted twice");
    expect(out, runtime.counted_by_host().empty(), runtime.counted_by_host());
    return out;
  });
  CHECK_MESSAGE(failures.empty(), (failures.empty() ? "" : failures[0]));
}

TEST_CASE("nccl: staging memory is counted and used again") {
  std::array<MemoryAccount, 2> accounts;
  ThreadsRendezvous rendezvous;
  std::vector<std::thread> ranks;
  std::array<std::int64_t, 2> after_one{}, after_many{};
  for (int rank = 0; rank < 2; ++rank)
    ranks.emplace_back([&, rank] {
      const auto own = static_cast<std::size_t>(rank);
      longhaul::testing::EmulatedDevice device;
      NcclOptions options;
      options.library = fake_path;
      options.memory = &accounts[own];
      const auto runtime = NcclRuntime::start(device, kernels, rendezvous, rank, 2, options);
      if (!runtime) return;
      const SystemClock clock;
      CommOptions comm_options;
      comm_options.clock = &clock;
      const auto comm = std::move((*runtime)->world(1, comm_options)).value();
      std::vector<float> data(30'000, 1.0F);
      for (int i = 0; i < 20; ++i) {
        if (!comm->wait(comm->all_reduce_sum(data)).ok()) return;
        (i == 0 ? after_one : after_many)[own] = accounts[own].bytes_now;
      }
    });
  for (std::thread& rank : ranks) rank.join();
  for (std::size_t r = 0; r < 2; ++r) {
    CHECK(after_one[r] >= 3 * 120'000);  // on the device, its rows, and on the way
    CHECK(after_many[r] == after_one[r]);
    CHECK(accounts[r].bytes_now == 0);
  }
}

TEST_CASE("nccl: staging memory is what the largest operation needs, however many are under way") {
  std::array<MemoryAccount, 2> accounts;
  ThreadsRendezvous rendezvous;
  std::vector<std::thread> ranks;
  constexpr std::size_t many = 40, n = 30'000;
  std::array<std::int64_t, 2> bytes_more{-1, -1}, calls_more{-1, -1};
  for (int rank = 0; rank < 2; ++rank)
    ranks.emplace_back([&, rank] {
      const auto own = static_cast<std::size_t>(rank);
      longhaul::testing::EmulatedDevice device;
      NcclOptions options;
      options.library = fake_path;
      options.memory = &accounts[own];
      const auto runtime = NcclRuntime::start(device, kernels, rendezvous, rank, 2, options);
      if (!runtime) return;
      const SystemClock clock;
      CommOptions comm_options;
      comm_options.clock = &clock;
      const auto comm = std::move((*runtime)->world(1, comm_options)).value();
      auto* const data = reinterpret_cast<float*>(device.allocate(many * n * sizeof(float)).value());
      std::vector<ContributionRecord> records(many);
      const auto sum = [&](std::size_t i) {
        records[i].by = ContributionChecksum::words;
        return comm->all_reduce_sum(std::span(data + i * n, n), &records[i]);
      };
      if (!comm->wait(sum(0)).ok()) return;
      const std::int64_t bytes = accounts[own].bytes_now, calls = device.driver_allocations();
      std::vector<Request> requests;
      for (std::size_t i = 0; i < many; ++i) requests.push_back(sum(i));
      for (Request& request : requests)
        if (!comm->wait(std::move(request)).ok()) return;
      bytes_more[own] = accounts[own].bytes_now - bytes, calls_more[own] = device.driver_allocations() - calls;
    });
  for (std::thread& rank : ranks) rank.join();
  CHECK(bytes_more == std::array<std::int64_t, 2>{0, 0});
  CHECK(calls_more == std::array<std::int64_t, 2>{0, 0});
}

TEST_CASE("nccl: a library that is not there, is too old, or is none is refused with a remedy") {
  longhaul::testing::EmulatedDevice device;
  ThreadsRendezvous rendezvous;
  NcclOptions options;
  options.library = "/nowhere/libnccl.so.2";
  auto none = NcclRuntime::start(device, kernels, rendezvous, 0, 1, options);
  REQUIRE(!none.ok());
  CHECK(none.error().code == ErrorCode::not_found);
  CHECK(none.error().message().find("LD_LIBRARY_PATH") != std::string::npos);
  options.library = "libc.so.6";
  auto other = NcclRuntime::start(device, kernels, rendezvous, 0, 1, options);
  REQUIRE(!other.ok());
  CHECK(other.error().what == "libc.so.6 is no NCCL: it does not give its version");
  const Misbehaving old("old", 0);
  options.library = fake_path;
  auto refused = NcclRuntime::start(device, kernels, rendezvous, 0, 1, options);
  REQUIRE(!refused.ok());
  CHECK(refused.error().code == ErrorCode::unsupported);
  CHECK(refused.error().what.find("is version 2.13.4, 2.18.0 is needed") != std::string::npos);
}

namespace {

// As where entries are carried from host to host: the first look of a rank only asks for one.
class LateRendezvous final : public Rendezvous {
 public:
  Status put(const std::string& name, const std::string& value) override { return entries_.put(name, value); }
  Result<std::optional<std::string>> look(const std::string& name) override {
    const std::int64_t now = SystemClock().monotonic_ns();
    {
      const std::lock_guard lock(mutex_);
      if (now - asked_.try_emplace({std::this_thread::get_id(), name}, now).first->second < 30'000'000)
        return std::optional<std::string>();
    }
    return entries_.look(name);
  }
  std::int64_t travel_ms() const override { return 300; }

 private:
  ThreadsRendezvous entries_;
  std::mutex mutex_;
  std::map<std::pair<std::thread::id, std::string>, std::int64_t> asked_;
};

}  // namespace

TEST_CASE("nccl: where entries are on their way for a while, a rank that did not come is named, and no other") {
  LateRendezvous rendezvous;
  Wanted wanted;
  wanted.rendezvous = &rendezvous;
  const Failures failures = run_on_nccl(
      3,
      [](Rank& me, NcclRuntime&) {
        Failures out;
        if (me.rank == 2) return out;
        const auto comm = me.communicator(400);
        const Status waited = comm->wait(comm->barrier());
        expect(out, !waited.ok(), "the barrier is through without rank 2");
        if (!waited.ok())
          expect(out, waited.error().what.find("nothing from rank 2 within") != std::string::npos, waited.error().what);
        return out;
      },
      wanted);
  CHECK_MESSAGE(failures.empty(), (failures.empty() ? "" : failures[0]));
  LateRendezvous next;
  wanted.rendezvous = &next;
  CHECK(run_on_nccl(
            3,
            [](Rank& me, NcclRuntime&) {
              Failures out;
              const auto comm = me.communicator(20'000);
              expect_ok(out, comm->wait(comm->barrier()), "barrier");
              return out;
            },
            wanted)
            .empty());
}

TEST_CASE("nccl: entries at a rendezvous of files are whole, and put once") {
  const longhaul::testing::Scratch folder;
  FileRendezvous one(folder.file("store")), other(folder.file("store"));
  CHECK(!other.look("id").value().has_value());
  const std::string value("a\0b", 3);
  CHECK(one.put("id", value).ok());
  CHECK(other.look("id").value() == value);
  const Status again = other.put("id", "c");
  REQUIRE(!again.ok());
  CHECK(again.error().code == ErrorCode::conflict);
}

TEST_CASE("nccl: sums and largest values of any number of rows are those along the tree, bit for bit") {
  for (int rows = 1; rows <= 37; ++rows) {
    const std::size_t n = 19;
    std::vector<float> terms, out(n), sum(n), largest(n);
    for (int r = 0; r < rows; ++r)
      for (float value : term(r, n, 11)) terms.push_back(value);
    std::vector<const float*> pointers;
    for (int r = 0; r < rows; ++r) pointers.push_back(terms.data() + static_cast<std::size_t>(r) * n);
    tree_sum(pointers, sum);
    tree_max(pointers, largest);
    cuda::tree_rows(nullptr, false, rows, static_cast<std::int64_t>(n), terms.data(), out.data());
    CHECK_MESSAGE(out == sum, rows);
    cuda::tree_rows(nullptr, true, rows, static_cast<std::int64_t>(n), terms.data(), out.data());
    CHECK_MESSAGE(out == largest, rows);
  }
}

namespace {

// Counts how often it is looked at; shows what it was given at once.
class CountedRendezvous final : public Rendezvous {
 public:
  Status put(const std::string& name, const std::string& value) override {
    entries[name] = value;
    return {};
  }
  Result<std::optional<std::string>> look(const std::string& name) override {
    ++looks;
    const auto found = entries.find(name);
    return found == entries.end() ? std::optional<std::string>() : std::optional(found->second);
  }
  std::map<std::string, std::string> entries;
  int looks = 0;
};

}  // namespace

TEST_CASE("nccl meeting: a member says that it has come, and looks for the id ever less often until it is there") {
  CountedRendezvous rendezvous;
  ManualClock clock;
  NcclMeeting meeting(nullptr, rendezvous, clock, "group", 4, 2);
  for (int ms = 0; ms < 1000; ++ms, clock.advance_ms(1)) REQUIRE_FALSE(meeting.find_id().value().has_value());
  CHECK(rendezvous.entries == std::map<std::string, std::string>{{"group.rank2", "here"}});
  CHECK(rendezvous.looks > 20);
  CHECK(rendezvous.looks < 50);

  const ncclUniqueId id{"an id"};
  rendezvous.entries["group"] = std::string(id.internal, sizeof id.internal);
  clock.advance_ms(50);
  const std::optional<ncclUniqueId> found = meeting.find_id().value();
  REQUIRE(found.has_value());
  CHECK(std::string(found->internal) == "an id");
}

TEST_CASE("nccl meeting: an entry that is no id is an error that names it, and those without an entry have not come") {
  CountedRendezvous rendezvous;
  ManualClock clock;
  NcclMeeting meeting(nullptr, rendezvous, clock, "group", 4, 2);
  rendezvous.entries["group.rank3"] = "here";
  CHECK(meeting.not_come() == std::vector<int>{0, 1});
  rendezvous.entries["group"] = "short";
  const auto found = meeting.find_id();
  REQUIRE_FALSE(found.ok());
  CHECK(found.error().code == ErrorCode::corrupt);
  CHECK(found.error().what.find("the entry group has 5 bytes") != std::string::npos);
  CHECK(meeting.not_come() == std::vector<int>{1});
}
