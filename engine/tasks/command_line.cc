#include "engine/tasks/command_line.h"

#include <csignal>
#include <cstdio>
#include <map>

#include "base/fault_point.h"
#include "base/files.h"
#include "base/text.h"
#include "engine/comm/mpi_communicator.h"
#include "engine/infer/serve.h"
#include "engine/ops/cpu/kernels.h"
#include "engine/tasks/checkpoint_commands.h"
#include "engine/tasks/parity_commands.h"
#include "engine/tasks/stages.h"

namespace longhaul {

namespace {

std::atomic<bool> stop_asked{false};  // the one thing that a signal handler may touch
void on_stop_signal(int) {
  stop_asked.store(true, std::memory_order_relaxed);
}

constexpr const char* kUsage =
    "usage: longhaul-engine run --task TASK --launch LAUNCH [--rank N]\n"
    "       longhaul-engine info\n"
    "       longhaul-engine tokenize-ids --tokenizer FILE --documents FILE\n"
    "       longhaul-engine logits --model FOLDER --tokens FILE [--precision f32|bf16]\n"
    "       longhaul-engine generate --model FOLDER --prompt TEXT [--max-tokens N] [--precision f32|bf16]\n"
    "       longhaul-engine serve --model FOLDER --token-file FILE [options]   (serve --help)\n"
    "       longhaul-engine stop-server --endpoint endpoint.json\n";

class Options {
 public:
  static Result<Options> parse(int argc, char** argv) {
    Options options;
    for (int i = 2; i < argc; i += 2) {
      const std::string name = argv[i];
      if (!starts_with(name, "--") || i + 1 >= argc)
        return make_error(ErrorCode::invalid_input, "cannot read the option " + name, kUsage);
      options.values_[name.substr(2)] = argv[i + 1];
    }
    return options;
  }
  Result<std::string> require(const std::string& name) const {
    const auto found = values_.find(name);
    if (found == values_.end()) return make_error(ErrorCode::invalid_input, "--" + name + " is missing", kUsage);
    return found->second;
  }
  std::string get(const std::string& name, const std::string& otherwise) const {
    const auto found = values_.find(name);
    return found == values_.end() ? otherwise : found->second;
  }

