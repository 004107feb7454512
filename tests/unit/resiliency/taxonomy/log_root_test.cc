// Which of many ranks' failure lines gives the cause.
#include "resiliency/taxonomy/log_root.h"

#include <doctest/doctest.h>

#include <chrono>

#include "base/text/text.h"

namespace longhaul {
namespace {

LogTail tail_of(int rank, std::string_view text, std::int64_t ended_ms = 0) {
  return {rank, format("n{}", rank / 4), text, ended_ms};
}

}  // namespace

TEST_CASE("one rank's root wins over the cascades of all others, wherever it stands") {
  for (const int guilty : {0, 3, 7}) {
    CAPTURE(guilty);
    std::vector<LogTail> tails;
    for (int rank = 0; rank < 8; ++rank)
      tails.push_back(tail_of(rank, rank == guilty ? "step 9\nValueError: odd\n"
                                                   : "step 9\nNCCL WARN Connection closed by remote peer n0\n"));
    const auto root = root_of(tails);
    REQUIRE(root);
    CHECK(root->rank == guilty);
    CHECK(root->host == format("n{}", guilty / 4));
    CHECK(root->finding == LineFinding{FaultClass::exception, LineRole::root});
    CHECK(root->line == "ValueError: odd");
    CHECK(root->alike == 1);
    CHECK(root->ranks == 8);
    CHECK(!root->widespread);
  }
}

TEST_CASE("among roots the earliest by the lines' own times wins; a line without a time has that of the one above") {
  const char* early = "2026-03-02T04:11:09.100Z step\nCUDA error: an illegal memory access was encountered\n";
  const char* late = "[rank0]: 2026-03-02 04:11:09,200 RuntimeError: device-side assert triggered\n";
  const char* none = "ValueError: no time at all\n";
  CHECK(root_of({tail_of(0, late), tail_of(5, early), tail_of(6, none)})->rank == 5);
  CHECK(root_of({tail_of(0, none), tail_of(5, late)})->rank == 5);
  CHECK(root_of({tail_of(1, none), tail_of(0, none)})->rank == 0);
  // Without times in the lines, when the processes ended.
  CHECK(root_of({tail_of(0, none, 2000), tail_of(1, none, 1000)})->rank == 1);
}

TEST_CASE("within one log the first root counts, and it wins over what was said before it") {
  const auto root = root_of({tail_of(0,
                                     "Traceback (most recent call last):\nBroken pipe\nOSError: first\n"
                                     "During handling of the above exception\nKeyError: second\n")});
  REQUIRE(root);
  CHECK(root->line == "OSError: first");
}

TEST_CASE("a rank that aborts is a root, but where it has said before what was lost to it") {
  const char* aborts = "[n2:00164] *** Process received signal ***\n[n2:00164] Signal: Aborted (6)\n";
  const auto root = root_of({tail_of(0, "step 9\n"), tail_of(1, aborts)});
  REQUIRE(root);
  CHECK(root->rank == 1);
  CHECK(root->finding.fault == FaultClass::crash);
  CHECK(root->finding.role == LineRole::root);
  const std::string echo = std::string("Connection reset by peer\n") + aborts;
  CHECK(root_of({tail_of(0, "ValueError: odd\n"), tail_of(1, echo)})->rank == 0);
  CHECK(root_of({tail_of(1, echo)})->finding.role == LineRole::cascade);
}

TEST_CASE("echoes are better than nothing, and silence is nothing") {
  CHECK(root_of({tail_of(0, "MPI_ABORT was invoked"), tail_of(1, "Broken pipe")})->finding.role == LineRole::cascade);
  CHECK(root_of({tail_of(0, "MPI_ABORT was invoked")})->finding.role == LineRole::confirmation);
  CHECK(!root_of({tail_of(0, "step 1\n\n"), tail_of(1, "")}));
  CHECK(!root_of({}));
}

TEST_CASE("what most ranks on several hosts say is no rank's own fault") {
  std::vector<std::string> texts;
  for (int rank = 0; rank < 8; ++rank) texts.push_back(format("FileNotFoundError: /data/{}/x (rank {})\n", rank, rank));
  for (int rank = 5; rank < 8; ++rank) texts[static_cast<std::size_t>(rank)] = "ok\n";
  std::vector<LogTail> tails;
  for (int rank = 0; rank < 8; ++rank) tails.push_back(tail_of(rank, texts[static_cast<std::size_t>(rank)]));
  CHECK(root_of(tails)->alike == 5);
  CHECK(root_of(tails)->widespread);
  tails[4].text = "ok\n";  // half is not most
  CHECK(!root_of(tails)->widespread);
  for (LogTail& tail : tails) tail.text = texts[0], tail.host = "n0";  // one host may be it
  CHECK(!root_of(tails)->widespread);
}

TEST_CASE("times of lines") {
  CHECK(line_time_ms("1970-01-02T00:00:01.5Z x") == 86'401'000);  // a fraction of one digit is not read
  CHECK(line_time_ms("x 1970-01-02 00:00:01,250 y") == 86'401'250);
  CHECK(line_time_ms("2026-13-02T00:00:00Z") == 0);
  CHECK(line_time_ms("2026-03-0") == 0);
  CHECK(line_time_ms("2026-03-02T04:11:0") == 0);
  CHECK(line_time_ms("2026-03-02_04:11:09") == 0);
}

TEST_CASE("long lines and broken UTF-8 are made fit to write down") {
  const std::string text = "ValueError: \xff" + std::string(5000, 'x');
  const auto root = root_of({tail_of(0, text)});
  REQUIRE(root);
  CHECK(root->line.size() < 1000);
  CHECK(is_valid_utf8(root->line));
}

// The lead does this while a thousand GPUs stand still: 16 MiB of tails have to take well below a second.
TEST_CASE("4,096 tails of 4 KiB are read in a fraction of a second") {
  std::string healthy;
  while (healthy.size() < 4096)
    healthy += "2026-03-02T04:11:09.201Z info engine step=18250 loss=2.0412 grad_norm=0.71\n";
  std::vector<LogTail> tails;
  for (int rank = 0; rank < 4096; ++rank) tails.push_back(tail_of(rank, healthy));
  const std::string guilty = healthy + "ValueError: odd\n";
  tails[1234].text = guilty;
  const auto began = std::chrono::steady_clock::now();
  CHECK(root_of(tails)->rank == 1234);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  MESSAGE("root_of, 4,096 tails of 4 KiB: " << seconds << " s");
  CHECK(seconds < 60);  // a build with sanitizers takes 9 s; the figure stands in docs/resiliency.md
}

}  // namespace longhaul
