// main of the MPI tests: every rank runs every test case, rank 0 reports, and one failed rank fails the program. Other
// ranks keep their report to themselves and print it only when something failed there.
//
// A rank whose REQUIRE fails leaves its test case while the others wait in a collective; the watchdog ends such a hang
// and names the rank and the test case.  --deadline-s=N sets it (default 110).
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <mpi.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <sstream>
#include <thread>

namespace {

// Names of test cases are literals, so the pointer stays good.
std::atomic<const char*> current_case{"(before the first test case)"};

struct CaseWatcher final : doctest::IReporter {
  explicit CaseWatcher(const doctest::ContextOptions&) {}
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_start(const doctest::TestCaseData& data) override { current_case.store(data.m_name); }
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};

// Ends the process when it has not been destroyed in time.
class Watchdog {
 public:
  Watchdog(int rank, int seconds, const std::ostringstream& quiet_report)
      : thread_([this, rank, seconds, &quiet_report] {
          std::unique_lock lock(mutex_);
          if (done_changed_.wait_for(lock, std::chrono::seconds(seconds), [this] { return done_; })) return;
          std::fprintf(stderr, "rank %d: still in test case '%s' after %d s\n%s", rank, current_case.load(), seconds,
                       quiet_report.str().c_str());
          std::fflush(stderr);
          ::_exit(124);
        }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    done_changed_.notify_one();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable done_changed_;
  bool done_ = false;
  std::thread thread_;  // last: it uses the members above
};

int deadline_seconds(int argc, char** argv) {
  for (int i = 1; i < argc; ++i)
    if (std::strncmp(argv[i], "--deadline-s=", 13) == 0) return std::atoi(argv[i] + 13);
  return 110;
}

}  // namespace

DOCTEST_REGISTER_LISTENER("case_watcher", 0, CaseWatcher);

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);

  std::ostringstream quiet_report;
  int failed_ranks = 0;
  {
    const Watchdog watchdog(rank, deadline_seconds(argc, argv), quiet_report);
    doctest::Context context(argc, argv);
    context.setOption("no-intro", true);
    if (rank != 0) context.setCout(&quiet_report);
    const int failed = context.run() != 0 ? 1 : 0;
    current_case.store("(after the last test case: adding up the failures of all ranks)");
    MPI_Allreduce(&failed, &failed_ranks, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (failed != 0 && rank != 0) std::fprintf(stderr, "rank %d failed:\n%s\n", rank, quiet_report.str().c_str());
    if (rank == 0 && failed_ranks > 0) std::fprintf(stderr, "%d of %d ranks failed\n", failed_ranks, ranks);
  }
  MPI_Finalize();
  return failed_ranks > 0 ? 1 : 0;
}
