// Who may act upon a run: what is decided from owners and modes alone, and what is looked at for it.
#include "orchestrator/state/access/run_access.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/files.h"
#include "base/text/text.h"
#include "tests/support/scratch.h"

namespace longhaul {
namespace {

constexpr uid_t run_owner = 40001, run_stranger = 40002;
constexpr gid_t run_team = 50001, run_others = 50002;

// A run of this owner and group, as a usual umask leaves it.
std::vector<RunPart> parts_of(uid_t uid, gid_t gid, mode_t folder = 0755, mode_t file = 0644) {
  using Kind = RunPart::Kind;
  return {{"/runs/r", Kind::folder, Kind::folder, uid, gid, folder},
          {"/runs/r/log", Kind::folder, Kind::folder, uid, gid, folder},
          {"/runs/r/bin", Kind::folder, Kind::folder, uid, gid, folder},
          {"/runs/r/resolved.toml", Kind::file, Kind::file, uid, gid, file},
          {"/runs/r/site.toml", Kind::file, Kind::file, uid, gid, file}};
}

bool refused(const std::vector<RunPart>& parts, const Caller& caller, const std::string& says = {}) {
  const auto access = may_act("/runs/r", parts, caller);
  if (access.ok()) return false;
  CHECK(access.error().code == ErrorCode::invalid_input);
  CHECK(!access.error().hint.empty());
  CHECK_MESSAGE(access.error().message().find(says) != std::string::npos, access.error().message());
  return true;
}

}  // namespace

TEST_CASE("trust: one's own run is driven by its own programs, and each part of another's speaks against it") {
  CHECK(*may_act("/runs/r", parts_of(run_owner, run_others), {.uid = run_owner}) == RunAccess::own);
  CHECK(*may_act("/runs/r", parts_of(run_owner, run_team, 02770, 0660), {.uid = run_owner}) == RunAccess::own);
  CHECK(*may_act("/runs/r", parts_of(run_owner, run_others), {.uid = run_owner, .program_of_the_run = true}) ==
        RunAccess::own);
  CHECK(refused(parts_of(run_stranger, run_others), {.uid = run_owner}, "/runs/r is a folder of uid 40002"));
  for (std::size_t i = 0; i < 5; ++i) {
    auto parts = parts_of(run_owner, run_others);
    parts[i].uid = run_stranger;
    CHECK(refused(parts, {.uid = run_owner}, parts[i].path + " is a"));
    CHECK(refused(parts, {.uid = run_owner}, "mode 0"));
    parts = parts_of(run_owner, run_others);
    parts[i].mode |= 02;
    CHECK(refused(parts, {.uid = run_owner}, "chmod -R o-w /runs/r"));
    parts = parts_of(run_owner, run_others);
    parts[i].kind = RunPart::Kind::other;
    CHECK(refused(parts, {.uid = run_owner}, parts[i].path + " is a link"));
    parts = parts_of(run_owner, run_others);
    parts[i].kind = RunPart::Kind::absent;
    CHECK(may_act("/runs/r", parts, {.uid = run_owner}).ok());
  }
}

TEST_CASE(
    "trust: a group's run is acted upon where the installation names the group, never by the run's own programs") {
  const auto shared = parts_of(run_stranger, run_team, 02770, 0640);
  const Caller colleague{.uid = run_owner, .groups = {run_others, run_team}};
  CHECK(*may_act("/runs/r", shared, colleague) == RunAccess::of_group);
  CHECK(refused(shared, {.uid = run_owner, .groups = {run_others}}, "group = \"NAME\""));
  CHECK(
      refused(shared, {.uid = run_owner, .groups = {run_team}, .program_of_the_run = true}, "never driven by its own"));
  auto open = shared;
  open[2].mode |= 02;
  CHECK(refused(open, colleague, "/runs/r/bin is a folder"));
  auto mixed = shared;
  mixed[3].gid = 50003;
  CHECK(refused(mixed, colleague, "resolved.toml"));
  mixed[3].uid = run_owner;  // the caller's own among the group's
  CHECK(*may_act("/runs/r", mixed, colleague) == RunAccess::of_group);
}

TEST_CASE("trust: root acts upon its own runs only") {
  CHECK(*may_act("/runs/r", parts_of(0, 0), {.uid = 0}) == RunAccess::own);
  CHECK(refused(parts_of(run_owner, run_team), {.uid = 0, .groups = {run_team}}, "become its owner"));
  CHECK(refused(parts_of(0, 0), {.uid = run_owner}));  // nor anybody upon root's
}

TEST_CASE("trust: the parts of a run are looked at themselves, not what a link leads to") {
  const testing::Scratch scratch;
  const std::string run = scratch.file("r");
  CHECK(look_at_run_parts(run).error().code == ErrorCode::not_found);
  REQUIRE(make_directories(run + "/bin").ok());
  REQUIRE(write_file_atomic(run + "/resolved.toml", "").ok());
  REQUIRE(::symlink("/etc", (run + "/log").c_str()) == 0);
  const auto parts = look_at_run_parts(run);
  REQUIRE(parts.ok());
  REQUIRE(parts->size() == 5);
  CHECK((*parts)[0].uid == ::geteuid());
  CHECK((*parts)[1].kind == RunPart::Kind::other);
  CHECK((*parts)[2].kind == RunPart::Kind::folder);
  CHECK((*parts)[3].kind == RunPart::Kind::file);
  CHECK((*parts)[4].kind == RunPart::Kind::absent);
  const auto access = may_act(run, *parts, {.uid = ::geteuid()});
  REQUIRE(!access.ok());
  CHECK(access.error().what.find("/log is a link") != std::string::npos);
  CHECK(driving_programs(run, "") == run + "/bin");
  CHECK(driving_programs(run, "/opt/longhaul/bin") == "/opt/longhaul/bin");
}

}  // namespace longhaul
