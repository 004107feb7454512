// A table of comma separated values with a head, as the benches of the autotuner read them (RFC 4180 without line
// breaks in fields).
#pragma once

#include <string>
#include <vector>

#include "base/error/result.h"

namespace longhaul::bench {

// One row, by the names of the head. Lives as long as its table.
class CsvRow {
 public:
  CsvRow(const std::vector<std::string>& names, const std::vector<std::string>& fields)
      : names_(names), fields_(fields) {}
  const std::string& text(const std::string& name) const;  // empty where there is no such column
  double number(const std::string& name, double otherwise = 0) const;
  int whole(const std::string& name, int otherwise = 0) const { return static_cast<int>(number(name, otherwise)); }
  bool has(const std::string& name) const { return !text(name).empty(); }

 private:
  const std::vector<std::string>& names_;
  const std::vector<std::string>& fields_;
};

struct CsvTable {
  std::vector<std::string> names;
  std::vector<std::vector<std::string>> rows;  // as many fields each as there are names
  CsvRow row(std::size_t index) const { return {names, rows[index]}; }
};

// Errors: not_found, and corrupt where a row has another number of fields than the head.
Result<CsvTable> read_csv(const std::string& path);

}  // namespace longhaul::bench
