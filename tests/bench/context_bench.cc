// Memory and time of attention and of a whole step as sequences grow from 2,048 tokens to 32,768: memory must be
// linear, and of two ranks of a cp group each must need about half. A tiny bf16 model (two layers, hidden 128, two
// heads of 64 with one of keys), one sequence, one thread a rank, its processor time. usage: context_bench
// [--tokens-max n]
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/files/files.h"
#include "base/system/clock.h"
#include "engine/comm/threads_communicator.h"
#include "engine/parallel/context/context_attention.h"
#include "engine/train/step/trainer.h"

using namespace longhaul;

namespace {

constexpr std::int64_t tokens_min = 2048;

ModelShape bench_shape(std::int64_t length) {
  ModelShape shape;
  shape.vocab_size = 256, shape.hidden_size = 128, shape.intermediate_size = 352, shape.num_hidden_layers = 2;
  shape.num_attention_heads = 2, shape.num_key_value_heads = 1, shape.head_dim = 64;
  shape.max_position_embeddings = length;
  return shape;
}

class CountingSource final : public BatchSource {
 public:
  explicit CountingSource(std::int64_t length) : length_(length) {}
  Status fill(std::int64_t first, std::int64_t count, BatchStorage& out) override {
    out.sequences = count, out.length = length_;
    out.ids.clear(), out.targets.clear();
    for (std::int64_t i = 0; i < count * length_; ++i) {
      out.ids.push_back(static_cast<std::int32_t>((first + i * i) % 251));
      out.targets.push_back(static_cast<std::int32_t>((first + i) % 251));
    }
    out.weights.assign(out.ids.size(), 1.0F);
    return {};
  }
  std::int64_t samples_per_epoch() const override { return 1 << 20; }

 private:
  std::int64_t length_;
};

struct Measured {
  double attention_ms = 0, step_ms = 0;
  std::int64_t attention_bytes = 0;  // its views and its scratch
  std::int64_t step_bytes = 0;       // all but weights, gradients and moments, whose size no sequence changes
  std::int64_t resident_bytes = 0;   // of the process, at its highest
};

// Processor time of the rank's only thread, so that neighbours on the machine count less.
std::int64_t thread_ns() {
  struct timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}
double milliseconds_since(std::int64_t begin) {
  return static_cast<double>(thread_ns() - begin) * 1e-6;
}

// Forward and backward of attention alone, of a rank that may be one of a cp group.
Status measure_attention(Mesh& mesh, std::int64_t length, Measured& measured) {
  const ComputeContext context(1);
  MemoryAccount account;
  const ContextShard shard(mesh.dims().cp, mesh.at().cp);
  const ContextAttentionSizes sizes{2, 1, 64, length / shard.ranks(), DType::bf16, true};
  const auto attention = make_context_attention(ContextAttentionKind::ring, &mesh, sizes, &account);
  ContextTokens tokens{1, length, {}, {}};
  if (shard.splits()) tokens.pieces = 2, tokens.length = shard.chunk_length(length);
  const std::int64_t t = tokens.tokens();
  const auto rows = [&](std::int64_t columns) { return Tensor(DType::bf16, {t * columns}, &account); };
  const Tensor dout = rows(sizes.q());
  Tensor qkv = rows(sizes.width()), out = rows(sizes.q()), dqkv = rows(sizes.width());
  Tensor lse(DType::f32, {t * sizes.heads}, &account);
  const std::int64_t begin = thread_ns();
  attention->forward(context, tokens, qkv, out, lse.span<float>());
  attention->backward(context, tokens, dout, qkv, out, lse.span<float>(), dqkv);
  measured.attention_ms = milliseconds_since(begin);
  measured.attention_bytes = account.bytes_peak + context.scratch_bytes();
  return attention->status();
}

Status measure_step(Mesh& mesh, std::int64_t length, Measured& measured) {
  const ComputeContext context(1);
  MemoryAccounts fixed, growing;
  ParameterStore store(bench_shape(length), DType::bf16, &fixed, MeshPlace{mesh.dims(), mesh.at()});
  initialize_parameters(context, store, 1);
  LlamaOptions model_options;
  model_options.tokens_max = length, model_options.memory = &growing, model_options.mesh = &mesh;
  Llama model(store, model_options);
  CountingSource source(length);
  LanguageModelObjective objective;
  TrainerOptions options;
  options.steps = 2;
  Trainer trainer(context, mesh, store, {&model}, objective, source, options, &fixed);
  LH_CHECK(trainer.step());  // takes all memory
  const std::int64_t begin = thread_ns();
  LH_CHECK(trainer.step());
  measured.step_ms = milliseconds_since(begin);
  measured.step_bytes = growing.all().bytes_peak + context.scratch_bytes();
  return {};
}

// The kernel forgets the highest size so far.
void forget_highest() {
  if (std::FILE* file = std::fopen("/proc/self/clear_refs", "w")) {
    std::fputs("5", file);
    std::fclose(file);
  }
}
std::int64_t highest_resident() {
  const auto status = read_file("/proc/self/status");
  const std::size_t at = status.ok() ? status->find("VmHWM:") : std::string::npos;
  return at == std::string::npos ? 0 : std::strtoll(status->c_str() + at + 6, nullptr, 10) * 1024;
}

Result<Measured> measure(int cp, std::int64_t length) {
  Measured first;
  forget_highest();
  const auto both = [&](Mesh& mesh, Measured& measured) -> Status {
    LH_CHECK(measure_attention(mesh, length, measured));
    return measure_step(mesh, length, measured);
  };
  if (cp == 1) {
    Mesh alone;
    LH_CHECK(both(alone, first));
    first.resident_bytes = highest_resident();
    return first;
  }
  const SystemClock clock;
  const ThreadsWorld world(cp);
  CommOptions options;
  options.clock = &clock;
  ParallelDims dims;
  dims.cp = cp;
  std::vector<Status> statuses(static_cast<std::size_t>(cp));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < cp; ++rank)
    threads.emplace_back([&, rank] {
      const auto communicator = world.communicator(rank, 1, options);
      const auto mesh = Mesh::create(dims, *communicator);
      Measured mine;
      statuses[static_cast<std::size_t>(rank)] = mesh.ok() ? both(**mesh, mine) : mesh.error();
      if (rank == 0) first = mine;
    });
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : statuses) LH_CHECK(status);
  first.resident_bytes = highest_resident();
  return first;
}

