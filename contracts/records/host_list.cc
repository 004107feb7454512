#include "contracts/records/host_list.h"

#include <cstdlib>

#include "base/text/text.h"

namespace longhaul {
namespace {

constexpr std::size_t hosts_max = 1 << 18;

Error not_a_list(const std::string& text) {
  return make_error(ErrorCode::invalid_input, "'" + text + "' is no list of hosts", "for example n[1-3],n07");
}

bool is_number(const std::string& text) {
  return !text.empty() && text.size() < 10 && text.find_first_not_of("0123456789") == std::string::npos;
}

// "07-11": 07 08 09 10 11.
Result<std::vector<std::string>> expand_range(const std::string& range) {
  const std::vector<std::string> ends = split(range, '-');
  const std::string &first = ends.front(), &last = ends.back();
  if (ends.size() > 2 || !is_number(first) || !is_number(last)) return not_a_list(range);
  const int from = std::atoi(first.c_str()), to = std::atoi(last.c_str());
  if (to < from || static_cast<std::size_t>(to - from) >= hosts_max) return not_a_list(range);
  std::vector<std::string> numbers;
  for (int number = from; number <= to; ++number) {
    std::string digits = std::to_string(number);
    if (digits.size() < first.size()) digits.insert(0, first.size() - digits.size(), '0');
    numbers.push_back(std::move(digits));
  }
  return numbers;
}

// One name with any number of brackets behind `head`.
Status expand_name(const std::string& head, const std::string& rest, std::vector<std::string>& hosts) {
  const std::size_t open = rest.find('['), close = rest.find(']');
  if (open == std::string::npos) {
    if (close != std::string::npos || head.size() + rest.size() == 0 || hosts.size() >= hosts_max)
      return not_a_list(head + rest);
    hosts.push_back(head + rest);
    return {};
  }
  if (close == std::string::npos || close < open) return not_a_list(rest);
  for (const std::string& range : split(rest.substr(open + 1, close - open - 1), ',')) {
    LH_TRY(const auto numbers, expand_range(range));
    for (const std::string& number : numbers)
      LH_CHECK(expand_name(head + rest.substr(0, open) + number, rest.substr(close + 1), hosts));
  }
  return {};
}

}  // namespace

Result<std::vector<std::string>> expand_host_list(const std::string& text) {
  std::vector<std::string> hosts;
  std::string name;
  int depth = 0;
  for (const char c : text + ",") {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c != ',' || depth > 0) {
      name += c;
      continue;
    }
    LH_CHECK(expand_name("", name, hosts));
    name.clear();
  }
  if (depth != 0) return not_a_list(text);
  return hosts;
}

}  // namespace longhaul
