// What containers see of a run without their user's doing.
#include "orchestrator/job/container_mounts.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include "base/files/files.h"
#include "base/text/text.h"
#include "orchestrator/job/job_plan.h"
#include "orchestrator/job/launcher_arguments.h"
#include "tests/support/scratch.h"

using namespace longhaul;

namespace {

using Words = std::vector<std::string>;

struct Folders {
  testing::Scratch scratch;
  std::string path(const std::string& name) const { return join_path(scratch.path(), name); }
  std::string made(const std::string& name) const {
    REQUIRE(make_directories(path(name)).ok());
    return path(name);
  }
};

JobPlan plan_with(const Words& mounts) {
  JobPlan plan;
  plan.container_image = "/images/x.sif";
  plan.container_mounts = mounts;
  return plan;
}

SiteConfig site_with(const std::string& runtime) {
  SiteConfig site;
  site.container.runtime = runtime;
  return site;
}

}  // namespace

TEST_CASE("container mounts: the run, its programs and its inputs, each once and none below another") {
  Folders f;
  const std::string run = f.made("runs/a"), data = f.made("data"), other = f.made("other/out");
  REQUIRE(write_file_atomic(f.path("data/one.jsonl"), "x").ok());
  REQUIRE(write_file_atomic(f.path("data/two.jsonl"), "x").ok());
  REQUIRE(::symlink(other.c_str(), f.path("runs/a/link").c_str()) == 0);
  const OwnFolders own{run,
                       f.made("runs/a/bin"),
                       f.path("no-artifacts-yet"),
                       {f.path("data/one.jsonl"), f.path("data/two.jsonl"), f.path("runs/a/link")}};
  const auto folders = folders_for_container(own);
  REQUIRE(folders.ok());
  CHECK(*folders == Words{f.path("data/one.jsonl"), f.path("data/two.jsonl"), other, run});
  OwnFolders many{run, {}, {}, {}};
  for (int i = 0; i < 20; ++i) {
    many.inputs.push_back(f.path(format("data/{}.jsonl", i)));
    REQUIRE(write_file_atomic(many.inputs.back(), "x").ok());
  }
  CHECK(folders_for_container(many).value() == Words{data, run});
}

TEST_CASE("container mounts: a folder that no mount can name is refused with its name") {
  Folders f;
  const std::string odd = f.made("runs,1");
  const auto folders = folders_for_container({odd, {}, {}, {}});
  REQUIRE(!folders.ok());
  CHECK(folders.error().what.find(odd) != std::string::npos);
}

TEST_CASE("container mounts: what the user shows at its own path is not mounted again") {
  const Words needed = {"/scratch/runs/a", "/data"};
  CHECK(not_mounted(needed, {"/scratch:/scratch"}) == Words{"/data"});
  CHECK(not_mounted(needed, {"/scratch:/scratch:rw", "/data"}).empty());
  CHECK(not_mounted(needed, {"/scratch:/elsewhere", "/dat:/dat"}) == needed);
}

TEST_CASE("container mounts: every runtime is given them in its own options") {
  Folders f;
  const std::string run = f.made("run");
  const OwnFolders own{run, {}, {}, {}};
  const std::string mount = run + ":" + run;
  const auto words = [&](const std::string& runtime) {
    JobPlan plan = plan_with({"/data:/data"});
    plan.gpus_per_node = 4;
    const Status done = mount_own_folders(plan, site_with(runtime), own);
    REQUIRE_MESSAGE(done.ok(), runtime);
    return plan.container;
  };
  CHECK(words("pyxis") == Words{"--container-image=/images/x.sif",
                                "--container-mounts=/data:/data," + mount + ",/dev/shm:/dev/shm",
                                "--container-workdir=@"});
  CHECK(words("apptainer") ==
        Words{"apptainer", "exec", "--nv", "--bind", "/data:/data", "--bind", mount, "/images/x.sif"});
  CHECK(words("singularity").front() == "singularity");
  CHECK(words("podman-hpc") == Words{"podman-hpc", "run", "--rm", "--env-host", "--net=host", "--ipc=host",
                                     "--pid=host", "--gpu", "--volume", "/data:/data", "--volume", mount, "--workdir=@",
                                     "/images/x.sif"});
  CHECK(words("shifter") ==
        Words{"shifter", "--image=/images/x.sif", "--module=gpu", "--volume=/data:/data;" + mount, "--workdir=@"});
  CHECK(words("cscs-edf").empty());  // its file says what is mounted
  JobPlan none;
  REQUIRE(mount_own_folders(none, site_with("pyxis"), own).ok());
  CHECK(none.container.empty());
}

TEST_CASE("container mounts: an environment file without ours is refused with the lines that it lacks") {
  Folders f;
  const std::string path = f.path("env.toml"), runs = "/scratch/me/runs";
  const auto judged = [&](const std::string& text) {
    REQUIRE(write_file_atomic(path, text).ok());
    return check_environment_file(path, {runs});
  };
  const Status lacks = judged("image = \"x\"\nmounts = [\"/data:/data\"]\n");
  REQUIRE(!lacks.ok());
  CHECK(lacks.error().hint.find("\"/scratch/me/runs:/scratch/me/runs\", \"/dev/shm:/dev/shm\"") != std::string::npos);
  CHECK(!judged("image = \"x\"\n").ok());
  CHECK(judged("mounts = [\"/scratch:/scratch\", \"/dev/shm:/dev/shm\"]\n").ok());
  CHECK(!judged("mounts = [\"/scratch:/s\", \"/dev/shm:/dev/shm\"]\n").ok());
  // What this process cannot know is left to the container engine.
  CHECK(judged("base_environment = \"other\"\n").ok());
  CHECK(judged("mounts = [\"${SCRATCH}:${SCRATCH}\"]\n").ok());
  CHECK(check_environment_file("a-name", {runs}).ok());
  CHECK(!judged("mounts = \"/scratch\"\n").ok());
  CHECK(!check_environment_file(f.path("absent.toml"), {runs}).ok());
}
