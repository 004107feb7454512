#include "engine/tasks/commands/command_line.h"

#include <csignal>
#include <cstdio>
#include <optional>

#include "base/files/files.h"
#include "base/options/command_options.h"
#include "base/process/fault_point.h"
#include "base/text/print.h"
#include "base/text/text.h"
#include "contracts/control/collective_deadline.h"
#include "contracts/settings/stages/alignment.h"
#include "engine/comm/mpi_communicator.h"
#include "engine/comm/mpi_library.h"
#include "engine/comm/staged_communicator.h"
#include "engine/infer/serve/serve.h"
#include "engine/ops/cpu_levels.h"
#include "engine/parallel/mesh/launch_ranks.h"
#include "engine/parallel/mesh/rehearsal.h"
#include "engine/tasks/commands/checkpoint_commands.h"
#include "engine/tasks/commands/question_commands.h"
#include "engine/tasks/common/trains_experts.h"
#include "engine/tasks/stages/stages.h"
#include "resiliency/beat/beat_folder.h"

namespace longhaul {

namespace {

// The two things that a signal handler may touch.
std::atomic<bool> stop_asked{false};
std::atomic<int> stop_signal{0};  // the first of them
void on_stop_signal(int number) {
  int none = 0;
  stop_signal.compare_exchange_strong(none, number, std::memory_order_relaxed);
  stop_asked.store(true, std::memory_order_relaxed);
}

// As `run` was asked.
struct RunOptions {
  std::string task, launch;
  std::optional<int> rank;  // nullopt: the launcher's environment says it
};

// nullopt: help was asked for.
Result<std::optional<RunOptions>> parse_run(const std::vector<std::string>& arguments) {
  RunOptions asked;
  int rank = 0;
  CommandOptions options("longhaul-engine run", "one stage, as one rank of a launch");
  options.text("--task", "FILE", asked.task, "task.toml of the stage").required();
  options.text("--launch", "FILE", asked.launch, "launch.toml").required();
  options.integer("--rank", rank, 0, 1 << 24,
                  "of a launch with GPUs that talk through NCCL; else the launcher says it");
  LH_TRY(const bool helped, options.parse(arguments));
  if (helped) return std::optional<RunOptions>();
  if (options.given("--rank")) asked.rank = rank;
  return std::optional(std::move(asked));
}

// The page of a rank, where the launch has a place for it.
Result<std::optional<HeartbeatPage>> open_page(const Launch& launch, int rank) {
  std::optional<HeartbeatPage> beat;
  if (!launch.beat_dir.empty()) LH_CHECK(make_beat_folder(launch.beat_dir));
  const std::string& folder = beat_folder(launch);
  if (folder.empty() || !is_directory(folder)) return beat;
  LH_TRY(HeartbeatPage page, HeartbeatPage::create(beat_page_path(folder, rank), rank));
  page.epoch(launch.epoch);
  page.waits(beat_waits_nowhere);
  beat.emplace(std::move(page));
  return beat;
}

// Of a signal from here on.
const std::atomic<bool>& listen_to_signals() {
  std::signal(SIGTERM, on_stop_signal);
  std::signal(SIGINT, on_stop_signal);
  return stop_asked;
}

using Reconnect = std::function<Status(std::int64_t epoch)>;

// What the process is, and ends with where its error's own code does not say enough.
struct RankProcess {
  int rank = -1;
  std::optional<int> exit_code;
  bool explained = false;  // its error stands in the log
};

void explain(RankProcess& process, const Error& error) {
  const std::string who = process.rank >= 0 ? format("longhaul-engine rank {}", process.rank) : "longhaul-engine";
  print(stderr, "{}: {}\n", who, error.message());
  process.explained = true;
}

// The server that a deploy stage starts opens its GPU itself.
bool wants_gpu(const Task& task) {
  return task.kind != "deploy" && task.settings.get_string("device") == "gpu";
}

// What the parts of a rank's life share. Borrowed.
struct RankWork {
  const Task& task;
  const Launch& launch;
  const Clock& clock;
  Trace& trace;
  MemoryAccounts& memory;
  const EngineEnvironment& around;
};

// Of rank `rank`; null where the task computes on the processor. Before any memory is taken, and before communicators:
// those of a device are made on it.
Result<std::unique_ptr<Gpu>> open_gpu(const RankWork& work, int rank, bool shared) {
  if (!wants_gpu(work.task)) return std::unique_ptr<Gpu>();
  const std::vector<int>& host_of = work.launch.rank_host;
  int local_rank = 0;  // of its host
  for (int other = 0; other < rank && other < static_cast<int>(host_of.size()); ++other)
    local_rank += host_of[static_cast<std::size_t>(other)] == host_of[static_cast<std::size_t>(rank)];
  LH_TRY(std::unique_ptr<Gpu> gpu, open_device("gpu", work.around.open_gpu, local_rank, shared));
  work.memory.place_on(gpu->device());
  return gpu;
}

// The ranks of a stage while its communicator lives. gpu: null, or where they compute.
Status run_as_rank(RankProcess& process, const RankWork& work, Mesh& mesh, CollectiveGroup* rollout_ranks, Gpu* gpu,
                   HeartbeatPage* beat, const Reconnect& reconnect, const std::string& warning = "") {
  const auto& [task, launch, clock, trace, memory, around] = work;
  CollectiveGroup& group = mesh.world();
  const int threads = task.resources.threads;
  const ComputeContext compute = gpu ? ComputeContext(gpu->device(), gpu->ops(), threads) : ComputeContext(threads);
  compute.set_trace(&trace);
  const std::unique_ptr<RangeMarks> marks = gpu ? gpu->marks() : nullptr;
  trace.set_marks(marks.get());
  const bool writes = group.is_first() && !(rollout_ranks && !rollout_ranks->is_first());
  EventWriter events(clock, writes ? launch.events_path : std::string(), group.rank());
  if (!warning.empty()) events.message("warn", warning);
  TaskRun run{task,      launch, clock,        compute, mesh,         group,
              events,    beat,   stop_asked,   &trace,  &memory,      around.scheduler,
              reconnect, {},     &stop_signal, gpu,     rollout_ranks};
  const Status status = run_stage(run);
  trace.set_marks(nullptr);
  process.exit_code = run.exit_code;
  const int code = status.ok() ? 0 : run.exit_code.value_or(engine_exit_code(status.error().code));
  run.section(status.ok() ? beat_finished : format("{}{}", beat_failed, code).c_str());
  // While the ranks are still together: once they have parted, the first one that ends has mpirun end all others.
  if (!status.ok()) explain(process, status.error());
  return status;
}

// Healthy ranks come when the operation that they compute is done; what takes longer is not a transient fault.
constexpr std::int64_t reconnect_deadline_ms = 60'000;

// All ranks of an epoch; meet_ms: that they may take to come, 0: as any other operation.
using MakeWorld =
    std::function<Result<std::unique_ptr<Communicator>>(std::int64_t epoch, const CommOptions&, std::int64_t meet_ms)>;

// meet: what ranks do together in fresh groups, before anything else.
Status run_together(RankProcess& process, const RankWork& work, Gpu* gpu, HeartbeatPage* beat, const MakeWorld& make,
                    const std::function<Status(LaunchRanks&)>& meet = {},
                    const std::function<std::string()>& warning = {}) {
  CommOptions options;
  options.clock = &work.clock;
  options.timeout_ms = collective_deadline_ms;
  options.trace = &work.trace;
  options.memory = &work.memory.of(MemoryCategory::messages);
  if (beat) {
    options.newest_epoch = &beat->restart_word();
    options.beat = beat;
  }
  const int drawing = rollout_ranks_of(work.task.kind, work.task.settings);
  const auto connect = [&](std::int64_t epoch, std::int64_t meet_ms) -> Result<std::unique_ptr<LaunchRanks>> {
    LH_TRY(auto world, make(epoch, options, meet_ms));
    LH_TRY(auto made, LaunchRanks::create(work.launch.dims, drawing, std::move(world), options.timeout_ms));
    if (meet) LH_CHECK(meet(*made));
    return made;
  };
  LH_TRY(const std::unique_ptr<LaunchRanks> ranks, connect(work.launch.epoch, 0));
  const Reconnect reconnect = [&](std::int64_t epoch) -> Status {
    LH_TRY(const std::unique_ptr<LaunchRanks> fresh, connect(epoch, reconnect_deadline_ms));
    ranks->replace_with(std::move(*fresh));
    return {};
  };
  return run_as_rank(process, work, ranks->mesh(), ranks->rollout_ranks(), gpu, beat, reconnect,
                     warning ? warning() : "");
}

// Ranks that compute on GPUs copy what they send to the host, and may share one.
Status run_with_mpi(RankProcess& process, const RankWork& work, MpiRuntime& runtime) {
  LH_TRY(std::optional<HeartbeatPage> beat, open_page(work.launch, runtime.rank()));
  std::unique_ptr<Gpu> gpu;
  if (wants_gpu(work.task)) {
    CommOptions options;
    options.clock = &work.clock;
    options.timeout_ms = collective_deadline_ms;
    LH_TRY(const auto opening, runtime.world(static_cast<std::uint64_t>(work.launch.epoch), options));
    Result<std::unique_ptr<Gpu>> opened = open_gpu(work, runtime.rank(), true);
    LH_CHECK(CollectiveGroup(*opening).agree(opened.ok() ? Status() : Status(opened.error())));
    gpu = std::move(*opened);
  }
  const MakeWorld make = [&](std::int64_t epoch, const CommOptions& options,
                             std::int64_t meet_ms) -> Result<std::unique_ptr<Communicator>> {
    LH_TRY(std::unique_ptr<Communicator> world, runtime.world(static_cast<std::uint64_t>(epoch), options, meet_ms));
    if (!gpu) return world;
    return make_staged_communicator(gpu->device(), std::move(world));
  };
  return run_together(process, work, gpu.get(), beat ? &*beat : nullptr, make);
}

// A GPU for each rank, and no MPI: who this is says the command line, or the launcher.
Result<int> rank_without_mpi(std::optional<int> given, const Launch& launch, const EngineEnvironment& around) {
  if (!around.start_nccl)
    return make_error(ErrorCode::unsupported,
                      format("device = \"gpu\" with {} ranks: this engine was built without NCCL", launch.ranks),
                      "build it where nvcc and nccl.h are, or set communicator = \"staged\"");
  if (!given && !around.launched)
    return make_error(ErrorCode::invalid_input,
                      format("the launch has {} ranks, and nothing says which of them this process is", launch.ranks),
                      "start it with mpirun or srun, or give --rank");
  const int rank = given ? *given : around.launched->rank;
  const int size = !given && around.launched->size > 0 ? around.launched->size : launch.ranks;
  if (size != launch.ranks || rank < 0 || rank >= launch.ranks)
    return make_error(ErrorCode::invalid_input,
                      format("the launch has {} ranks, this is rank {} of {}", launch.ranks, rank, size),
                      "start as many as the launch says");
  return rank;
}

Status run_with_nccl(RankProcess& process, const RankWork& work) {
  LH_TRY(std::optional<HeartbeatPage> beat, open_page(work.launch, process.rank));
  LH_TRY(const std::unique_ptr<Gpu> gpu, open_gpu(work, process.rank, false));
  const std::unique_ptr<Rendezvous> rendezvous = rendezvous_of(work.launch);
  LH_TRY(const std::unique_ptr<DeviceRanks> ranks,
         work.around.start_nccl(gpu->device(), *rendezvous, process.rank, work.launch.ranks,
                                &work.memory.of(MemoryCategory::messages)));
  const MakeWorld make = [&](std::int64_t epoch, const CommOptions& options, std::int64_t) {
    return ranks->world(static_cast<std::uint64_t>(epoch), options);
  };
  const auto meet = [experts = trains_experts(work.task)](LaunchRanks& all) -> Status {
    LH_CHECK(rehearse(all.mesh(), experts));
    return all.rollout_ranks() ? rehearse(*all.rollout_ranks()) : Status();
  };
  return run_together(process, work, gpu.get(), beat ? &*beat : nullptr, make, meet, [&] {
    const std::string& why = ranks->counted_by_host();
    return why.empty() ? why : "completed collectives are counted by the host: " + why;
  });
}

Status run_command(int argc, char** argv, const RunOptions& asked, const EngineEnvironment& around,
                   RankProcess& process) {
  LH_TRY(const Task task, read_task(asked.task));
  LH_TRY(const Launch launch, read_launch(asked.launch));
  if (task.settings.get_string("device") == "auto")
    return make_error(ErrorCode::invalid_input, "device = \"auto\" in a task: nobody has decided it",
                      "write cpu or gpu into the task; `longhaul` decides it when it plans");
  (void)listen_to_signals();
  std::signal(SIGUSR1, on_stop_signal);  // srun passes this one on; on SIGTERM it kills
  const SystemClock clock;
  Trace trace(clock);
  MemoryAccounts memory;
  const RankWork work{task, launch, clock, trace, memory, around};
  const auto load_faults = [&]() -> Status {
    return launch.fault_plan.empty() ? Status() : load_fault_plan(launch.fault_plan, process.rank);
  };
  if (launch.ranks <= 1) {
    LH_CHECK(load_faults());
    Mesh mesh;
    LH_TRY(std::optional<HeartbeatPage> beat, open_page(launch, mesh.world().rank()));
    LH_TRY(const std::unique_ptr<Gpu> gpu, open_gpu(work, 0, false));
    return run_as_rank(process, work, mesh, nullptr, gpu.get(), beat ? &*beat : nullptr, {});
  }
  if (wants_gpu(task) && task.settings.get_string("communicator", "nccl") == "nccl") {
    LH_TRY(process.rank, rank_without_mpi(asked.rank, launch, around));
    LH_CHECK(load_faults());
    return run_with_nccl(process, work);
  }
  LH_TRY(const std::unique_ptr<MpiRuntime> runtime, MpiRuntime::start(&argc, &argv));
  process.rank = runtime->rank();
  if (runtime->size() != launch.ranks)
    return make_error(ErrorCode::invalid_input,
                      format("the launch has {} ranks, MPI started {}; this engine's MPI is {} of {}", launch.ranks,
                             runtime->size(), mpi_library().version, mpi_library().path),
                      "start the ranks with the mpirun or srun of the same MPI; `longhaul doctor` compares them");
  LH_CHECK(load_faults());
  return run_with_mpi(process, work, *runtime);
}

// The commands that end with a status, in the order in which help lists them; `run` and the server's have a way of
// their own with ranks, signals and exit codes.
std::string usage() {
  std::string text = "usage: longhaul-engine COMMAND [options]      (COMMAND --help lists them)\n\n";
  const auto add = [&text](const char* name, const char* summary) { text += format("  {:<14}{}\n", name, summary); };
  add("run", "one stage, as one rank of a launch");
  for (const QuestionCommand& command : question_commands()) add(command.name, command.summary);
  for (const CheckpointCommand& command : checkpoint_commands()) add(command.name, command.summary);
  add("serve", "a model over the OpenAI HTTP API");
  add("stop-server", "ends a server that a deploy stage left running");
  return text;
}

Status dispatch(int argc, char** argv, const EngineEnvironment& around, RankProcess& process) {
  const std::string command = argc > 1 ? argv[1] : "";
  const std::vector<std::string> arguments(argv + std::min(argc, 2), argv + argc);
  if (command == "run") {
    LH_TRY(const std::optional<RunOptions> asked, parse_run(arguments));
    if (!asked) return {};
    process.rank = asked->rank.value_or(0);
    return run_command(argc, argv, *asked, around, process);
  }
  for (const QuestionCommand& known : question_commands())
    if (command == known.name) return known.run({arguments, around, listen_to_signals}, known);
  if (is_checkpoint_command(command)) return run_checkpoint_command(command, arguments);
  return make_error(ErrorCode::invalid_input, command.empty() ? "a command is missing" : "unknown command " + command,
                    usage());
}

}  // namespace

int engine_exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::internal: return 1;
    case ErrorCode::invalid_input: return 3;
    case ErrorCode::not_found: return 4;
    case ErrorCode::unsupported: return 5;
    case ErrorCode::io: return 6;
    case ErrorCode::aborted: return 7;
    case ErrorCode::timeout: return 8;
    case ErrorCode::conflict: return 9;
    case ErrorCode::corrupt: return 10;
    case ErrorCode::unavailable: return 11;
  }
  return 1;
}

int engine_main(int argc, char** argv, const EngineEnvironment& around) {
  if (argc > 1 && (std::string(argv[1]) == "--help" || std::string(argv[1]) == "help")) {
    print_text(stdout, usage());
    return 0;
  }
  if (const Status capped = cap_cpu_level(around.cpu_max); !capped.ok()) {
    print(stderr, "longhaul-engine: LONGHAUL_CPU_MAX: {}\n", capped.error().message());
    return engine_exit_code(capped.error().code);
  }
  // The server's program has a way of its own with options, signals and exit codes.
  const std::vector<std::string> rest(argv + std::min(argc, 2), argv + argc);
  if (argc > 1 && std::string(argv[1]) == "serve") return serve_main(rest, around.open_gpu);
  if (argc > 1 && std::string(argv[1]) == "stop-server") return stop_server_main(rest);
  RankProcess process;
  const Status status = dispatch(argc, argv, around, process);
  if (status.ok()) return 0;
  if (!process.explained) explain(process, status.error());
  return process.exit_code.value_or(engine_exit_code(status.error().code));
}

}  // namespace longhaul
