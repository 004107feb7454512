#include "engine/tasks/command_line.h"

#include <csignal>
#include <cstdio>
#include <map>

#include "base/fault_point.h"
#include "base/files.h"
#include "base/text.h"
#include "contracts/collective_deadline.h"
#include "engine/comm/mpi_communicator.h"
#include "engine/infer/serve.h"
#include "engine/ops/cpu/kernels.h"
#include "engine/tasks/checkpoint_commands.h"
#include "engine/tasks/parity_commands.h"
#include "engine/tasks/stages.h"

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

constexpr const char* kUsage =
    "usage: longhaul-engine run --task TASK --launch LAUNCH [--rank N]\n"
    "       longhaul-engine info\n"
    "       longhaul-engine tokenize-ids --tokenizer FILE --documents FILE\n"
    "       longhaul-engine logits --model FOLDER --tokens FILE [--precision f32|bf16] [--device cpu|gpu]\n"
    "       longhaul-engine generate --model FOLDER --prompt TEXT [--max-tokens N] [--precision f32|bf16]\n"
    "                                [--device cpu|gpu]\n"
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

// The page of a rank, where the launch has a place for it.
Result<std::optional<HeartbeatPage>> open_page(const Launch& launch, int rank) {
  std::optional<HeartbeatPage> beat;
  if (!launch.beat_dir.empty()) LH_CHECK(make_directories(launch.beat_dir));
  const std::string& folder = beat_folder(launch);
  if (folder.empty() || !is_directory(folder)) return beat;
  LH_TRY(HeartbeatPage page, HeartbeatPage::create(beat_page_path(folder, rank), rank));
  page.epoch(launch.epoch);
  page.waits(beat_waits_nowhere);
  beat.emplace(std::move(page));
  return beat;
}

using Reconnect = std::function<Status(std::int64_t epoch)>;

// What the process is, and ends with where its error's own code does not say enough.
struct RankProcess {
  int rank = -1;
  std::optional<int> exit_code;
};

int local_rank(const Launch& launch, int rank) {  // of its host
  int local = 0;
  for (int other = 0; other < rank && other < static_cast<int>(launch.rank_host.size()); ++other)
    local += launch.rank_host[static_cast<std::size_t>(other)] == launch.rank_host[static_cast<std::size_t>(rank)];
  return local;
}

// The server that a deploy stage starts opens its GPU itself.
bool computes_on_gpu(const Task& task) {
  return task.kind != "deploy" && task.settings.get_string("device") == "gpu";
}

// The ranks of a stage while its communicator lives.
Status run_as_rank(RankProcess& process, const Task& task, const Launch& launch, const Clock& clock, Mesh& mesh,
                   HeartbeatPage* beat, const Reconnect& reconnect, Trace& trace, MemoryAccounts& memory,
                   const EngineSurroundings& around) {
  CollectiveGroup& group = mesh.world();
  std::unique_ptr<Gpu> gpu;
  if (computes_on_gpu(task)) {
    Result<std::unique_ptr<Gpu>> opened = open_device("gpu", around.open_gpu, local_rank(launch, group.rank()));
    LH_CHECK(group.agree(opened.ok() ? Status() : Status(opened.error())));
    gpu = std::move(*opened);
    memory.place_on(gpu->device());
  }
  const int threads = task.resources.threads;
  const ComputeContext compute = gpu ? ComputeContext(gpu->device(), gpu->ops(), threads) : ComputeContext(threads);
  compute.set_trace(&trace);
  const std::unique_ptr<RangeMarks> marks = gpu ? gpu->marks() : nullptr;
  trace.set_marks(marks.get());
  EventWriter events(clock, group.is_first() ? launch.events_path : std::string(), group.rank());
  TaskRun run{task,       launch, clock,   compute,          mesh,      group, events,       beat,
              stop_asked, &trace, &memory, around.scheduler, reconnect, {},    &stop_signal, gpu.get()};
  const Status status = run_stage(run);
  trace.set_marks(nullptr);
  process.exit_code = run.exit_code;
  const int code = status.ok() ? 0 : run.exit_code.value_or(engine_exit_code(status.error().code));
  run.section(status.ok() ? beat_finished : format("{}{}", beat_failed, code).c_str());
  return status;
}

// Healthy ranks come when the operation that they compute is done; what takes longer is not a transient fault.
constexpr std::int64_t reconnect_deadline_ms = 60'000;

Status run_with_mpi(RankProcess& process, MpiRuntime& runtime, const Task& task, const Launch& launch,
                    const Clock& clock, Trace& trace, MemoryAccounts& memory, const EngineSurroundings& around) {
  LH_TRY(std::optional<HeartbeatPage> beat, open_page(launch, runtime.rank()));
  CommOptions options;
  options.clock = &clock;
  options.timeout_ms = collective_deadline_ms;
  options.trace = &trace;
  options.memory = &memory.of(MemoryCategory::messages);
  if (beat) {
    options.newest_epoch = &beat->restart_word();
    options.beat = &*beat;
  }
  LH_TRY(std::unique_ptr<Communicator> world, runtime.world(static_cast<std::uint64_t>(launch.epoch), options));
  LH_TRY(const std::unique_ptr<Mesh> mesh, Mesh::create(launch.dims, *world, options.timeout_ms));
  const Reconnect reconnect = [&](std::int64_t epoch) -> Status {
    LH_TRY(auto fresh, runtime.world(static_cast<std::uint64_t>(epoch), options, reconnect_deadline_ms));
    LH_TRY(const std::unique_ptr<Mesh> made, Mesh::create(launch.dims, *fresh, options.timeout_ms));
    *mesh = std::move(*made);
    world = std::move(fresh);
    return {};
  };
  return run_as_rank(process, task, launch, clock, *mesh, beat ? &*beat : nullptr, reconnect, trace, memory, around);
}