 private:
  std::map<std::string, std::string> values_;
};

// The ranks of a stage while its communicator lives.
Status run_as_rank(const Task& task, const Launch& launch, const Clock& clock, Mesh& mesh, Trace& trace,
                   MemoryAccounts& memory, const SchedulerMemory& scheduler) {
  CollectiveGroup& group = mesh.world();
  const ComputeContext compute(task.resources.threads);
  compute.set_trace(&trace);
  EventWriter events(clock, group.is_first() ? launch.events_path : std::string(), group.rank());
  std::optional<HeartbeatPage> beat;
  if (!launch.beat_dir.empty()) LH_CHECK(make_directories(launch.beat_dir));
  if (const std::string& folder = beat_folder(launch); !folder.empty() && is_directory(folder)) {
    LH_TRY(HeartbeatPage page, HeartbeatPage::create(beat_page_path(folder, group.rank()), group.rank()));
    page.epoch(launch.epoch);
    beat.emplace(std::move(page));
  }
  TaskRun run{task,       launch, clock,   compute,  mesh, group, events, beat ? &*beat : nullptr,
              stop_asked, &trace, &memory, scheduler};
  const Status status = run_stage(run);
  run.section(status.ok() ? beat_finished : format("{}{}", beat_failed, engine_exit_code(status.error().code)).c_str());
  return status;
}

Status run_command(int argc, char** argv, const Options& options, const SchedulerMemory& scheduler, int& rank) {
  LH_TRY(const std::string task_path, options.require("task"));
  LH_TRY(const std::string launch_path, options.require("launch"));
  LH_TRY(const Task task, read_task(task_path));
  LH_TRY(const Launch launch, read_launch(launch_path));
  if (!launch.fault_plan.empty()) LH_CHECK(load_fault_plan(launch.fault_plan));
  std::signal(SIGTERM, on_stop_signal);
  std::signal(SIGINT, on_stop_signal);
  std::signal(SIGUSR1, on_stop_signal);  // srun passes this one on; on SIGTERM it kills
  const SystemClock clock;
  Trace trace(clock);
  MemoryAccounts memory;
  if (launch.ranks <= 1) {
    Mesh mesh;
    return run_as_rank(task, launch, clock, mesh, trace, memory, scheduler);
  }
  LH_TRY(const std::unique_ptr<MpiRuntime> runtime, MpiRuntime::start(&argc, &argv));
  rank = runtime->rank();
  if (runtime->size() != launch.ranks)
    return make_error(ErrorCode::invalid_input,
                      format("the launch has {} ranks, MPI started {}", launch.ranks, runtime->size()),
                      "start the ranks with mpirun -np, as the launch says");
  CommOptions comm_options;
  comm_options.clock = &clock;
  comm_options.timeout_ms = 600'000;
  comm_options.trace = &trace;
  comm_options.memory = &memory.of(MemoryCategory::messages);
  LH_TRY(const std::unique_ptr<Communicator> world,
         runtime->world(static_cast<std::uint64_t>(launch.epoch), comm_options));
  LH_TRY(const std::unique_ptr<Mesh> mesh, Mesh::create(launch.dims, *world, comm_options.timeout_ms));
  return run_as_rank(task, launch, clock, *mesh, trace, memory, scheduler);
}

// What this build computes with, here: a line per fact, for `longhaul doctor`.
Status print_info() {
  std::printf("operations: cpu, %s\ncommunicators: threads, mpi\ncuda operations: none\n",
              cpu::kernels_name(ComputeContext()));
#ifdef LONGHAUL_HAVE_CURATE
  std::printf("curation: built in\n");
#else
  std::printf("curation: not built\n");
#endif
  return {};
}

Status dispatch(int argc, char** argv, const SchedulerMemory& scheduler, int& rank) {
  const std::string command = argc > 1 ? argv[1] : "";
  LH_TRY(const Options options, Options::parse(argc, argv));
  if (command == "run") {
    rank = std::atoi(options.get("rank", "0").c_str());
    return run_command(argc, argv, options, scheduler, rank);
  }
  if (command == "info") return print_info();
  if (command == "tokenize-ids") {
    LH_TRY(const std::string tokenizer, options.require("tokenizer"));
    LH_TRY(const std::string documents, options.require("documents"));
    return print_token_ids(tokenizer, documents);
  }
  if (command == "logits") {
    LH_TRY(const std::string model, options.require("model"));
    LH_TRY(const std::string tokens, options.require("tokens"));
    return print_logits(model, tokens, options.get("precision", "f32"));
  }
  if (command == "generate") {
    LH_TRY(const std::string model, options.require("model"));
    LH_TRY(const std::string prompt, options.require("prompt"));
    return print_generated(model, prompt, std::atoll(options.get("max-tokens", "64").c_str()),
                           options.get("precision", "f32"));
  }
  return make_error(ErrorCode::invalid_input, command.empty() ? "a command is missing" : "unknown command " + command,
                    kUsage);
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

int engine_main(int argc, char** argv, const SchedulerMemory& scheduler) {
  if (argc > 1 && (std::string(argv[1]) == "--help" || std::string(argv[1]) == "help")) {
    std::printf("%s%s", kUsage, checkpoint_commands_usage);
    return 0;
  }
  // The server's program has a way of its own with options, signals and exit codes.
  const std::vector<std::string> rest(argv + std::min(argc, 2), argv + argc);
  if (argc > 1 && std::string(argv[1]) == "serve") return serve_main(rest);
  if (argc > 1 && std::string(argv[1]) == "stop-server") return stop_server_main(rest);
  int rank = -1;
  const bool on_checkpoints = argc > 1 && is_checkpoint_command(argv[1]);
  const Status status = on_checkpoints ? run_checkpoint_command(argv[1], rest) : dispatch(argc, argv, scheduler, rank);
  if (status.ok()) return 0;
  const std::string who = rank >= 0 ? format("longhaul-engine rank {}", rank) : "longhaul-engine";
  std::fprintf(stderr, "%s: %s\n", who.c_str(), status.error().message().c_str());
  return engine_exit_code(status.error().code);
}

}  // namespace longhaul
