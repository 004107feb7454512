#include "engine/tasks/commands/command_line.h"

#include <csignal>
#include <cstdio>
#include <map>

#include "base/files/files.h"
#include "base/process/fault_point.h"
#include "base/process/program_trust.h"
#include "base/text/print.h"
#include "base/text/text.h"
#include "base/value/json.h"
#include "contracts/control/collective_deadline.h"
#include "engine/comm/mpi_communicator.h"
#include "engine/comm/mpi_library.h"
#include "engine/comm/staged_communicator.h"
#include "engine/core/site_libraries.h"
#include "engine/infer/serve/serve.h"
#include "engine/ops/cpu_levels.h"
#include "engine/parallel/mesh/rehearsal.h"
#include "engine/tasks/commands/checkpoint_commands.h"
#include "engine/tasks/commands/measure_processor.h"
#include "engine/tasks/commands/processor_info.h"
#include "engine/tasks/common/parity_commands.h"
#include "engine/tasks/common/trains_experts.h"
#include "engine/tasks/rows/data_check_command.h"
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

constexpr const char* kUsage =
    "usage: longhaul-engine run --task TASK --launch LAUNCH [--rank N]\n"
    "       longhaul-engine info [--only cuda | --only gpu [--rank N] [--shared yes]]\n"
    "       longhaul-engine measure [--ranks N] [--threads N] [--precision bf16|f32] [--seconds S] [--only identity]\n"
    "       longhaul-engine tokenize-ids --tokenizer FILE --documents FILE\n"
    "       longhaul-engine render-chat --template FILE --variables FILE    (a JSON table a line; prints a line for "
    "each)\n"
    "       longhaul-engine data-check --file FILE [--model FOLDER] [--ignore KEY,...] [--for sft|align]\n"
    "                                  [--sequence-length N] [--json yes]\n"
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
  if (!launch.beat_dir.empty()) LH_CHECK(make_beat_folder(launch.beat_dir));
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
Status run_as_rank(RankProcess& process, const RankWork& work, Mesh& mesh, Gpu* gpu, HeartbeatPage* beat,
                   const Reconnect& reconnect, const std::string& warning = "") {
  const auto& [task, launch, clock, trace, memory, around] = work;
  CollectiveGroup& group = mesh.world();
  const int threads = task.resources.threads;
  const ComputeContext compute = gpu ? ComputeContext(gpu->device(), gpu->ops(), threads) : ComputeContext(threads);
  compute.set_trace(&trace);
  const std::unique_ptr<RangeMarks> marks = gpu ? gpu->marks() : nullptr;
  trace.set_marks(marks.get());
  EventWriter events(clock, group.is_first() ? launch.events_path : std::string(), group.rank());
  if (!warning.empty()) events.message("warn", warning);
  TaskRun run{task,       launch, clock,   compute,          mesh,      group, events,       beat,
              stop_asked, &trace, &memory, around.scheduler, reconnect, {},    &stop_signal, gpu};
  const Status status = run_stage(run);
  trace.set_marks(nullptr);
  process.exit_code = run.exit_code;
  const int code = status.ok() ? 0 : run.exit_code.value_or(engine_exit_code(status.error().code));
  run.section(status.ok() ? beat_finished : format("{}{}", beat_failed, code).c_str());
  return status;
}

// Healthy ranks come when the operation that they compute is done; what takes longer is not a transient fault.
constexpr std::int64_t reconnect_deadline_ms = 60'000;

// All ranks of an epoch; meet_ms: that they may take to come, 0: as any other operation.
using MakeWorld =
    std::function<Result<std::unique_ptr<Communicator>>(std::int64_t epoch, const CommOptions&, std::int64_t meet_ms)>;

