// What a device records it does later, as often as it is asked to; what cannot be recorded ends the program and names
// itself. On the emulated GPU, whose memory the host cannot touch either.
#ifndef __SANITIZE_ADDRESS__  // which does not know the stacks of the emulation's fibers
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <string>

#include "engine/core/tensor/transfer.h"
#include "engine/ops/linear/gemm.h"
#include "engine/ops/pointwise/elementwise.h"
#include "tests/support/emulated_gpu/emulated_device.h"
#include "tests/support/failure_lines.h"

using namespace longhaul;
using longhaul::testing::failure_lines;

namespace {

struct RecordingSetup {
  testing::EmulatedGpu gpu;
  Device& device = gpu.device();
  MemoryAccount account{.device = &device};
  const ComputeContext& context = gpu.context();
  Tensor x{DType::f32, {16}, &account}, y{DType::f32, {16}, &account};
  std::vector<float> values(const Tensor& tensor) const {
    std::vector<float> out(16);
    copy_out(context, tensor, out);
    return out;
  }
};

// Whether a process that reads there ends by a segmentation fault.
bool ended_by_touching(const std::byte* at) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGSEGV, SIG_DFL);
    const std::byte found = *static_cast<const volatile std::byte*>(at);
    ::_exit(found == std::byte{255} ? 1 : 0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

}  // namespace

TEST_CASE("kernels, products and copies are kept while they are recorded, and done by every replay, in their order") {
  RecordingSetup s;
  Tensor identity(DType::f32, {4, 4}, &s.account), product(DType::f32, {16}, &s.account);
  std::vector<float> ones(16, 0.0F);
  for (std::size_t i = 0; i < 4; ++i) ones[5 * i] = 2;
  copy_in(s.context, ones, identity);
  GemmShape shape{.m = 4, .n = 4, .k = 4};
  const auto work = s.device.record("a test", [&] {
    add(s.context, s.x, s.y, s.y);
    gemm(s.context, shape, s.y, identity, product);
    s.device.copy(product.view().data(), s.x.view().data(), product.bytes());
  });
  fill(s.context, s.x, 1);
  CHECK(s.values(s.y) == std::vector<float>(16, 0));  // nothing was done yet
  work->replay();
  CHECK(s.values(s.y) == std::vector<float>(16, 1));
  CHECK(s.values(s.x) == std::vector<float>(16, 2));
  work->replay();  // x = 2: y = 3, x = 6
  CHECK(s.values(s.y) == std::vector<float>(16, 3));
  CHECK(s.values(s.x) == std::vector<float>(16, 6));
}

TEST_CASE("memory of the emulated GPU cannot be touched but by what it is asked for") {
  testing::EmulatedDevice device(true);
  // Less than a huge page, and several of them.
  for (const std::int64_t bytes : {std::int64_t{64}, std::int64_t{5} << 20}) {
    std::byte* memory = *device.allocate(bytes);
    for (std::byte* at : {memory, memory + bytes / 2, memory + bytes - 1}) {
      CHECK(ended_by_touching(at));
      device.open();
      *at = std::byte{1};
      CHECK_FALSE(ended_by_touching(at));
      device.close();
      CHECK(ended_by_touching(at));
    }
  }
}

TEST_CASE("what cannot be recorded ends the program and names itself and what was being recorded") {
  RecordingSetup s;
  float number = 0;
  const auto dies = [&](const std::string& call, const std::function<void()>& ask) {
    CAPTURE(call);
    const std::string said = failure_lines([&] { (void)s.device.record("a step of 7 sequences", ask); });
    CAPTURE(said);
    CHECK(said.find(call + " while a step of 7 sequences is recorded") != std::string::npos);
  };
  dies("allocate", [&] { (void)s.device.allocate(8); });
  dies("allocate", [&] { Tensor more(DType::f32, {4}, &s.account); });
  dies("release", [&] { s.x = Tensor(); });
  dies("copy_in", [&] { s.device.copy_in(&number, s.x.view().data(), 4); });
  dies("copy_out", [&] { s.device.copy_out(s.x.view().data(), &number, 4); });
  dies("allocate", [&] { (void)sum(s.context, s.y.span<float>()); });
  (void)sum(s.context, s.y.span<float>());  // now it has its scratch memory; its answer is what is left
  dies("copy_out", [&] { (void)sum(s.context, s.y.span<float>()); });
  dies("finish", [&] { s.device.finish(); });
  dies("queue", [&] { (void)s.device.queue(); });
  dies("record", [&] { (void)s.device.record("another", [] {}); });
  const std::string end = failure_lines([&] {
    (void)s.device.record("a host's read", [&] {
      fill(s.context, s.x, 1);
      number = *s.x.span<float>().data();
      ::_exit(number > 2 ? 1 : 0);  // so that the read is made
    });
  });
  CAPTURE(end);  // qemu's emulation of a process reports the signal itself
  CHECK((end == "a signal" || end.find("uncaught target signal 11") != std::string::npos));
}

TEST_CASE("a replay after memory was released ends the program; one that is dropped leaves nothing behind") {
  RecordingSetup s;
  auto work = s.device.record("a test", [&] { fill(s.context, s.x, 3); });
  work->replay();
  const std::int64_t before = s.device.releases();
  const std::string said = failure_lines([&] {
    s.y = Tensor();
    work->replay();
  });
  CHECK(said.find("memory was released") != std::string::npos);
  CHECK(s.device.releases() == before);
  work.reset();
  s.y = Tensor();
  CHECK(s.device.releases() == before + 1);
  CHECK(s.values(s.x) == std::vector<float>(16, 3));
}
#endif