constexpr double mib = 1024.0 * 1024.0;

Status print_table(int cp, std::int64_t tokens_max, std::vector<Measured>& table) {
  std::printf("\n%d rank%s\n%8s %14s %8s %14s %8s %10s %12s %12s\n", cp, cp > 1 ? "s, ring; bytes of each" : "",
              "tokens", "attention MiB", "B/token", "step MiB", "B/token", "resident", "attention us", "step us");
  for (std::int64_t length = tokens_min; length <= tokens_max; length *= 2) {
    LH_TRY(const Measured m, measure(cp, length));
    table.push_back(m);
    const auto tokens = static_cast<double>(length);
    const auto attention = static_cast<double>(m.attention_bytes), step = static_cast<double>(m.step_bytes);
    std::printf("%8lld %14.1f %8.0f %14.1f %8.0f %10.1f %12.2f %12.2f\n", static_cast<long long>(length),
                attention / mib, attention / tokens, step / mib, step / tokens,
                static_cast<double>(m.resident_bytes) / mib, m.attention_ms * 1e3 / tokens, m.step_ms * 1e3 / tokens);
    std::fflush(stdout);
  }
  return {};
}

// Bytes a token at the longest over those at the shortest: 1 where memory is linear, 16 where it is quadratic.
double growth(const std::vector<Measured>& table, std::int64_t Measured::* bytes) {
  const double times = static_cast<double>(std::int64_t{1} << (table.size() - 1));
  return static_cast<double>(table.back().*bytes) / (static_cast<double>(table.front().*bytes) * times);
}

}  // namespace

int main(int argc, char** argv) {
  std::int64_t tokens_max = 32'768;
  for (int i = 1; i + 1 < argc; ++i)
    if (std::strcmp(argv[i], "--tokens-max") == 0)
      tokens_max = std::max<std::int64_t>(tokens_min, std::strtoll(argv[i + 1], nullptr, 10));
  std::vector<Measured> one, two;
  for (const auto& [cp, table] : {std::pair{1, &one}, std::pair{2, &two}})
    if (const Status done = print_table(cp, tokens_max, *table); !done.ok()) {
      std::fprintf(stderr, "%s\n", done.error().message().c_str());
      return 1;
    }
  const double attention = growth(one, &Measured::attention_bytes), step = growth(one, &Measured::step_bytes);
  const auto share = [&](std::int64_t Measured::* bytes) {
    return static_cast<double>(two.back().*bytes) / static_cast<double>(one.back().*bytes);
  };
  std::printf("\nbytes a token, longest over shortest: attention %.3f, step %.3f (bar: 1.1)\n", attention, step);
  std::printf("a rank of two needs of one's: attention %.2f, step %.2f (bar: 0.65)\n",
              share(&Measured::attention_bytes), share(&Measured::step_bytes));
  return attention <= 1.1 && step <= 1.1 && share(&Measured::step_bytes) <= 0.65 ? 0 : 1;
}