Status run_command(int argc, char** argv, const Options& options, const EngineSurroundings& around,
                   RankProcess& process) {
  LH_TRY(const std::string task_path, options.require("task"));
  LH_TRY(const std::string launch_path, options.require("launch"));
  LH_TRY(const Task task, read_task(task_path));
  LH_TRY(const Launch launch, read_launch(launch_path));
  std::signal(SIGTERM, on_stop_signal);
  std::signal(SIGINT, on_stop_signal);
  std::signal(SIGUSR1, on_stop_signal);  // srun passes this one on; on SIGTERM it kills
  const SystemClock clock;
  Trace trace(clock);
  MemoryAccounts memory;
  const auto load_faults = [&]() -> Status {
    return launch.fault_plan.empty() ? Status() : load_fault_plan(launch.fault_plan, process.rank);
  };
  if (launch.ranks <= 1) {
    LH_CHECK(load_faults());
    Mesh mesh;
    LH_TRY(std::optional<HeartbeatPage> beat, open_page(launch, mesh.world().rank()));
    return run_as_rank(process, task, launch, clock, mesh, beat ? &*beat : nullptr, {}, trace, memory, around);
  }
  LH_TRY(const std::unique_ptr<MpiRuntime> runtime, MpiRuntime::start(&argc, &argv));
  process.rank = runtime->rank();
  if (runtime->size() != launch.ranks)
    return make_error(ErrorCode::invalid_input,
                      format("the launch has {} ranks, MPI started {}", launch.ranks, runtime->size()),
                      "start the ranks with mpirun -np, as the launch says");
  LH_CHECK(load_faults());
  return run_with_mpi(process, *runtime, task, launch, clock, trace, memory, around);
}

std::string cuda_text(const OpenGpu& open) {
  if (!open) return "none";
  const Result<std::unique_ptr<Gpu>> gpu = open(0);
  return gpu.ok() ? "built in; " + (*gpu)->device().name() : "built in; not usable here: " + gpu.error().message();
}

// What this build computes with, here: a line per fact, for `longhaul doctor`.
Status print_info(const EngineSurroundings& around) {
  std::printf("operations: cpu, %s\ncommunicators: threads, mpi\ncuda operations: %s\n",
              cpu::kernels_name(ComputeContext()), cuda_text(around.open_gpu).c_str());
#ifdef LONGHAUL_HAVE_CURATE
  std::printf("curation: built in\n");
#else
  std::printf("curation: not built\n");
#endif
  return {};
}

Status dispatch(int argc, char** argv, const EngineSurroundings& around, RankProcess& process) {
  const std::string command = argc > 1 ? argv[1] : "";
  LH_TRY(const Options options, Options::parse(argc, argv));
  if (command == "run") {
    process.rank = std::atoi(options.get("rank", "0").c_str());
    return run_command(argc, argv, options, around, process);
  }
  if (command == "info") return print_info(around);
  if (command == "tokenize-ids") {
    LH_TRY(const std::string tokenizer, options.require("tokenizer"));
    LH_TRY(const std::string documents, options.require("documents"));
    return print_token_ids(tokenizer, documents);
  }
  const InferenceChoice choice{options.get("precision", "f32"), options.get("device", "cpu")};
  if (command == "logits") {
    LH_TRY(const std::string model, options.require("model"));
    LH_TRY(const std::string tokens, options.require("tokens"));
    return print_logits(model, tokens, choice, around.open_gpu);
  }
  if (command == "generate") {
    LH_TRY(const std::string model, options.require("model"));
    LH_TRY(const std::string prompt, options.require("prompt"));
    return print_generated(model, prompt, std::atoll(options.get("max-tokens", "64").c_str()), choice, around.open_gpu);
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

int engine_main(int argc, char** argv, const EngineSurroundings& around) {
  if (argc > 1 && (std::string(argv[1]) == "--help" || std::string(argv[1]) == "help")) {
    std::printf("%s%s", kUsage, checkpoint_commands_usage);
    return 0;
  }
  // The server's program has a way of its own with options, signals and exit codes.
  const std::vector<std::string> rest(argv + std::min(argc, 2), argv + argc);
  if (argc > 1 && std::string(argv[1]) == "serve") return serve_main(rest, around.open_gpu);
  if (argc > 1 && std::string(argv[1]) == "stop-server") return stop_server_main(rest);
  RankProcess process;
  const bool on_checkpoints = argc > 1 && is_checkpoint_command(argv[1]);
  const Status status = on_checkpoints ? run_checkpoint_command(argv[1], rest) : dispatch(argc, argv, around, process);
  if (status.ok()) return 0;
  const std::string who = process.rank >= 0 ? format("longhaul-engine rank {}", process.rank) : "longhaul-engine";
  std::fprintf(stderr, "%s: %s\n", who.c_str(), status.error().message().c_str());
  return process.exit_code.value_or(engine_exit_code(status.error().code));
}

}  // namespace longhaul
