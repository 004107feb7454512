#include "engine/tasks/answers/program_tests.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <random>
#include <thread>

#include "base/process/program_trust.h"
#include "base/system/clock.h"
#include "base/text/text.h"
#include "engine/data/jinja/values/jinja_text.h"

namespace longhaul {
namespace {

constexpr std::int64_t look_ms = 50;

// What only a program that comes to its end prints: it is not known to the program.
std::string end_mark() {
  std::random_device random;
  std::string mark = "end-";
  for (int i = 0; i < 4; ++i) mark += format("{:08x}", random());
  return mark;
}

std::string last_line(const std::string& text) {
  const std::vector<std::string> lines = split(strip_text(repair_utf8(text), false, true), '\n');
  constexpr std::size_t longest = 200;
  return lines.back().substr(0, longest);
}

ProgramVerdict verdict_of(const ConfinedRun& run, const std::string& mark) {
  if (run.end == ConfinedEnd::deadline) return {false, "the deadline passed"};
  if (run.end == ConfinedEnd::output) return {false, "it printed too much"};
  const int signal = run.status.signal != 0 ? run.status.signal : run.status.code > 128 ? run.status.code - 128 : 0;
  if (signal != 0) return {false, format("it was ended by signal {}", signal)};
  if (run.status.code != 0) {
    const std::string said = last_line(run.err);
    return {false, said.empty() ? format("exit code {}", run.status.code) : said};
  }
  if (run.out.find(mark) == std::string::npos) return {false, "it ended before its tests did"};
  return {true, {}};
}

}  // namespace

ConfinedLimits ProgramTests::usual_limits() {
  ConfinedLimits limits;
  limits.processor_s = 3, limits.deadline_ms = 12'000, limits.output_bytes = 1 << 20;
  return limits;
}

Result<ProgramTests> ProgramTests::create(const std::string& python, const ConfinedLimits& limits) {
  std::string path = python;
  if (!starts_with(path, "/")) {
    LH_TRY(path, find_program(python, "/usr/local/bin:/usr/bin:/bin").with_context("python"));
  }
  ProgramTests made(path, limits);
  LH_TRY(const ProgramVerdict tried, made.judge({"x = 1", "assert x == 1"}));
  if (tried.passed) return made;
  return make_error(ErrorCode::unavailable, format("{} does not run a program of one line: {}", path, tried.why),
                    "python has to be Python 3, and to lie where everyone may read it");
}

Result<ProgramVerdict> ProgramTests::judge(const TestedProgram& tested) const {
  const std::string mark = end_mark();
  ConfinedProgram program;
  program.argv = {python_, "-I", "-B", "-"};
  program.input = tested.program + "\n" + tested.tests + "\n__import__('os').write(1, b'" + mark + "')\n";
  program.environment = {{"PATH", "/usr/local/bin:/usr/bin:/bin"},
                         {"HOME", "/tmp"},
                         {"LANG", "C.UTF-8"},
                         {"OMP_NUM_THREADS", "1"},
                         {"OPENBLAS_NUM_THREADS", "1"}};
  program.limits = limits_;
  LH_TRY(const ConfinedRun run, run_confined(program));
  return verdict_of(run, mark);
}

Result<std::vector<ProgramVerdict>> ProgramTests::judge_all(
    const std::vector<TestedProgram>& programs, int together,
    const std::function<void(std::size_t done)>& between) const {
  std::vector<std::optional<Result<ProgramVerdict>>> made(programs.size());
  std::atomic<std::size_t> next{0}, done{0};
  std::atomic<bool> failed{false};
  const auto work = [&] {
    for (std::size_t i = next++; i < programs.size() && !failed; i = next++) {
      made[i] = judge(programs[i]);
      if (!made[i]->ok()) failed = true;
      ++done;
    }
  };
  std::atomic<int> working{std::max(1, std::min(together, static_cast<int>(programs.size())))};
  std::vector<std::jthread> threads;
  for (int i = working; i > 0; --i)
    threads.emplace_back([&] {
      work();
      --working;
    });
  SystemClock clock;
  while (working > 0) {
    if (between) between(done);
    clock.sleep_ms(look_ms);
  }
  threads.clear();
  std::vector<ProgramVerdict> verdicts;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    if (!made[i]) continue;  // behind a failure
    LH_TRY(ProgramVerdict one, std::move(*made[i]).with_context(format("program {}", i + 1)));
    verdicts.push_back(std::move(one));
  }
  return verdicts;
}

void report_missing_limits(EventWriter& events) {
  for (const std::string& missing : limits_not_enforced()) {
    Value fields = Value::make_table();
    fields.set("what", missing);
    events.write("not_limited", std::move(fields));
  }
}

}  // namespace longhaul