// meet: what ranks do together in a fresh mesh, before anything else.
Status run_together(RankProcess& process, const RankWork& work, Gpu* gpu, HeartbeatPage* beat, const MakeWorld& make,
                    const std::function<Status(Mesh&)>& meet = {}, const std::function<std::string()>& warning = {}) {
  CommOptions options;
  options.clock = &work.clock;
  options.timeout_ms = collective_deadline_ms;
  options.trace = &work.trace;
  options.memory = &work.memory.of(MemoryCategory::messages);
  if (beat) {
    options.newest_epoch = &beat->restart_word();
    options.beat = beat;
  }
  LH_TRY(std::unique_ptr<Communicator> world, make(work.launch.epoch, options, 0));
  LH_TRY(const std::unique_ptr<Mesh> mesh, Mesh::create(work.launch.dims, *world, options.timeout_ms));
  if (meet) LH_CHECK(meet(*mesh));
  const Reconnect reconnect = [&](std::int64_t epoch) -> Status {
    LH_TRY(auto fresh, make(epoch, options, reconnect_deadline_ms));
    LH_TRY(const std::unique_ptr<Mesh> made, Mesh::create(work.launch.dims, *fresh, options.timeout_ms));
    if (meet) LH_CHECK(meet(*made));
    *mesh = std::move(*made);
    world = std::move(fresh);
    return {};
  };
  return run_as_rank(process, work, *mesh, gpu, beat, reconnect, warning ? warning() : "");
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
Result<int> rank_without_mpi(const Options& options, const Launch& launch, const EngineEnvironment& around) {
  if (!around.start_nccl)
    return make_error(ErrorCode::unsupported,
                      format("device = \"gpu\" with {} ranks: this engine was built without NCCL", launch.ranks),
                      "build it where nvcc and nccl.h are, or set communicator = \"staged\"");
  const std::string given = options.get("rank", "");
  if (given.empty() && !around.launched)
    return make_error(ErrorCode::invalid_input,
                      format("the launch has {} ranks, and nothing says which of them this process is", launch.ranks),
                      "start it with mpirun or srun, or give --rank");
  const int rank = given.empty() ? around.launched->rank : std::atoi(given.c_str());
  const int size = given.empty() && around.launched->size > 0 ? around.launched->size : launch.ranks;
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
  const auto meet = [experts = trains_experts(work.task)](Mesh& mesh) { return rehearse(mesh, experts); };
  return run_together(process, work, gpu.get(), beat ? &*beat : nullptr, make, meet, [&] {
    const std::string& why = ranks->counted_by_host();
    return why.empty() ? why : "completed collectives are counted by the host: " + why;
  });
}

Status run_command(int argc, char** argv, const Options& options, const EngineEnvironment& around,
                   RankProcess& process) {
  LH_TRY(const std::string task_path, options.require("task"));
  LH_TRY(const std::string launch_path, options.require("launch"));
  LH_TRY(const Task task, read_task(task_path));
  LH_TRY(const Launch launch, read_launch(launch_path));
  if (task.settings.get_string("device") == "auto")
    return make_error(ErrorCode::invalid_input, "device = \"auto\" in a task: nobody has decided it",
                      "write cpu or gpu into the task; `longhaul` decides it when it plans");
  std::signal(SIGTERM, on_stop_signal);
  std::signal(SIGINT, on_stop_signal);
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
    return run_as_rank(process, work, mesh, gpu.get(), beat ? &*beat : nullptr, {});
  }
  if (wants_gpu(task) && task.settings.get_string("communicator", "nccl") == "nccl") {
    LH_TRY(process.rank, rank_without_mpi(options, launch, around));
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

// What `longhaul` asks before it plans: whether GPUs are built in, which takes no GPU; or whether the last of so many
// ranks of this host would have one.
Status print_one_fact(const Options& options, const EngineEnvironment& around) {
  const std::string only = options.get("only", "");
  if (only == "cuda") {
    print(stdout, "cuda operations: {}\n", around.open_gpu ? "built in" : "none");
    return {};
  }
  if (only != "gpu") return make_error(ErrorCode::invalid_input, "info --only " + only, "cuda or gpu");
  if (!around.open_gpu) {
    print(stdout, "gpu: this engine was built without CUDA\n");
    return {};
  }
  const auto gpu = around.open_gpu(std::atoi(options.get("rank", "0").c_str()), options.get("shared", "") == "yes");
  print(stdout, "gpu: {}\n", gpu.ok() ? "usable; " + (*gpu)->device().name() : gpu.error().message());
  return {};
}

std::string cuda_text(const OpenGpu& open) {
  if (!open) return "none";
  const Result<std::unique_ptr<Gpu>> gpu = open(0, false);
  return gpu.ok() ? "built in; " + (*gpu)->device().name() : "built in; not usable here: " + gpu.error().message();
}

// What this build computes with, here: a line per fact, for `longhaul doctor`.
Status print_info(const EngineEnvironment& around) {
  print(stdout, "{}\ncommunicators: threads, mpi{}\ncuda operations: {}\n", processor_text(processor_facts()),
        around.start_nccl ? ", nccl" : "", cuda_text(around.open_gpu));
#ifdef LONGHAUL_HAVE_CURATE
  print(stdout, "curation: built in\n");
#else
  print(stdout, "curation: not built\n");
#endif
  const MpiLibrary mpi = mpi_library();
  print(stdout, "mpi: {}, {} ({})\n", mpi.version, mpi.path, owner_text(mpi.path));
  for (const SiteLibrary& library : site_libraries()) print(stdout, "{}: {}\n", library.name, library.state);
  return {};
}

// What `plan`, `tune` and `run` ask before they predict (contracts/plan/processor_speed.h).
Status print_measured(const Options& options) {
  if (options.get("only", "") == "identity") {
    LH_TRY(const ProcessorIdentity identity, this_processor());
    print_text(stdout, to_json_pretty(identity_to_value(identity)));
    return {};
  }
  std::signal(SIGTERM, on_stop_signal);
  std::signal(SIGINT, on_stop_signal);
  MeasureOptions asked;
  asked.ranks = std::atoi(options.get("ranks", "1").c_str());
  asked.threads = std::atoi(options.get("threads", "1").c_str());
  asked.precision = options.get("precision", "bf16");
  asked.seconds = std::atof(options.get("seconds", "2").c_str());
  asked.stop = &stop_asked;
  LH_TRY(const ProcessorSpeed speed, measure_processor(asked, SystemClock()));
  print_text(stdout, to_json_pretty(processor_speed_to_value(speed)));
  return {};
}

Status dispatch(int argc, char** argv, const EngineEnvironment& around, RankProcess& process) {
  const std::string command = argc > 1 ? argv[1] : "";
  LH_TRY(const Options options, Options::parse(argc, argv));
  if (command == "run") {
    process.rank = std::atoi(options.get("rank", "0").c_str());
    return run_command(argc, argv, options, around, process);
  }
  if (command == "info" && !options.get("only", "").empty()) return print_one_fact(options, around);
  if (command == "info") return print_info(around);
  if (command == "measure") return print_measured(options);
  if (command == "tokenize-ids") {
    LH_TRY(const std::string tokenizer, options.require("tokenizer"));
    LH_TRY(const std::string documents, options.require("documents"));
    return print_token_ids(tokenizer, documents);
  }
  if (command == "render-chat") {
    LH_TRY(const std::string chat, options.require("template"));
    LH_TRY(const std::string variables, options.require("variables"));
    return print_rendered(chat, variables);
  }
  if (command == "data-check") {
    LH_TRY(const std::string file, options.require("file"));
    return print_data_check({file, options.get("model", ""), options.get("ignore", ""), options.get("for", ""),
                             options.get("sequence-length", ""), options.get("json", "") == "yes"});
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

int engine_main(int argc, char** argv, const EngineEnvironment& around) {
  if (argc > 1 && (std::string(argv[1]) == "--help" || std::string(argv[1]) == "help")) {
    print(stdout, "{}{}", kUsage, checkpoint_commands_usage);
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
  const bool on_checkpoints = argc > 1 && is_checkpoint_command(argv[1]);
  const Status status = on_checkpoints ? run_checkpoint_command(argv[1], rest) : dispatch(argc, argv, around, process);
  if (status.ok()) return 0;
  const std::string who = process.rank >= 0 ? format("longhaul-engine rank {}", process.rank) : "longhaul-engine";
  print(stderr, "{}: {}\n", who, status.error().message());
  return process.exit_code.value_or(engine_exit_code(status.error().code));
}

}  // namespace longhaul
