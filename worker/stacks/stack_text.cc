#include "worker/stacks/stack_text.h"

#include <algorithm>
#include <map>
#include <memory>

#include "base/text/text.h"
#include "worker/stacks/native_stacks.h"
#include "worker/stacks/process_threads.h"

namespace longhaul {
namespace {

constexpr std::size_t processes_max = 16;
constexpr int threads_max = 256;

std::string title_line(const StackRequest& question, const Clock& clock) {
  const std::string process = question.pid > 0 ? format(", process {}", question.pid) : "";
  return format("{}{}, {}\n", question.title, process, utc_text(clock.wall_ms()));
}

std::string thread_line(const ThreadFacts& thread) {
  std::string line = format("  thread {} {}: {}", thread.tid, thread.name, state_text(thread.state));
  if (!thread.waits_in.empty()) line += " in " + thread.waits_in;
  if (!thread.syscall.empty()) line += ", " + thread.syscall;
  return line + "\n";
}

std::string indented(const std::string& text, const std::string& margin) {
  std::string all;
  for (const std::string& line : split(text, '\n')) all += margin + line + "\n";
  return all;
}

class ProcessText {
 public:
  ProcessText(pid_t pid, const Deadline& deadline) : pid_(pid), deadline_(deadline) {}

  std::string text() {
    const auto facts = process_facts(pid_, threads_max);
    if (!facts.ok()) return format("\n{}\n", facts.error().message());
    std::string text = format("\nprocess {} {}\n  {}\n", pid_, facts->program, facts->arguments);
    auto native = NativeStacks::open(pid_, deadline_);
    if (!native.ok()) text += "  no native stacks: " + native.error().message() + "\n";
    // First all threads, then all names: a thread is stopped no longer than its own walk takes.
    std::map<pid_t, NativeStack> stacks;
    std::int64_t longest_ns = 0;
    if (native.ok())
      for (const ThreadFacts& thread : facts->threads) {
        NativeStack& stack = stacks[thread.tid];
        if (deadline_.passed())
          stack.problem = "not looked at: the deadline of this dump has passed";
        else
          stack = (*native)->walk(thread.tid, deadline_);
        longest_ns = std::max(longest_ns, stack.stopped_ns);
      }
    if (longest_ns > 0)
      text += format("  {} threads; stopped for this one at a time, the longest for {:.2f} ms\n",
                     facts->threads.size() + static_cast<std::size_t>(facts->threads_left_out),
                     static_cast<double>(longest_ns) * 1e-6);
    for (const ThreadFacts& thread : facts->threads) {
      text += thread_line(thread);
      if (!thread.kernel_stack.empty()) text += indented(thread.kernel_stack, "    kernel ");
      if (native.ok()) text += frames(**native, stacks[thread.tid]);
    }
    if (facts->threads_left_out > 0) text += format("  {} more threads are left out\n", facts->threads_left_out);
    return text;
  }

 private:
  std::string frames(NativeStacks& native, const NativeStack& stack) {
    std::string text;
    for (std::size_t i = 0; i < stack.frames.size(); ++i) {
      const std::string name = deadline_.passed() ? "" : native.name(stack.frames[i]);
      text += format("    #{:<2} 0x{:012x} {}\n", i, stack.frames[i].address, name);
    }
    if (!stack.problem.empty()) text += "    " + stack.problem + "\n";
    return text;
  }

  pid_t pid_;
  const Deadline& deadline_;
};

}  // namespace

std::string stack_text(const StackRequest& question, const Clock& clock) {
  const Deadline deadline(clock, question.deadline_ms);
  std::string text = title_line(question, clock);
  const std::vector<pid_t> processes = process_and_descendants(question.pid, processes_max);
  for (const pid_t pid : processes) text += ProcessText(pid, deadline).text();
  if (processes.size() == processes_max) text += format("\nno more than {} processes are shown\n", processes_max);
  return text;
}

std::string short_stack_text(const StackRequest& question, const std::string& problem, const Clock& clock) {
  std::string text = title_line(question, clock) + "\nno stacks: " + problem + "\n";
  if (question.pid <= 0) return text;
  const auto facts = process_facts_at_once(question.pid, threads_max);
  if (!facts.ok()) return text + facts.error().message() + "\n";
  for (const ThreadFacts& thread : facts->threads) text += thread_line(thread);
  return text;
}

}  // namespace longhaul
