// Where a site removes files that nobody uses: what `status` says of a run.
#include "orchestrator/runs/purge.h"

#include <doctest/doctest.h>
#include <utime.h>

#include "base/files/files.h"
#include "base/system/clock.h"
#include "base/text/text.h"
#include "orchestrator/runs/saved_state.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

// A file of a run that was last read or written so many days ago.
void leave(const std::string& path, std::int64_t now_ms, int days) {
  REQUIRE(make_directories(parent_path(path)).ok());
  REQUIRE(write_file_atomic(path, "{}").ok());
  const utimbuf then{now_ms / 1000 - days * 86'400, now_ms / 1000 - days * 86'400};
  REQUIRE(::utime(path.c_str(), &then) == 0);
}

}  // namespace

TEST_CASE("purge: status says what goes next, once it has lain unused for half of the time") {
  const testing::Scratch scratch;
  const auto run_at = [&](const std::string& name, const std::string& paths) {
    REQUIRE(make_directories(scratch.file(name)).ok());
    REQUIRE(write_file_atomic(scratch.file(name + "/site.toml"), "name = \"made-up\"\n[paths]\n" + paths).ok());
    return scratch.file(name);
  };
  const std::string run = run_at("run", "scratch_purge = \"14d\"\n");
  RunStatus status;
  status.stages.resize(2);
  status.stages[0].id = "pretrain", status.stages[1].id = "evaluate";
  const std::int64_t now_ms = SystemClock().wall_ms();
  const auto note = [&] { return purge_note(run, status, now_ms); };
  const std::string rule = "files here that nobody uses for 14d 00h are removed by the site (paths.scratch_purge): ";
  CHECK(note() == rule + "copy in time what is to stay");
  const std::string checkpoints = checkpoints_folder(run, "pretrain");
  leave(checkpoints + "/step-00000010/checkpoint.json", now_ms, 30);  // not the newest
  leave(checkpoints + "/step-00000020/checkpoint.json", now_ms, 6);
  CHECK(note() == rule + "copy in time what is to stay");
  leave(checkpoints + "/step-00000020/checkpoint.json", now_ms, 8);
  CHECK(note() == rule +
                      "the newest checkpoint of stage.pretrain (step 20) has lain unused for 8d 00h, and may go in 6d "
                      "00h; copy what is to stay, or let the run go on");
  leave(run + "/stages/evaluate/out/manifest.json", now_ms, 20);
  CHECK(note() == rule + "what stage.evaluate has made has lain unused for 20d 00h, and may be gone");
  CHECK(purge_note(run_at("kept", ""), status, now_ms).empty());
  CHECK(purge_rule_text(14 * 86'400).find("for 14d 00h are removed at this site (paths.scratch_purge)") !=
        std::string::npos);
}

}  // namespace longhaul
