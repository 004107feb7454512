// `longhaul-worker health`: its arguments, and what it prints.
#include "worker/agent/health_command.h"

#include <doctest/doctest.h>

#include <cstdlib>

#include "base/files/files.h"
#include "tests/support/scratch.h"

namespace longhaul {

TEST_CASE("the words of the command become options; what is not known is refused by name") {
  const auto plain = parse_health_command({}, {{"A", "b"}});
  REQUIRE(plain.ok());
  CHECK(!plain->json);
  CHECK(plain->options.nvml_path == nvml_default_path);
  CHECK(plain->options.environment.size() == 1);
  CHECK(!plain->options.ours);
  const auto all = parse_health_command({"--json", "--nvml", "none", "--gpus", "8", "--folder", "/a", "--folder", "/b",
                                         "--idle", "--check", "/c", "--deadline", "3"},
                                        {});
  REQUIRE(all.ok());
  CHECK(all->json);
  CHECK(all->options.nvml_path == "");
  CHECK(all->options.gpus_expected == 8);
  CHECK(all->options.folders == std::vector<std::string>{"/a", "/b"});
  CHECK(all->options.ours);
  CHECK(all->options.site_check == std::vector<std::string>{"/c"});
  CHECK(all->options.file_system_deadline_ms == 3000);
  CHECK(all->options.site_check_deadline_ms == 3000);
  const auto watch = parse_health_command({"--watch", "0.5", "--measure", "--job-pids", "--check", "/c  --fast x",
                                           "--check-deadline", "9", "--deadline", "3"},
                                          {});
  REQUIRE(watch.ok());
  CHECK(watch->watch_s == 0.5);
  CHECK(watch->measure);
  CHECK(watch->job_pids);
  CHECK(!all->job_pids);
  CHECK(watch->options.site_check == std::vector<std::string>{"/c", "--fast", "x"});
  CHECK(watch->options.site_check_deadline_ms == 9000);  // its own, in whatever order
  CHECK(watch->options.file_system_deadline_ms == 3000);
  for (const std::vector<std::string>& wrong : std::vector<std::vector<std::string>>{{"--jsn"},
                                                                                     {"--nvml"},
                                                                                     {"--gpus", "many"},
                                                                                     {"--gpus", "-1"},
                                                                                     {"--deadline", ""},
                                                                                     {"x"},
                                                                                     {"--watch", "0"},
                                                                                     {"--watch", "nan"},
                                                                                     {"--check-deadline", "-2"}}) {
    const auto refused = parse_health_command(wrong, {});
    REQUIRE(!refused.ok());
    CHECK(refused.error().code == ErrorCode::invalid_input);
    CHECK(refused.error().hint.find("longhaul-worker health") != std::string::npos);
  }
}

TEST_CASE("findings are reported one a line with the remedy; warnings leave a host fit to work") {
  const HealthFinding lost = health_finding("gpu", FaultClass::gpu_lost, "GPU 3", "the driver has lost it");
  const HealthFinding low = health_finding("memory", FaultClass::memory_low, "", "1 GiB of 64 GiB are available");
  CHECK(health_text({}, "n1", 8) == "n1: fit to work, 8 GPUs, 0 findings\n");
  const std::string warned = health_text({low}, "n1", 8);
  CHECK(warned.find("warning: memory_low: 1 GiB of 64 GiB are available; ") == 0);
  CHECK(warned.find("n1: fit to work, 8 GPUs, 1 findings") != std::string::npos);
  const std::string bad = health_text({low, lost}, "n1", 7);
  CHECK(bad.find("error: gpu_lost: GPU 3: the driver has lost it; ") != std::string::npos);
  CHECK(bad.find("n1: not fit to work, 7 GPUs, 2 findings") != std::string::npos);
  const Value value = health_value({low, lost}, "n1", 7);
  CHECK(!value.get_bool("fit", true));
  CHECK(value.find("findings")->as_array().at(1).get_string("class") == "gpu_lost");
}

TEST_CASE("watching says what is new, a line for each look, until nobody reads") {
  HealthCommand command;
  command.options.nvml_path = command.options.shm_path = "";
  command.options.class_root = command.options.proc_root = "/nonexistent";
  command.options.folders = {"/nonexistent/folder"};
  command.watch_s = 0.1;
  ManualClock clock;
  std::vector<std::string> lines;
  // The clock stands still where nothing moves it: each line moves it past the next look.
  watch_health(command, clock, [&](const std::string& line) {
    lines.push_back(line);
    clock.advance_ms(200);
    return lines.size() < 3;
  });
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].find("file_system") != std::string::npos);
  CHECK(lines[1].find("file_system") == std::string::npos);
  CHECK(lines[1].find("\"look\":true") != std::string::npos);
  CHECK(lines[2].back() == '\n');
}

namespace {

// What one look of a watch that expects four GPUs says of those of the script.
std::string first_look_at(const std::string& gpus) {
  const testing::Scratch scratch;
  const std::string script = scratch.path() + "/gpus";
  REQUIRE(write_file_renamed(script, gpus).ok());
  ::setenv("FAKE_NVML_SCRIPT", script.c_str(), 1);
  auto command = parse_health_command(
      {"--watch", "0.1", "--gpus", "4", "--nvml", LONGHAUL_BINARY_DIR "/bin/liblonghaul_fake_nvml.so"}, {});
  REQUIRE(command.ok());
  command->options.shm_path = "";
  command->options.class_root = command->options.proc_root = "/nonexistent";
  ManualClock clock;
  std::string said;
  watch_health(*command, clock, [&](const std::string& line) { return said = line, false; });
  ::unsetenv("FAKE_NVML_SCRIPT");
  return said;
}

}  // namespace

TEST_CASE("watching a host of the job, a GPU that is missing from the start is found; hidden ones are not missed") {
  CHECK(first_look_at("at 0 devices 4\n").find("gpu_lost") == std::string::npos);
  CHECK(first_look_at("at 0 devices 3\n").find("3 of 4 GPUs are there") != std::string::npos);
  CHECK(first_look_at("at 0 devices 0\n").find("\"findings\":[]") != std::string::npos);
  CHECK(first_look_at("at 0 init_error 18\n").find("\"findings\":[]") != std::string::npos);
  CHECK(first_look_at("at 0 devices 4\n").find("\"gpus_watched\":4") != std::string::npos);
  CHECK(first_look_at("at 0 devices 3\n").find("\"gpus_watched\":4") != std::string::npos);  // it is looked for
  const std::string hidden = first_look_at("at 0 devices 0\n");
  CHECK(hidden.find("\"gpus_watched\":0") != std::string::npos);
  CHECK(hidden.find("\"gpus_hidden\":\"0 of 4 GPUs are there\"") != std::string::npos);
  CHECK(first_look_at("at 0 init_error 18\n").find("\"gpus_hidden\"") != std::string::npos);
}

}  // namespace longhaul
