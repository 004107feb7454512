// What a checkpoint costs the training: the blocking part of an asynchronous save beside the time that copying as many
// bytes takes in the same run, and a save that waits for the disk, through the page cache and past it. usage:
// checkpoint_stall [--mebibytes n] [--threads n] [--tries n] [--folder path]
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "base/system/clock.h"
#include "base/text/text.h"
#include "engine/checkpoint/global/checkpoint_saver.h"
#include "engine/core/tensor/parallel_for.h"

using namespace longhaul;

namespace {

struct Options {
  std::int64_t mebibytes = 1024;
  int threads = 2, tries = 5;
  std::string folder = "/tmp";
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--mebibytes") options.mebibytes = std::atoll(value.c_str());
    if (name == "--threads") options.threads = std::atoi(value.c_str());
    if (name == "--tries") options.tries = std::atoi(value.c_str());
    if (name == "--folder") options.folder = value;
  }
  return options;
}

// A model whose weights and moments are about as large as asked for.
ModelShape shape_of_about(std::int64_t bytes) {
  ModelShape shape;
  shape.vocab_size = 8192, shape.hidden_size = 1024, shape.intermediate_size = 2816, shape.num_hidden_layers = 1;
  shape.num_attention_heads = 16, shape.num_key_value_heads = 16, shape.head_dim = 64;
  const std::int64_t one = shape.parameter_count();
  shape.num_hidden_layers = 2;
  const std::int64_t layer = shape.parameter_count() - one;
  shape.num_hidden_layers = std::max<std::int64_t>(1, (bytes / 12 - one) / layer + 1);
  return shape;
}

struct Bench {
  explicit Bench(const Options& o)
      : options(o), context(o.threads), shape(shape_of_about(o.mebibytes << 20)), layout(shape) {
    for (Buffer& array : arrays) array = Buffer(layout.flat_size() * 4);
    for (Buffer& array : arrays)
      for (std::int64_t i = 0; i < layout.flat_size(); ++i)
        reinterpret_cast<float*>(array.data())[i] = static_cast<float>(i % 8191);
    state.layout = &layout, state.shape = shape, state.extra = Value::make_table();
    const auto values = [&](Buffer& array) {
      return std::span(reinterpret_cast<float*>(array.data()), static_cast<std::size_t>(layout.flat_size()));
    };
    state.masters = values(arrays[0]), state.exp_avg = values(arrays[1]), state.exp_avg_sq = values(arrays[2]);
    bytes = bytes_of_share(pieces_of_share(layout, ""));
  }
  double now() const { return static_cast<double>(clock.monotonic_ns()) * 1e-9; }

  // Seconds to copy as much memory as a share has, with the same threads.
  double copy_seconds() {
    if (target.bytes() == 0) target = *PageBuffer::create(arrays[0].bytes());
    const double begun = now();
    for (const Buffer& array : arrays)
      parallel_for(context, array.bytes(), 1 << 18, [&](std::int64_t begin, std::int64_t end) {
        std::memcpy(target.data() + begin, array.data() + begin, static_cast<std::size_t>(end - begin));
      });
    return (now() - begun) * static_cast<double>(bytes) / static_cast<double>(3 * arrays[0].bytes());
  }

  struct Save {
    double begun = 0, whole = 0;  // seconds until the training may go on, until the checkpoint is whole
    bool direct = false;
  };
  Save save(CheckpointSaver& saver) {
    CollectiveGroup alone;
    ++state.progress.step;
    Save save;
    const double start = now();
    const Status started = saver.start(alone, state);
    save.begun = now() - start;
    if (!started.ok()) fail(started.error());
    const auto saved = saver.finish(alone);
    save.whole = now() - start;
    if (!saved.ok()) fail(saved.error());
    save.direct = saved->direct_io;
    return save;
  }
  [[noreturn]] static void fail(const Error& error) {
    std::fprintf(stderr, "checkpoint_stall: %s\n", error.message().c_str());
    std::exit(1);
  }

  Options options;
  SystemClock clock;
  ComputeContext context;
  ModelShape shape;
  ParameterLayout layout;
  Buffer arrays[3];
  PageBuffer target;
  TrainingState state;
  std::int64_t bytes = 0;
};

double best(std::vector<double> seconds) {
  return *std::min_element(seconds.begin(), seconds.end());
}
double middle(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  Bench bench(parse(argc, argv));
  const std::string folder = format("{}/longhaul-checkpoint-stall-{}", bench.options.folder, ::getpid());
  const CheckpointStore store(bench.clock, folder, 1);
  CheckpointSaverOptions background, buffered, direct;
  background.compute = &bench.context;
  buffered.asynchronous = direct.asynchronous = false;
  direct.direct_io = true;
  CheckpointSaver in_background(bench.clock, store, background), blocking(bench.clock, store, buffered),
      past_cache(bench.clock, store, direct);
  if (const Status reserved = in_background.reserve(bench.layout); !reserved.ok()) Bench::fail(reserved.error());

  std::vector<double> copy, stall, whole, with_cache, without_cache;
  bool is_direct = true;
  for (int i = 0; i < bench.options.tries; ++i) {
    copy.push_back(bench.copy_seconds());
    const Bench::Save beside = bench.save(in_background);
    stall.push_back(beside.begun), whole.push_back(beside.whole);
    with_cache.push_back(bench.save(blocking).whole);
    const Bench::Save past = bench.save(past_cache);
    without_cache.push_back(past.whole), is_direct &= past.direct;
  }
  [[maybe_unused]] const Status removed = remove_tree(folder);

  const double gigabytes = static_cast<double>(bench.bytes) * 1e-9, bar = 1.2 * best(copy);
  std::printf("share %.3f GB, %d threads, %d tries; best of them (middle)\n", gigabytes, bench.options.threads,
              bench.options.tries);
  std::printf("memory copy            %7.1f ms (%.1f)  %.2f GB/s\n", best(copy) * 1e3, middle(copy) * 1e3,
              gigabytes / best(copy));
  std::printf("asynchronous, blocking %7.1f ms (%.1f)  bar 1.2 x copy = %.1f ms: %.2f x copy, %s\n", best(stall) * 1e3,
              middle(stall) * 1e3, bar * 1e3, best(stall) / best(copy), best(stall) <= bar ? "holds" : "MISSED");
  std::printf("asynchronous, whole    %7.1f ms (%.1f)\n", best(whole) * 1e3, middle(whole) * 1e3);
  const auto row = [&](const char* name, const std::vector<double>& seconds) {
    std::printf("%-22s %7.1f ms (%.1f)  %.2f GB/s, blocks %.1f x as long as asynchronous\n", name, best(seconds) * 1e3,
                middle(seconds) * 1e3, gigabytes / best(seconds), middle(seconds) / middle(stall));
  };
  row("blocking, page cache", with_cache);
  row(is_direct ? "blocking, direct I/O" : "blocking (no direct!)", without_cache);
  return best(stall) <= bar ? 0 : 1;
}
