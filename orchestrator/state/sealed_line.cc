#include "orchestrator/state/sealed_line.h"

#include <charconv>

#include "base/digest/hash.h"
#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr std::string_view seal_begin = R"(,"sum":")", seal_end = R"("})";

std::string sum_of(std::string_view text, const LineSeal& seal) {
  const std::string numbers = format("{}.{}.{}.{}", seal.append, seal.line, seal.of, text.size());
  return format("{}.{:016x}", numbers, xxh3_64(std::string(text) + numbers));
}

bool take_number(std::string_view& text, std::int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end == text.data() + text.size() || *end != '.') return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()) + 1);
  return true;
}

}  // namespace

std::string seal_line(std::string_view line, const LineSeal& seal) {
  const std::string_view text = line.substr(0, line.size() - 1);  // without its closing brace
  return format("{}{}{}{}\n", text, seal_begin, sum_of(text, seal), seal_end);
}

CheckedLine check_line(std::string_view line) {
  const std::size_t at = line.rfind(seal_begin);
  if (at == std::string_view::npos)
    return {line.find('\0') == std::string_view::npos ? LineCheck::plain : LineCheck::bad};
  std::string_view sum = line.substr(at + seal_begin.size());
  CheckedLine checked{LineCheck::bad};
  if (sum.size() < seal_end.size() || sum.substr(sum.size() - seal_end.size()) != seal_end) return checked;
  sum.remove_suffix(seal_end.size());
  std::string_view numbers = sum;
  LineSeal& seal = checked.seal;
  if (!take_number(numbers, seal.append) || !take_number(numbers, seal.line) || !take_number(numbers, seal.of))
    return checked;
  if (sum == sum_of(line.substr(0, at), seal)) checked.check = LineCheck::sealed;
  return checked;
}

bool was_whole_once(const LogBreak& found) {
  if (!found.before && !found.after) return !found.has_hole;  // no seals: a hole is never somebody's mistake
  if (found.plain_after) return true;
  if (!found.after) return false;
  std::int64_t append = 0;  // that the bad line is of, at the latest
  if (found.before)
    append = found.before->line + 1 < found.before->of ? found.before->append : found.before->append + 1;
  return found.after->append > append;
}

}  // namespace longhaul
